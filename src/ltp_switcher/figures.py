# SPDX-License-Identifier: Apache-2.0
"""Measured figures, with their intervals and targets, and the table that shows them."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Final

from rich.console import Console
from rich.table import Table

_VERDICTS: Final = {None: "", True: "met", False: "missed"}
# Quantiles of Student's t, 97.5 %, for 1, 2, … degrees of freedom (R. A. Fisher, Statistical Methods, table
# IV).
_STUDENT: Final = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228)
_NORMAL: Final = 1.96


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over repeats, and half of the width of its 95 % interval. The half-width is NaN for a single
    repeat.

    The interval comes from Student's t, or from the normal distribution if there are more than 11 repeats.
    """

    mean: float
    half: float

    @staticmethod
    def of(values: Sequence[float]) -> Estimate:
        """Make the estimate from `values`, one for each repeat."""
        count = len(values)
        if count < 2:
            return Estimate(fmean(values), math.nan)
        student = _STUDENT[count - 2] if count - 2 < len(_STUDENT) else _NORMAL
        return Estimate(fmean(values), student * stdev(values) / math.sqrt(count))


@dataclass(frozen=True, slots=True)
class Target:
    """The range that a figure must reach: from `low` to `high`, both included. With `below`, the figure must
    also be less than `below`.
    """

    low: float = -math.inf
    high: float = math.inf
    below: float = math.inf

    def met(self, value: float) -> bool:
        """Return whether a value reaches the target. NaN never does."""
        return self.low <= value <= self.high and (value < self.below or self.below == math.inf)

    def __str__(self) -> str:
        """Write the target as people do, such as "≥ 0.9"."""
        if self.below != math.inf:
            return f"< {self.below:g}"
        if self.high == math.inf:
            return f"≥ {self.low:g}"
        return f"≤ {self.high:g}" if self.low == -math.inf else f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that a scheme (a congestion control, or a way to choose one) reached. A figure without a
    target is shown for comparison only.

    `spread` has the least and the largest value over seeds; None if there is one seed.
    """

    scheme: str
    what: str
    value: float
    target: Target | None = None
    spread: tuple[float, float] | None = None

    @property
    def quantity(self) -> str:
        """The measured quantity, without the place in parentheses at which a scheme is worst. So worst cases
        of several schemes can be compared.
        """
        return self.what.partition(" (")[0] if self.what.startswith("least") else self.what

    @property
    def met(self) -> bool | None:
        """Whether the figure reaches its target; None if it has no target."""
        return None if self.target is None else self.target.met(self.value)

    def to_dict(self) -> dict[str, object]:
        """Return the figure as plain values for JSON."""
        return {
            **asdict(self),
            "target": None if self.target is None else str(self.target),
            "met": self.met,
        }


def show(figures: Sequence[Figure], *, as_json: bool) -> None:
    """Print the figures as a table, or as a JSON list of `Figure.to_dict`."""
    if as_json:
        print(json.dumps([figure.to_dict() for figure in figures], indent=1))
        return
    table = Table("scheme", "figure", "measured", "target", "")
    for figure in figures:
        target = "" if figure.target is None else str(figure.target)
        table.add_row(figure.scheme, figure.what, f"{figure.value:.3f}", target, _VERDICTS[figure.met])
    Console().print(table)
