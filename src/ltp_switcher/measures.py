# SPDX-License-Identifier: Apache-2.0
"""Measures of flows: loss, the reward of Mutant's Eq. 1, and fairness. All are pure functions of arrays."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ltp_switcher.arrays import Floats

BYTES_TO_MBIT: Final = 8e-6


def loss_rate(lost_pkts: ArrayLike, delivered_pkts: ArrayLike) -> Floats:
    """Return the share of lost packets among lost and delivered packets, 0..1; 0 if there were none.

    Both arguments have the same shape, which may be any shape, and so has the result.
    """
    lost, delivered = np.asarray(lost_pkts, np.float64), np.asarray(delivered_pkts, np.float64)
    total = lost + delivered
    rate: Floats = np.divide(lost, total, out=np.zeros_like(total), where=total > 0)
    return rate


def reward(throughput: ArrayLike, loss: ArrayLike, delay: ArrayLike, *, zeta: float, kappa: float) -> Floats:
    """Eq. 1 of the Mutant paper: (thr - zeta * l)^kappa / d.

    In the paper l is a loss *rate*. It is subtracted from a throughput, so it would have no effect on a fast
    path. Here loss costs its share of the throughput: max(thr - zeta * l * thr, 0)^kappa / d. A negative base
    counts as 0. Without this, the square of a negative base would reward heavy loss.

    Args:
        throughput: in any unit, or divided by a reference; any shape.
        loss: share of lost packets; see `loss_rate`.
        delay: mean RTT in any unit, or divided by a reference. Where it is 0 or NaN (unknown), the reward is
            0.
        zeta: weight of loss.
        kappa: weight of throughput against delay.

    Returns:
        The reward in throughput^kappa per delay, never negative, of the arguments' common shape.
    """
    delay = np.asarray(delay, np.float64)
    useful = np.maximum(1.0 - zeta * np.asarray(loss, np.float64), 0.0) * np.asarray(throughput, np.float64)
    value: Floats = np.zeros(np.broadcast_shapes(useful.shape, delay.shape))
    np.divide(useful**kappa, delay, out=value, where=delay > 0)
    return value


def jain_index(throughputs: ArrayLike) -> Floats:
    """Jain's fairness index over the first axis, from 1/n (one of n flows has all) to 1 (all flows are
    equal).

    The index is (sum x)^2 / (n sum x^2), for throughputs x >= 0. If all flows stand still, they count as
    equal. The result has the shape of the other axes.
    """
    x = np.asarray(throughputs, np.float64)
    peak = x.max(axis=0, initial=0.0)
    x = x / np.where(peak > 0.0, peak, 1.0)
    square = np.asarray(np.square(x).sum(axis=0))
    index: Floats = np.ones_like(square)
    np.divide(x.sum(axis=0) ** 2, len(x) * square, out=index, where=square > 0.0)
    return index
