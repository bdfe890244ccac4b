# SPDX-License-Identifier: Apache-2.0
"""How well an estimator knows the network (LTP §7.1): how often the truth is in its range, how wide it is.

An interval counts once its echo is there, from `WARM_UP` echoes after the flow's first on: "the convergence
process requires only a few control intervals" (§7.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from ltp_switcher.arrays import Floats, Slots
from ltp_switcher.policies.ltp.estimator_traces import Trace
from ltp_switcher.policies.ltp.particles import Ranges
from ltp_switcher.policies.runtime.measurements import Interval

WARM_UP: Final = 5
TOLERANCE: Final = (1e-6, 1e-6, 1e-3)
"""A truth so far outside of a range is in it: rounding, and 1 ms of delay, which hosts add by themselves."""


class Estimator(Protocol):
    """An estimator that is judged; its methods are `ParticleFilter`'s."""

    def reset(self, slots: Slots) -> None:
        """Begin with new flows in these slots."""

    def update(self, slots: Slots, interval: Interval) -> None:
        """Take in an interval."""

    def ranges(self, slots: Slots) -> Ranges:
        """The ranges of these slots."""


@dataclass(frozen=True)
class Quality:
    """Mean over intervals and flows: share of truths covered, and the mean width of the range."""

    coverage: float
    width: float


@dataclass(frozen=True)
class Judgement:
    """Quality of the three estimates; the widths are relative to c, and in seconds."""

    rate: Quality
    others: Quality
    delay_s: Quality
    intervals: int

    @property
    def coverage(self) -> float:
        """Mean over the three."""
        return (self.rate.coverage + self.others.coverage + self.delay_s.coverage) / 3.0


def judge(estimator: Estimator, trace: Trace) -> Judgement:
    """Run an estimator over a trace."""
    n = trace.rate.shape[1]
    slots = np.arange(n)
    estimator.reset(slots)
    seen = np.full(n, -1.0)
    echoes = np.zeros(n, np.int64)
    counted, covered, width = 0, np.zeros(3), np.zeros(3)
    for interval in trace.intervals:
        estimator.update(slots, interval)
        new = interval.echo.index > seen
        seen = np.where(new, interval.echo.index, seen)
        echoes += new
        at = np.flatnonzero(new & (echoes > WARM_UP))
        if not at.size:
            continue
        index = seen[at].astype(np.int64)
        truth = np.stack([values[index, at] for values in (trace.rate, trace.others, trace.delay_s)])
        ranges = estimator.ranges(at)
        bounds: Floats = np.stack((ranges.rate, ranges.others, ranges.delay_s)).astype(np.float64)
        slack = np.array(TOLERANCE)[:, None]
        inside = (truth >= bounds[..., 0] - slack) & (truth <= bounds[..., 1] + slack)
        counted += len(at)
        covered += inside.sum(axis=1)
        width += np.minimum(bounds[..., 1] - bounds[..., 0], 1e3).sum(axis=1)
    means = np.stack((covered, width), axis=1) / max(1, counted)
    rate, others, delay_s = (Quality(float(coverage), float(mean)) for coverage, mean in means)
    return Judgement(rate, others, delay_s, counted)


def least_width(truth: Floats, known_over: int, share: float) -> float:
    """The width that an estimator needs if it knows a truth's mean exactly, but not its course.

    Args:
        truth: of T intervals of n flows, shape (T, n); NaN where it is not judged, but not everywhere.
        known_over: intervals around each over which the mean is known.
        share: share of the truths that the range must hold.

    Returns:
        Width of the narrowest range about that mean, one for all intervals of a flow; mean over the flows.
    """
    widths, weights = [], []
    for known in (flow[np.isfinite(flow)] for flow in truth.T):
        if not known.size:
            continue
        ones = np.ones(min(known_over, len(known)))
        mean = np.convolve(known, ones, "same") / np.convolve(np.ones(len(known)), ones, "same")
        around = np.sort(known - mean)
        held = int(np.ceil(share * len(around)))
        widths.append((around[held - 1 :] - around[: len(around) - held + 1]).min())
        weights.append(len(around))
    return float(np.average(widths, weights=weights))
