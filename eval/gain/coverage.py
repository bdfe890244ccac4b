# SPDX-License-Identifier: Apache-2.0
"""Measures how often the report's 95 % intervals contain the true effect, and how often the report finds an
effect.

Every experiment goes through `daemon.gain.report.report`, the code of `ltp-switcher report`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from ltp_switcher.daemon.gain.report import MEASURES, report
from ltp_switcher.daemon.gain.rows import Rows
from ltp_switcher.eval.gain import simulated_log
from ltp_switcher.eval.gain.simulated_log import Effects

Z: Final = 1.959964
NONE: Final = Effects()


@dataclass(frozen=True, slots=True)
class Design:
    """The design of an experiment. `make(seed, effects)` returns a simulated log."""

    name: str
    size: str
    make: Callable[[int, Effects], Rows]


@dataclass(frozen=True, slots=True)
class Share:
    """A share of experiments, and the share's 95 % interval (Wilson, 1927)."""

    count: int
    of: int

    @property
    def value(self) -> float:
        """The share; NaN without experiments."""
        return self.count / self.of if self.of else math.nan

    @property
    def interval(self) -> tuple[float, float]:
        """The lower and the upper end of the interval; NaN without experiments."""
        if not self.of:
            return math.nan, math.nan
        n, p = self.of, self.value
        middle, half = p + Z**2 / (2 * n), Z * math.sqrt(p * (1 - p) / n + Z**2 / (4 * n**2))
        return (middle - half) / (1 + Z**2 / n), (middle + half) / (1 + Z**2 / n)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The reports of all experiments of one design, judged by one measure.

    Attributes:
        covered: share of the intervals that contained the true effect.
        found: share of the reports with an interval that excludes 0, on the true effect's side.
        unknown: number of reports without an interval.
        bias: median error of the estimated effects, in the effect's own unit.
    """

    design: str
    size: str
    measure: str
    effect: float
    covered: Share
    found: Share
    unknown: int
    bias: float


def holdback(prefixes: int, share: float, *, before: bool) -> Design:
    """Return the design of a holdback: a share of the prefixes keeps the baseline. With `before`, the log
    begins a day before the experiment.
    """
    size = f"{prefixes} prefixes, {share:.0%} held back" + (", log of the day before" if before else "")
    return Design("holdback", size, partial(_holdback, prefixes, share, before))


def switchback(blocks: int, prefixes: int = 30) -> Design:
    """Return the design of a switchback: in each time block, all flows have either the baseline or the
    treatment, by lot.
    """
    size = f"{blocks} blocks ({blocks * simulated_log.BLOCK_S / 86_400:g} days), {prefixes} prefixes"
    return Design("switchback", size, partial(_switchback, blocks, prefixes))


def judge(
    design: Design, experiments: int, seed: int, pool: ProcessPoolExecutor | None, effect: float = 0.0
) -> Iterator[int | list[Outcome]]:
    """Simulate experiments with the relative effect `effect` on goodput, and report each. Yield the number
    done after each experiment, and finally the outcomes.

    Experiment i has the seed `seed + i`. Without a pool, experiments run in this process.
    """
    run = partial(one, design.make, effect)
    seeds = range(seed, seed + experiments)
    results = map(run, seeds) if pool is None else pool.map(run, seeds, chunksize=8)
    found = []
    for number, result in enumerate(results, 1):
        found.append(result)
        yield number
    truth = {"goodput": effect, "completion_time": 1 / (1 + effect) - 1, "reward": (1 + effect) ** 2 - 1}
    yield [_outcome(design, measure, truth.get(measure, 0.0), found) for measure in MEASURES]


Result = Mapping[str, tuple[float, float, float] | None]


def one(make: Callable[[int, Effects], Rows], effect: float, seed: int) -> Result:
    """Simulate one experiment. Return the overall effects of its report by measure: value, lower bound and
    upper bound.
    """
    overall = report(make(seed, Effects(goodput=effect)), simulated_log.NAMES).overall
    return {name: None if e is None else (e.value, e.lower, e.upper) for name, e in overall.items()}


def _outcome(design: Design, measure: str, effect: float, results: list[Result]) -> Outcome:
    known = [found for result in results if (found := result[measure]) is not None]
    covered = sum(lower <= effect <= upper for _, lower, upper in known)
    beyond = sum(lower > 0 if effect >= 0 else upper < 0 for _, lower, upper in known)
    bias = float(np.median([value for value, _, _ in known]) - effect) if known else math.nan
    return Outcome(
        design.name, design.size, measure, effect, Share(covered, len(known)), Share(beyond, len(results)),
        len(results) - len(known), bias,
    )  # fmt: skip


def _holdback(prefixes: int, share: float, before: bool, seed: int, effects: Effects) -> Rows:
    return simulated_log.holdback(seed, prefixes, share, effects, before=before)


def _switchback(blocks: int, prefixes: int, seed: int, effects: Effects) -> Rows:
    return simulated_log.switchback(seed, blocks, prefixes, effects)
