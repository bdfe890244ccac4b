# SPDX-License-Identifier: Apache-2.0
"""The quality of an estimator (LTP, Section 7.1): how often its range holds the truth, and how wide the range
is.

An interval counts when its echo arrives. A flow's first `WARM_UP` echoes do not count: "the convergence
process requires only a few control intervals" (LTP, Section 7.1).
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
"""Distances from the range at which the truth still counts as inside, for x / c, x_o / c and d in seconds.
They allow for rounding, and for 1 ms of delay that hosts add.
"""


class Estimator(Protocol):
    """An estimator that can be judged. It has the methods of `ParticleFilter`."""

    def reset(self, slots: Slots) -> None:
        """Begin with new flows in these slots, and forget the old ones."""

    def update(self, slots: Slots, interval: Interval) -> None:
        """Update the estimates with an interval, whose arrays have shape (n,)."""

    def ranges(self, slots: Slots) -> Ranges:
        """Return the ranges of the estimates for the flows in these slots."""


@dataclass(frozen=True)
class Quality:
    """Share of the true values inside the range, and mean width of the range, both over
    intervals and flows.
    """

    coverage: float
    width: float


@dataclass(frozen=True)
class Judgement:
    """Quality of the estimates of the flow's rate, the others' rate and the delay.

    The widths of the rates are relative to the link's capacity, and the width of the delay is in seconds.
    `intervals` is the number of judged echoes of all flows.
    """

    rate: Quality
    others: Quality
    delay_s: Quality
    intervals: int

    @property
    def coverage(self) -> float:
        """Mean coverage of the three estimates."""
        return (self.rate.coverage + self.others.coverage + self.delay_s.coverage) / 3.0


def judge(estimator: Estimator, trace: Trace) -> Judgement:
    """Run an estimator over a trace, and judge its ranges. A width counts as 1000 at most."""
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
    """Return the width that a range needs to hold the true values, even if an estimator knows their moving
    mean exactly. No estimator that knows only this mean can have narrower ranges.

    Args:
        truth: true values in T intervals of n flows, shape (T, n). Values that are NaN do not count; one
            value at least must be finite.
        known_over: number of intervals over which the moving mean is taken.
        share: share of a flow's true values that its range must hold.

    Returns:
        The mean width, in the unit of `truth`. Each flow has one range, which moves with its mean and keeps
        its width. Flows count by their numbers of finite values.
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
