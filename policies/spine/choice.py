# SPDX-License-Identifier: Apache-2.0
"""The score that chooses, together with the reward, the episode whose weights are kept. `evaluate` uses other
links.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from ltp_switcher.policies.runtime.arm import Arm
from ltp_switcher.policies.spine import INTERVAL_S
from ltp_switcher.policies.spine.play import constant, play, square_wave

Arms = Callable[[float], Arm]
"""A function that makes the arm, given a monitor interval in seconds."""

DURATION_S: Final = 26.0
"""Length of the runs on links whose rate changes, in seconds."""
BESIDE_CUBIC_S: Final = 60.0
"""Length of the runs beside Cubic, in seconds. Half the length would mislead: a flow that never changes its
sub-policy shares evenly at first."""
TICK_S: Final = 0.002
REPEATS: Final = 3
"""Number of runs of each link."""
BESIDE_CUBIC: Final = np.array(((50.0, 25.0), (150.0, 40.0), (100.0, 75.0), (60.0, 100.0), (100.0, 140.0))).T
"""Rates (Mbit/s) and RTTs (ms) of the five links that a Spine flow shares with a Cubic flow, shape (2, 5)."""
CHANGING: Final = np.array(((80.0, 40.0), (160.0, 25.0))).T
"""Rates (Mbit/s) and RTTs (ms) of the links whose rate halves and doubles every 8 s."""
STEADY_AT_S: Final = (0.020, INTERVAL_S, 0.300)
"""Monitor intervals in seconds. On the links of `CHANGING` the utilisation should be equal at all of them."""
UNFRIENDLY: Final = 0.5
"""Score that is lost for each factor e between the throughputs of Spine and Cubic, on the link where the
factor is largest.
"""
UNSTEADY: Final = 5.0
"""Score that is lost for a difference of 1 between utilisations. The allowed difference of 0.03 costs as much
as a third of a factor e in `UNFRIENDLY`.
"""
SELDOM_S: Final = 1.5
"""Mean time in seconds between two runs of the policy generator on a link of `CHANGING`. From this time on no
score is lost. Spine, Section 7.5.1, has 1.2 s.
"""
HASTY: Final = 0.5
"""Score that is lost for each factor e by which the time between two runs is below `SELDOM_S`. Until the
trigger settles, it fires at every other interval.
"""


def friendliness(arms: Arms) -> float:
    """Score how near Spine's throughput is to the throughput of a Cubic flow beside it, on the worst link.

    The score is 0 if they are equal, and negative otherwise.
    """
    rate_mbps, rtt_ms = BESIDE_CUBIC.repeat(REPEATS, axis=1)
    here = np.ones(rtt_ms.size, np.bool_)
    paths = constant(rate_mbps, rtt_ms)
    arm = arms(INTERVAL_S)
    run = play(arm, arm.law, INTERVAL_S, paths, here, duration_s=BESIDE_CUBIC_S, tick_s=TICK_S)
    acked = run.totals.acked_pkts[:2].reshape(2, -1, REPEATS).sum(axis=2)
    # A flow that got nothing at all counts with the share of one packet.
    ours, cubic = np.maximum(acked, 1.0)
    return -UNFRIENDLY * float(np.abs(np.log(ours / cubic)).max())


def steadiness(arms: Arms) -> float:
    """Score how equal the utilisation of changing links is at all monitor intervals, and how seldom the
    policy generator runs.

    The best score is 0; others are negative.
    """
    rate_mbps, rtt_ms = CHANGING.repeat(REPEATS, axis=1)
    here = np.ones(rtt_ms.size, np.bool_)
    paths = square_wave(constant(rate_mbps, rtt_ms), here, period_s=8.0, changes=2)
    used, hasty = [], 0.0
    for interval_s in STEADY_AT_S:
        arm = arms(interval_s)
        run = play(arm, arm.law, interval_s, paths, ~here, duration_s=DURATION_S, tick_s=TICK_S)
        used.append(run.totals.utilisation[0].reshape(-1, REPEATS).mean(axis=1))
        if interval_s == INTERVAL_S:
            hasty = max(0.0, float(np.log(SELDOM_S * run.generated.mean() / DURATION_S)))
    return -UNSTEADY * float(np.ptp(used, axis=0).mean()) - HASTY * hasty
