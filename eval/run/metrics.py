# SPDX-License-Identifier: Apache-2.0
"""The measures by which schemes are compared. They are pure functions of arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ltp_switcher.arrays import Floats
from ltp_switcher.measures import reward

ZETA: Final = 5.0
"""Weight of loss against throughput in Mutant's Eq. 1."""
KAPPA: Final = 2.0
"""Weight of throughput against delay in Mutant's Eq. 1."""


def rewards(goodput_mbps: ArrayLike, rtt_ms: ArrayLike, loss: ArrayLike) -> Floats:
    """Return the reward of each bin by Eq. 1 of the Mutant paper, not normalised; see `measures.reward`.

    Args:
        goodput_mbps: shape (bins,).
        rtt_ms: mean RTT, shape (bins,). A bin without an RTT sample (NaN) takes the last sample before it;
            before the first sample the reward is 0.
        loss: loss rate, 0..1, shape (bins,).

    Returns:
        (Mbit/s)^kappa per ms, never negative.
    """
    rtt_ms = _fill_forward(np.asarray(rtt_ms, np.float64))
    return reward(goodput_mbps, loss, rtt_ms, zeta=ZETA, kappa=KAPPA)


def _fill_forward(values: Floats) -> Floats:
    """Replace each NaN by the last number before it; leading NaNs stay."""
    index = np.where(np.isnan(values), 0, np.arange(values.size))
    return values[np.maximum.accumulate(index)]


def utilisation(goodput_mbps: ArrayLike, capacity_mbps: ArrayLike) -> float:
    """Return goodput as a share of the link's capacity, over bins of equal length.

    Both arguments have the shape (bins,): the goodput summed over the flows, and the link's capacity. Headers
    also use capacity, so full-sized segments reach about 0.96 at most.
    """
    capacity = float(np.sum(np.asarray(capacity_mbps, np.float64)))
    return float(np.sum(np.asarray(goodput_mbps, np.float64))) / capacity if capacity > 0 else 0.0


def harm_more_is_better(solo: float, shared: float) -> float:
    """Harm to a metric such as throughput, Mutant §6.4: (x - y) / x, at least 0.

    `solo` is the flow's performance x alone. `shared` is the same flow's performance y beside the other flow.
    """
    return max(0.0, (solo - shared) / solo) if solo > 0 else 0.0


def harm_less_is_better(solo: float, shared: float) -> float:
    """Harm to a metric such as delay or loss, Mutant §6.4: (y - x) / y, at least 0.

    The arguments mean the same as in `harm_more_is_better`.
    """
    return max(0.0, (shared - solo) / shared) if shared > 0 else 0.0


def histogram_quantile(upper_edges: ArrayLike, counts: ArrayLike, quantile: float) -> float:
    """Return a quantile of samples that were counted in bins, interpolated linearly within the bin; NaN
    without samples.

    Args:
        upper_edges: each bin's upper edge, ascending, shape (bins,); the first bin begins at 0.
        counts: samples in each bin, shape (bins,).
        quantile: 0..1.
    """
    edges, count = np.asarray(upper_edges, np.float64), np.asarray(counts, np.float64)
    cumulative = np.concatenate(([0.0], np.cumsum(count)))
    if cumulative[-1] <= 0:
        return float("nan")
    rank = quantile * cumulative[-1]
    i = int(np.searchsorted(cumulative[1:], rank, side="left"))
    while count[i] == 0:
        i += 1
    low = edges[i - 1] if i else 0.0
    return float(low + (edges[i] - low) * (rank - cumulative[i]) / count[i])


def arm_share(arms: Sequence[str]) -> dict[str, float]:
    """Return, for each arm, the fraction of the bins in which the flow ran the arm, the largest first. The
    fractions sum to 1.
    """
    return {
        arm: n / len(arms) for arm, n in sorted(Counter(arms).items(), key=lambda item: (-item[1], item[0]))
    }
