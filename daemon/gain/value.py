# SPDX-License-Identifier: Apache-2.0
"""Pure functions for the value of a flow, its size class, and its information, which is the weight of the
value. All of them come from the flow's outcome, the sums over its life.

A value is the logarithm of Eq. 1 of the Mutant paper (`measures.reward`, zeta 5, kappa 2) over the flow's
whole life: log(((bytes / busy time)(1 - 5 loss))^2 / mean RTT). A difference of values is the logarithm of a
ratio of rewards, whatever the units. The report about the gain uses the same value for the flows of a unit
together.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ltp_switcher.arrays import Floats, Ints
from ltp_switcher.daemon.datapath import OutcomeArray
from ltp_switcher.measures import BYTES_TO_MBIT, loss_rate, reward

ZETA: Final = 5.0
KAPPA: Final = 2.0
CLIP: Final = 3.0
"""Largest distance of a value from the mean value of its prefix and size class. It corresponds to a factor of
20 in reward.
"""
SIZE_BOUNDS_BYTES: Final = (30_000, 300_000, 3_000_000)
"""Bounds between the size classes, in bytes. A flow of 30,000 bytes is in the second class."""
SIZE_NAMES: Final = ("< 30 KB", "< 300 KB", "< 3 MB", "more")
LEVEL: Final = 1.0
"""Sum of squared deviations of log sizes at which a line has half of the least-squares slope. So a few flows
of nearly the same size make no steep line. The number was chosen, not measured.
"""
ROUNDS_HALF: Final = 10.0
"""Number of round trips after which a flow counts half as much as a very long flow. The number was chosen,
not measured.
"""


def raw_values(outcomes: OutcomeArray) -> Floats:
    """The values (logarithms of rewards) of flows, shape (n,), in log(Mbit²/s² per ms).

    A value is -inf if the losses leave no throughput. It is NaN if the outcome has no data, no busy time or
    no RTT.
    """
    rtt_us = _divided(outcomes["rtt_us_sum"], outcomes["rtt_samples"])
    return of(
        outcomes["acked_bytes"], outcomes["busy_us"] * 1e-6, outcomes["lost"], outcomes["delivered"], rtt_us
    )


def of(
    acked_bytes: ArrayLike, busy_s: ArrayLike, lost_pkts: ArrayLike, delivered_pkts: ArrayLike,
    rtt_us: ArrayLike,
) -> Floats:  # fmt: skip
    """The values (logarithms of rewards) of flows or of groups of flows, shape (n,), in the unit of
    `raw_values`. They come from totals and the mean RTT.
    """
    acked_bytes, busy_s, rtt_ms = np.asarray(acked_bytes), np.asarray(busy_s), np.asarray(rtt_us) * 1e-3
    mbps = _divided(acked_bytes * BYTES_TO_MBIT, busy_s)
    # A FIN counts as a byte, so a flow with one byte sent no data.
    says = (acked_bytes > 1) & (busy_s > 0) & (rtt_ms > 0)
    with np.errstate(divide="ignore"):
        values: Floats = np.log(
            reward(mbps, loss_rate(lost_pkts, delivered_pkts), rtt_ms, zeta=ZETA, kappa=KAPPA)
        )
    values[~says] = np.nan
    return values


def size_classes(outcomes: OutcomeArray) -> Ints:
    """The number of each flow's size class, from 0 on, shape (n,). `SIZE_NAMES` names the classes."""
    return classes_of(outcomes["acked_bytes"])


def classes_of(sizes_bytes: ArrayLike) -> Ints:
    """The number of the size class of each size in bytes, from 0 on, shape (n,)."""
    return np.searchsorted(SIZE_BOUNDS_BYTES, sizes_bytes, side="right")


