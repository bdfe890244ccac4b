# SPDX-License-Identifier: Apache-2.0
"""A claim: its paths, the schemes that run on these paths, and the figures that the schemes must reach."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ltp_switcher.eval.run.results import Job, RunResult
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.figures import Figure, Target

BASELINES: Final = ("cubic", "bbr", "vegas")
"""Schemes that run on the same paths for comparison."""
SEEDS: Final = (1, 2, 3)

Paths = Mapping[str, Scenario]
"""A claim's scenarios by a unique label. A run puts its own scheme in place of the flows' schemes."""
Measure = Callable[[RunResult], float]


class Results:
    """The outcomes of a claim's runs, by path and scheme, one for each seed."""

    def __init__(self, outcomes: Mapping[tuple[str, str], Sequence[RunResult]]) -> None:
        self._outcomes = outcomes
        self.paths: tuple[str, ...] = tuple(dict.fromkeys(path for path, _ in outcomes))
        self.schemes: tuple[str, ...] = tuple(dict.fromkeys(scheme for _, scheme in outcomes))

    def outcomes(self, path: str, scheme: str) -> Sequence[RunResult]:
        """Return the runs of a scheme on a path, by seed."""
        return self._outcomes[path, scheme]

    def mean(self, measure: Measure, path: str, scheme: str) -> float:
        """Return a measure's mean over the seeds of a scheme on a path."""
        return statistics.fmean(measure(outcome) for outcome in self._outcomes[path, scheme])

    def over_paths(self, measure: Measure, scheme: str) -> dict[str, float]:
        """Return a measure's mean over the seeds on every path, by the path's label."""
        return {path: self.mean(measure, path, scheme) for path in self.paths}

    def by_seed(self) -> list[Results]:
        """Return the results of each seed alone."""
        seeds = min(map(len, self._outcomes.values()), default=0)
        return [Results({at: [row[seed]] for at, row in self._outcomes.items()}) for seed in range(seeds)]


@dataclass(frozen=True, slots=True)
class Spread:
    """The distribution of measures over the paths, with targets for the mean and the quantiles.

    Attributes:
        measures: measures by their captions.
        mean: the target of each measure's mean over the paths.
        quantiles: the targets of quantiles over the paths, by the quantile, 0 to 1.
    """

    measures: Mapping[str, Measure]
    mean: Target
    quantiles: Mapping[float, Target]

    @staticmethod
    def mean_of(caption: str) -> str:
        """Return the name of the figure that is a measure's mean over the paths."""
        return f"mean {caption}"

    @staticmethod
    def quantile_of(caption: str, share: float) -> str:
        """Return the name of the figure that is a measure's quantile over the paths."""
        return f"{100 * share:g}th percentile of {caption}"


@dataclass(frozen=True, slots=True)
class Claim:
    """A paper's claim, and the way to test it.

    Attributes:
        name: the name on the command line.
        text: the claim in words.
        schemes: the schemes that are judged.
        paths: function that makes the paths; its argument asks for few and short ones.
        judge: function that makes the figures from the results, for the judged schemes and the others.
            `Results.schemes` lacks schemes that cannot run.
        every_flow: whether the scheme runs on all flows of a path, not only on the first.
        seeds: seeds of the runs. Each path and scheme has one run for each seed.
        baselines: schemes that also run, unless they are turned off.
        against: baselines to which figures are relative. These always run.
        quick: the part that is shorter in a quick run.
        sweep: a caption and a measure to draw over the paths, whose labels are "factor value".
        band: the range in which the swept measure must be on every path; it is drawn behind the measure.
        spread: measures to draw over the paths, without an order of the paths.
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
    band: Target | None = None
    spread: Spread | None = None

    def jobs(self, schemes: Sequence[str], *, quick: bool, kernel: str) -> dict[tuple[str, str], list[Job]]:
        """Return the runs of these schemes, by path and scheme."""
        seeds = self.seeds[:1] if quick else self.seeds
        return {
            (label, scheme): [
                Job(scenario.with_scheme(scheme, every_flow=self.every_flow), seed, kernel, daemon="inside")
                for seed in seeds
            ]
            for label, scenario in self.paths(quick).items()
            for scheme in schemes
        }
