# SPDX-License-Identifier: Apache-2.0
"""A claim: the paths that it speaks of, the schemes that run on them, and what their results must reach."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final

from ltp_switcher.eval.run.results import Job, RunResult
from ltp_switcher.eval.run.scenario import Scenario

BASELINES: Final = ("cubic", "bbr", "vegas")
"""Run beside every scheme that is judged."""
SEEDS: Final = (1, 2, 3)

Paths = Mapping[str, Scenario]
"""Scenarios by a label that tells what is particular of each; the scheme replaces the flows'."""
Measure = Callable[[RunResult], float]


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure must reach: a range, its ends included; or less than `below`."""

    low: float = -math.inf
    high: float = math.inf
    below: float = math.inf

    def met(self, value: float) -> bool:
        """Tell whether a value reaches it; NaN does not."""
        return self.low <= value <= self.high and (value < self.below or self.below == math.inf)

    def __str__(self) -> str:
        """Write it as people do."""
        if self.below != math.inf:
            return f"< {self.below:g}"
        if self.high == math.inf:
            return f"≥ {self.low:g}"
        return f"≤ {self.high:g}" if self.low == -math.inf else f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One number that a scheme came to. Without a target it is there to compare."""

    scheme: str
    what: str
    value: float
    target: Target | None = None

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        met = None if self.target is None else self.target.met(self.value)
        return {**asdict(self), "target": None if self.target is None else str(self.target), "met": met}


class Results:
    """The outcomes of a claim's runs, by path and scheme, one a seed."""

    def __init__(self, outcomes: Mapping[tuple[str, str], Sequence[RunResult]]) -> None:
        self._outcomes = outcomes
        self.paths: tuple[str, ...] = tuple(dict.fromkeys(path for path, _ in outcomes))
        self.schemes: tuple[str, ...] = tuple(dict.fromkeys(scheme for _, scheme in outcomes))

    def outcomes(self, path: str, scheme: str) -> Sequence[RunResult]:
        """The runs of a scheme on a path, by seed."""
        return self._outcomes[path, scheme]

    def mean(self, measure: Measure, path: str, scheme: str) -> float:
        """A measure's mean over the seeds."""
        return statistics.fmean(measure(outcome) for outcome in self._outcomes[path, scheme])

    def over_paths(self, measure: Measure, scheme: str) -> dict[str, float]:
        """The same on every path, by its label."""
        return {path: self.mean(measure, path, scheme) for path in self.paths}


@dataclass(frozen=True, slots=True)
class Claim:
    """A row of the table of claims.

    Attributes:
        name: by which it is asked for.
        text: what is claimed.
        schemes: those that are judged.
        paths: where they run; told whether few short runs will do.
        judge: from the results to the figures, of the judged schemes and of the others. `Results.schemes`
            lacks schemes that cannot be run.
        every_flow: the scheme runs on all flows of a path, not on the first alone.
        seeds: runs of each path and scheme.
        baselines: what runs beside them, where asked for.
        against: of these, what the figures are relative to.
        quick: what becomes of the runs where few short ones will do.
        sweep: what to draw over the paths, whose labels are "factor value": a caption and its measure.
        spread: what to draw of how the paths differ: measures by their captions.
    """

    name: str
    text: str
    schemes: tuple[str, ...]
    paths: Callable[[bool], Paths]
    judge: Callable[[Results], Iterable[Figure]]
    every_flow: bool = False
    seeds: tuple[int, ...] = SEEDS
    baselines: tuple[str, ...] = BASELINES
    against: tuple[str, ...] = ()
    quick: str = "one seed"
    sweep: tuple[str, Measure] | None = None
    spread: Mapping[str, Measure] = field(default_factory=dict)

    def jobs(self, schemes: Sequence[str], *, quick: bool, kernel: str) -> dict[tuple[str, str], list[Job]]:
        """The runs of these schemes, by path and scheme."""
        seeds = self.seeds[:1] if quick else self.seeds
        return {
            (label, scheme): [
                Job(scenario.with_scheme(scheme, every_flow=self.every_flow), seed, kernel) for seed in seeds
            ]
            for label, scenario in self.paths(quick).items()
            for scheme in schemes
        }
