# SPDX-License-Identifier: Apache-2.0
"""LTP's reward (LTP, Section 5, Eq. 9 to 15): a part for keeping the network's state knowable, and a part for
performance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats
from ltp_switcher.policies.ltp.particles import Ranges

LEAST_RATE: Final = 0.05
"""Least rate in ratios of quantiles. Without it a ratio would be infinite where the other flows' rate may be
0.
"""


@dataclass(frozen=True)
class Weights:
    """Weights of the reward's terms, from LTP, Table 4, except for `offset`.

    Attributes:
        delay: β_q, for each second of the delay's range.
        rate: β_x, for each factor e between the ends of the rate's range.
        others: β_xo, for each factor e between the ends of the others' range.
        offset: β_r. With it the probe reward is about zero on average (LTP, Section 5), as measured on a
            policy half way through training.
        loss: ζ, for the share of lost packets.
        fairness: β_fair, for the unfairness R_fair.
        tolerance: β_lat, the RTT over the base RTT up to which delay costs nothing.
        estimation: β_esti.
        performance: β_perf.
    """

    delay: float = 10.0
    rate: float = 0.2
    others: float = 0.2
    offset: float = 1.2
    loss: float = 5.0
    fairness: float = 1.0
    tolerance: float = 1.15
    estimation: float = 0.2
    performance: float = 1.0


def log_rates(ranges: Ranges) -> Floats:
    """Return the logarithms of the ends of the ranges of x / c and x_o / c, stacked, shape (2, n, 2)."""
    logs: Floats = np.log(np.maximum(np.stack((ranges.rate, ranges.others)), LEAST_RATE).astype(np.float64))
    return logs


def probe_reward(ranges: Ranges, weights: Weights) -> Floats:
    """Return the probe reward R_esti (LTP, Eq. 9 to 11), shape (n,). The reward is higher, the narrower the
    ranges of a flow's estimates are.

    A flow without estimates gets 0.
    """
    delay_s = ranges.delay_s.astype(np.float64)
    rate, others = np.diff(log_rates(ranges), axis=2)[..., 0]
    delay = delay_s[:, 1] - delay_s[:, 0]
    reward = weights.offset - weights.delay * delay - weights.rate * rate - weights.others * others
    return np.where(np.isnan(reward), 0.0, reward)


def performance_reward(
    throughput: Floats, loss: Floats, delay_ratio: Floats, unfairness: Floats, weights: Weights
) -> Floats:
    """Return the reward for performance, R_perf (LTP, Eq. 12 and 13). All arrays have the same shape.

    Eq. 12 adds β_fair R_fair, but R_fair grows with unfairness (LTP, Eq. 14). So this function subtracts the
    term.

    Args:
        throughput: throughput over its maximum, thr_max.
        loss: share of the packets that were lost.
        delay_ratio: RTT over the base RTT.
        unfairness: R_fair, as `unfairness` returns it for each link.
        weights: coefficients of the terms.
    """
    delay = np.where(delay_ratio <= weights.tolerance, 1.0, delay_ratio)
    return (throughput - weights.loss * loss) / delay - weights.fairness * unfairness


def unfairness(throughput_pps: Floats, present: Bools) -> Floats:
    """Return the unfairness on each link (LTP, Eq. 14), shape (E,).

    Both arguments, the flows' average throughputs and their presence, have the shape (F, E).
    """
    count = np.maximum(1, present.sum(axis=0))
    rate = np.where(present, throughput_pps, 0.0)
    total = rate.sum(axis=0)
    spread = np.where(present, (rate - total / count) ** 2, 0.0).sum(axis=0)
    result: Floats = np.sqrt(spread / (count * np.maximum(total, 1e-9) ** 2))
    return result
