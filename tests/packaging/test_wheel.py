# SPDX-License-Identifier: Apache-2.0
"""The wheel has every module of the package's top level: one that it lacks fails on a server alone."""

from __future__ import annotations

import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_wheel_has_every_module_of_the_top_level() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    included = project["tool"]["hatch"]["build"]["targets"]["wheel"]["only-include"]
    modules = {path.relative_to(ROOT).as_posix() for path in (ROOT / "src/ltp_switcher").glob("*.py")}
    assert "src/ltp_switcher/__init__.py" in modules
    assert modules <= set(included)
