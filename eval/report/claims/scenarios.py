# SPDX-License-Identifier: Apache-2.0
"""The scenarios (a link and its flows) on which the papers' claims are checked: the files in
`scenarios/claims`, and copies of them with another duration or another link.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ltp_switcher.eval.report.claims.claim import Paths
from ltp_switcher.eval.run.bundled import SCENARIOS
from ltp_switcher.eval.run.scenario import Scenario, load_scenario


def bundled(name: str, *, duration_s: float | None = None) -> Scenario:
    """Load `scenarios/claims/<name>.toml`. With `duration_s`, scale it as `scaled` does.

    Raises:
        ConfigError: there is no such file, or it is not valid.
    """
    scenario = load_scenario(SCENARIOS / "claims" / f"{name}.toml")
    return scenario if duration_s is None else scaled(scenario, duration_s)


def scaled(scenario: Scenario, duration_s: float) -> Scenario:
    """Return the scenario scaled so that it lasts `duration_s` seconds. The times of flows and steps are
    scaled, but not the times of walks, handovers and requests.
    """
    by = duration_s / scenario.duration_s
    flows = tuple(
        replace(flow, start_s=flow.start_s * by, stop_s=flow.stop_s * by) for flow in scenario.flows
    )
    steps = tuple(replace(step, at_s=step.at_s * by) for step in scenario.link.steps)
    return replace(scenario, duration_s=duration_s, flows=flows, link=replace(scenario.link, steps=steps))


def with_link(scenario: Scenario, **changes: float | None) -> Scenario:
    """Return the scenario with properties of its link replaced."""
    return replace(scenario, link=replace(scenario.link, **changes))  # type: ignore[arg-type]


def swept(scenario: Scenario, factors: Mapping[str, tuple[float, ...]]) -> Paths:
    """Return the scenario several times, each with another value of one property of its link. The keys are
    "property value".
    """
    return {
        f"{factor} {value:g}": with_link(scenario, **{factor: value})
        for factor, values in factors.items()
        for value in values
    }
