# SPDX-License-Identifier: Apache-2.0
"""Spine's reward (Spine, Eq. 1 and 2), computed from the truth about the link instead of the flow's view.

Two things differ from the paper; docs/lab-notes/spine.md has the measurements. First, Spine, Eq. 1, divides
by the largest throughput that the flow has seen, which rewards a flow that never tried for more. Here the
divisor is the flow's fair share of the link. Second, throughput beyond the fair share counts against a flow
with competitors. As printed, Spine, Eq. 1, is largest for a flow that starves Cubic.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats
from ltp_switcher.policies.simulator.simulator import SimulatedInterval

LOSS_WEIGHT: Final = 5.0
"""Weight ζ of loss. The paper does not give its value."""
DELAY_TOLERANCE: Final = 1.25
"""Tolerance β of delay (Spine, Eq. 2). The paper does not give its value."""
PIT_STOP_PENALTY: Final = 0.03
"""Penalty α_psp of a run of the policy generator (Spine, Table 6)."""


def rewards(
    interval: SimulatedInterval, agents: int, triggered: Bools, penalty: float = PIT_STOP_PENALTY
) -> Floats:
    """Return the reward of the first `agents` rows for an interval, shape (agents, E).

    Args:
        interval: interval of all flows, whose arrays have the shape (F, E).
        agents: number of the first rows, which Spine controls.
        triggered: whether the policy generator ran at the beginning of the interval, shape (agents, E).
        penalty: cost of a run of the policy generator, α_psp.
    """
    flows = interval.active.sum(axis=0)
    share_pps = interval.capacity_pps / np.maximum(flows, 1)
    delivered_pps = interval.delivered_pps[:agents]
    excess_pps = np.maximum(delivered_pps - share_pps, 0.0) * (flows > 1)
    lost_pps = interval.lost_pkts[:agents] / interval.length_s
    useful_pps = delivered_pps - 2.0 * excess_pps - LOSS_WEIGHT * lost_pps
    rtt_s = interval.rtt_s[:agents]
    inflation = rtt_s / np.minimum(interval.rtt_min_s[:agents], rtt_s)
    inflation = np.where(inflation <= DELAY_TOLERANCE, 1.0, inflation)
    power: Floats = useful_pps / share_pps / inflation
    return power - penalty * triggered
