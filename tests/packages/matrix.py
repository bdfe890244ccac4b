# SPDX-License-Identifier: Apache-2.0
"""The results: a row for each step, a column for each release of Debian."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

Check = Mapping[str, object]


@dataclass(frozen=True)
class Result:
    """One machine's run. `key` names its inputs, `sizes` has (bytes, KiB installed) of each package."""

    release: str
    key: str
    revision: str
    older: str
    kernel: str
    wall_s: float
    sizes: Mapping[str, tuple[int, int]]
    checks: Sequence[Check]

    @property
    def good(self) -> bool:
        """Whether the machine came to its end, and every check passed."""
        return bool(self.checks) and self.checks[-1]["step"] == "end" and all(c["ok"] for c in self.checks)

    def steps(self) -> dict[str, tuple[int, int]]:
        """Checks that passed, and all checks, of each step in order."""
        found: dict[str, tuple[int, int]] = {}
        for check in self.checks:
            if check["step"] not in ("machine", "end"):
                good, all_of_them = found.get(str(check["step"]), (0, 0))
                found[str(check["step"])] = (good + bool(check["ok"]), all_of_them + 1)
        return found

    def save(self, path: Path) -> None:
        """Write the result, so that the run is not repeated."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(self.__dict__, indent=1) + "\n")
        partial.rename(path)

    @classmethod
    def load(cls, path: Path) -> Result | None:
        """A saved result, if there is one that can be read."""
        try:
            told = json.loads(path.read_text())
            return cls(**{**told, "sizes": {name: tuple(size) for name, size in told["sizes"].items()}})
        except (OSError, ValueError, TypeError, KeyError):
            return None


def table(results: Sequence[Result]) -> Table:
    """Passed checks of all checks, for each step and release."""
    made = Table("step")
    for result in results:
        made.add_column(result.release, justify="right")
    steps = dict.fromkeys(step for result in results for step in result.steps())
    for step in steps:
        made.add_row(step, *(_cell(result.steps().get(step)) for result in results))
    made.add_row("all", *("pass" if result.good else "[red]fail[/]" for result in results), end_section=True)
    for name in dict.fromkeys(name for result in results for name in result.sizes):
        cells = (result.sizes.get(name) for result in results)
        made.add_row(f"{name}, MB / MiB installed", *(_size(cell) for cell in cells))
    return made


def _cell(of: tuple[int, int] | None) -> str:
    if of is None:
        return "[red]not reached[/]"
    good, all_of_them = of
    return f"pass {good}" if good == all_of_them else f"[red]fail {good} of {all_of_them}[/]"


def _size(of: tuple[int, int] | None) -> str:
    return "" if of is None else f"{of[0] / 1e6:.1f} / {of[1] / 1024:.1f}"


def as_json(results: Sequence[Result]) -> str:
    """All results with every check."""
    return json.dumps([{**result.__dict__, "good": result.good} for result in results], indent=1)


def faults(result: Result) -> list[str]:
    """Each failed check with what it said."""
    return [
        f"{result.release}: {check['step']}: {check['check']}: {check['said']}"
        for check in result.checks
        if not check["ok"]
    ]