def clipped(values: Floats, groups: Ints) -> Floats:
    """The values relative to the mean of their group, clipped to ±`CLIP`, shape (n,).

    The mean is over the group's finite values. A value of -inf becomes -`CLIP`, and NaN stays NaN. In a group
    without a finite value, all results are NaN.

    Args:
        values: values of flows from `raw_values`, shape (n,).
        groups: number of each flow's group from 0 on, shape (n,). A group is a prefix and a size class.
    """
    relative: Floats = np.clip(values - means(values, groups)[groups], -CLIP, CLIP)
    return relative


def about_lines(values: Floats, groups: Ints, sizes_bytes: ArrayLike) -> Floats:
    """The values relative to the line of their group, clipped to ±`CLIP`, shape (n,).

    A group's line is fitted to its finite values, over the logarithm of the flow's size. A flow that ends in
    its start reaches a fraction of the path's rate, so within a size class, too, the value depends on the
    size. A value of -inf becomes -`CLIP`, and NaN stays NaN. In a group without a finite value, all results
    are NaN.

    Args:
        values: values of flows from `raw_values`, shape (n,).
        groups: number of each flow's group from 0 on, shape (n,). A group is a prefix and a size class.
        sizes_bytes: sizes of the flows, shape (n,).
    """
    sizes, finite = log_sizes(sizes_bytes), np.isfinite(values)
    of_lines = means(np.where(finite, sizes, np.nan), groups)
    off_x, off_y = sizes - of_lines[groups], values - means(values, groups)[groups]
    flows = np.bincount(groups[finite], minlength=int(groups.max(initial=-1)) + 1)
    together = np.where(finite, off_x * off_y, np.nan)
    spread2 = np.where(finite, off_x**2, np.nan)
    slope = line_slope(means(together, groups), means(spread2, groups), flows)
    relative: Floats = np.clip(off_y - slope[groups] * off_x, -CLIP, CLIP)
    return relative


def line_slope(together: Floats, spread2: Floats, flows: ArrayLike) -> Floats:
    """Return the slopes of lines of the value over the logarithm of the size, shape (n,).

    The slope is the slope of the least squares times a factor below 1, so that a few flows of nearly the same
    size make no steep line (`LEVEL`).

    Args:
        together: covariance of log size and value over each line's flows, shape (n,).
        spread2: variance of log size over each line's flows, shape (n,).
        flows: number of flows of each line, shape (n,).
    """
    slope: Floats = together * np.asarray(flows) / (spread2 * np.asarray(flows) + LEVEL)
    return slope


def log_sizes(sizes_bytes: ArrayLike) -> Floats:
    """The logarithms of flows' sizes in bytes, shape (n,). A flow without data counts as one byte."""
    logs: Floats = np.log(np.maximum(sizes_bytes, 1))
    return logs


def means(values: Floats, groups: Ints) -> Floats:
    """The mean of each group's finite values, shape (groups,); NaN if a group has no finite value.

    Args:
        values: values to average, shape (n,).
        groups: number of each value's group, from 0 on, shape (n,).
    """
    finite = np.isfinite(values)
    size = int(groups.max(initial=-1)) + 1
    counts = np.bincount(groups[finite], minlength=size)
    sums = np.bincount(groups[finite], weights=values[finite], minlength=size)
    return _divided(sums, counts, empty=np.nan)


def information(outcomes: OutcomeArray) -> Floats:
    """The weight of each flow's value, 0 to 1, shape (n,). It grows with the number of round trips in which
    the flow was busy.

    A flow is one observation, however many outcomes report it. Even a long flow has a weight of 1 at most,
    because flows differ from each other.
    """
    rtt_us = _divided(outcomes["rtt_us_sum"], outcomes["rtt_samples"])
    rounds = _divided(outcomes["busy_us"], rtt_us)
    return rounds / (rounds + ROUNDS_HALF)


def _divided(a: ArrayLike, b: ArrayLike, empty: float = 0.0) -> Floats:
    made: Floats = np.full(np.shape(a), empty)
    np.divide(a, b, out=made, where=np.asarray(b) > 0)
    return made
