# SPDX-License-Identifier: Apache-2.0
"""The scenarios that come with the project, found by name."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.run.scenario import Scenario, load_scenario

SCENARIOS: Final = Path(__file__).resolve().parents[1] / "scenarios"


def bundled_scenarios() -> dict[str, Scenario]:
    """Load the bundled scenarios, by name, without the claims' scenarios."""
    return {path.stem: load_scenario(path) for path in sorted(SCENARIOS.glob("*.toml"))}


def find_scenario(name: str) -> Scenario:
    """Load a bundled scenario by its name, or any scenario by its path.

    Raises:
        ConfigError: there is no such scenario, or it is not valid.
    """
    bundled = SCENARIOS / f"{name}.toml"
    if "/" not in name and not name.endswith(".toml") and bundled.is_file():
        return load_scenario(bundled)
    if not Path(name).is_file():
        names = ", ".join(path.stem for path in sorted(SCENARIOS.glob("*.toml")))
        raise ConfigError("scenario", name, f"a TOML file, or one of {names}")
    return load_scenario(Path(name))
