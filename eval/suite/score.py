# SPDX-License-Identifier: Apache-2.0
"""Scores of the suite: the reward of each scheme relative to the reward of the best arm in hindsight.

The best arm of a path is the arm with the largest mean over its seeds, never the best of single runs. The
largest of noisy numbers would be a bound that no arm reaches. Means over paths are geometric. Their intervals
come from drawing the paths anew (bootstrap).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np

from ltp_switcher.eval.run.summary import Summary
from ltp_switcher.eval.suite.paths import family
from ltp_switcher.eval.suite.plan import Run, is_arm

DRAWS: Final = 2000
LEVEL: Final = 0.95
LEAST: Final = 1e-3
"""Smallest share in geometric means. A smaller one is raised to it, because zero has no logarithm."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The results of a scheme on a path. `rewards` has the mean over the flows of each seed. The other fields
    are means over the seeds and over the flows that ran the scheme, with units in their names.
    """

    rewards: tuple[float, ...]
    throughput_mbps: float
    rtt_mean_ms: float
    loss: float
    jain: float
    switches: float
    arm_share: Mapping[str, float]

    @property
    def reward(self) -> float:
        """Mean reward over the seeds."""
        return fmean(self.rewards)


@dataclass(frozen=True, slots=True)
class PathScore:
    """The scores on a path: its cells by scheme, and the best arm in hindsight."""

    name: str
    kind: str
    cells: Mapping[str, Cell]

    @property
    def best_arm(self) -> str:
        """The arm with the largest mean reward."""
        return max(filter(is_arm, self.cells), key=lambda arm: self.cells[arm].reward)

    @property
    def earned(self) -> bool:
        """Whether any arm earned a reward. If none did, schemes cannot be compared on this path."""
        return any(self.cells[arm].reward > 0 for arm in filter(is_arm, self.cells))

    def share(self, scheme: str) -> float:
        """Return the scheme's reward over the best arm's, at least `LEAST`, where `earned` is true."""
        return max(LEAST, self.cells[scheme].reward / self.cells[self.best_arm].reward)


@dataclass(frozen=True, slots=True)
class Mean:
    """Geometric mean of shares over paths, with the bounds of its interval."""

    value: float
    low: float
    high: float
    paths: int


@dataclass(frozen=True, slots=True)
class Over:
    """A scheme compared with an arm on the same paths: the geometric mean of the ratio of their rewards."""

    scheme: str
    arm: str
    by_path: Mean
    """The mean, with an interval that comes from drawing the paths anew."""
    by_family: Mean
    """The mean, with an interval that comes from drawing whole families anew, because the paths of a family
    are alike.
    """


def score(runs: Iterable[tuple[Run, Summary]]) -> list[PathScore]:
    """Return the score of each path from its runs, in order of first appearance."""
    found: dict[tuple[str, str], dict[str, list[Summary]]] = {}
    for run, summary in runs:
        found.setdefault((run.path, run.kind), {}).setdefault(run.scheme, []).append(summary)
    return [
        PathScore(path, kind, {scheme: _cell(scheme, of) for scheme, of in schemes.items()})
        for (path, kind), schemes in found.items()
    ]


def geometric_mean(shares: Sequence[float], seed: int = 1, units: Sequence[str] | None = None) -> Mean:
    """Return the geometric mean of shares, one for each path, and its bootstrap interval.

    Args:
        shares: one or more shares, each above 0.
        seed: seed of the draws.
        units: a name for each share. Shares with the same name are drawn together. Without `units`, each
            share is drawn alone.
    """
    logs = np.log(np.array(shares))
    rng = np.random.default_rng(seed)
    _, unit = np.unique(np.arange(logs.size) if units is None else np.array(units), return_inverse=True)
    sums, counts = np.bincount(unit, logs), np.bincount(unit)
    drawn = rng.integers(counts.size, size=(DRAWS, counts.size))
    means = sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1)
    low, high = np.quantile(means, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Mean(math.exp(float(logs.mean())), math.exp(float(low)), math.exp(float(high)), logs.size)


def means(paths: Sequence[PathScore], scheme: str) -> dict[str, Mean]:
    """Return the scheme's means: over `all` paths, over each kind, and over each family of paths."""
    return grouped([(path, path.share(scheme)) for path in paths if scheme in path.cells])


def grouped(shares: Iterable[tuple[PathScore, float]]) -> dict[str, Mean]:
    """Return means of the paths' shares: over `all` paths, over each kind, and over each family."""
    groups: dict[str, list[float]] = {}
    for path, share in shares:
        for group in dict.fromkeys(("all", path.kind, family(path.name))):
            groups.setdefault(group, []).append(share)
    return {group: geometric_mean(of) for group, of in groups.items()}


def over_arms(paths: Sequence[PathScore], scheme: str) -> list[Over]:
    """Compare the scheme with each arm that ran on its paths, in the arms' order of first appearance.

    The scheme is better than an arm if the lower bounds of both intervals exceed 1. Paths of one family share
    their difficulties. So the interval by families is the right one for a new kind of path.
    """
    beside: dict[str, list[PathScore]] = {}
    for path in paths:
        for arm in filter(is_arm, path.cells):
            if scheme in path.cells and arm != scheme:
                beside.setdefault(arm, []).append(path)
    found = []
    for arm, of in beside.items():
        ratios = [path.share(scheme) / path.share(arm) for path in of]
        families = [family(path.name) for path in of]
        found.append(Over(scheme, arm, geometric_mean(ratios), geometric_mean(ratios, units=families)))
    return found


def gap_closed(paths: Sequence[PathScore], scheme: str) -> tuple[str, float]:
    """Return the best single arm over all paths, and the share of the gap that the scheme closes.

    The gap is the log ratio between the best arms in hindsight and the best single arm. The share is 1 if the
    scheme is as good as the best arm in hindsight, and 0 if it is as good as the best single arm. It is NaN
    if there is no gap.
    """
    whole = [path for path in paths if scheme in path.cells]
    arms = [arm for arm in whole[0].cells if is_arm(arm) and all(arm in path.cells for path in whole)]
    gap = {name: -fmean(math.log(path.share(name)) for path in whole) for name in (*arms, scheme)}
    single = min(arms, key=gap.__getitem__)
    return single, (gap[single] - gap[scheme]) / gap[single] if gap[single] > 0 else math.nan


def _cell(scheme: str, summaries: Sequence[Summary]) -> Cell:
    runs = [[flow for flow in summary.flows if flow.scheme == scheme] for summary in summaries]
    flows = [flow for run in runs for flow in run]
    arms = sorted({arm for flow in flows for arm in flow.arm_share})
    return Cell(
        rewards=tuple(fmean(flow.reward for flow in run) for run in runs),
        throughput_mbps=fmean(flow.throughput_mbps for flow in flows),
        rtt_mean_ms=fmean(flow.rtt_mean_ms for flow in flows),
        loss=fmean(flow.loss for flow in flows),
        jain=fmean(summary.jain for summary in summaries),
        switches=fmean(flow.switches for flow in flows),
        arm_share={arm: fmean(flow.arm_share.get(arm, 0.0) for flow in flows) for arm in arms},
    )
