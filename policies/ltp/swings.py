# SPDX-License-Identifier: Apache-2.0
"""The probe reward (R_esti) of a flow whose rate swings, on a link whose state is known.

Two flows share a full link, and the echoes follow the model exactly. If the reward paid for probing, it would
grow with the swing.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats
from ltp_switcher.policies.ltp.estimation import Estimator
from ltp_switcher.policies.ltp.reward import Weights, probe_reward
from ltp_switcher.policies.runtime.measurements import Echo, Interval

SWINGS: Final = (0.0, 0.025, 0.10, 0.25)
"""Relative swings of the rate from one interval to the next. LTP, Eq. 8, allows 2.5 %."""
REPEATS: Final = 32
"""Number of flows for each swing. Their particles use independent random numbers."""
INTERVALS: Final = 60
RATE_PPS: Final = 500.0
"""Rate of the flow without its swing, in packets a second. All other flows together have the same rate, and
the two rates fill the link.
"""
RTT_S: Final = 0.050
RTT_MIN_S: Final = 0.020


def judge(estimator: Estimator, interval_s: float) -> dict[str, float]:
    """Return the mean probe reward (R_esti) over the flows after two seconds of swinging, by size of the
    swing.
    """
    slots = np.arange(len(SWINGS) * REPEATS)
    estimator.reset(slots)
    swings = np.repeat(SWINGS, REPEATS)
    before = Echo(np.full(slots.size, -1.0), *np.full((4, slots.size), np.nan))
    for index in range(INTERVALS):
        echo = _echo(index, 1.0 + swings * (index % 2))
        estimator.update(slots, _interval(echo, before, interval_s))
        before = echo
    rewards = probe_reward(estimator.ranges(slots), Weights()).reshape(-1, REPEATS).mean(axis=1)
    return {f"{swing:g}": reward for swing, reward in zip(SWINGS, rewards.tolist(), strict=True)}


def _echo(index: int, load: Floats) -> Echo:
    return Echo(
        index=np.full(load.size, float(index)),
        sending_pps=RATE_PPS * load,
        delivered_pps=2.0 * RATE_PPS * load / (load + 1.0),
        rtt_s=np.full(load.size, RTT_S),
        loss=np.zeros(load.size),
    )


def _interval(echo: Echo, before: Echo, interval_s: float) -> Interval:
    n = echo.index.size
    pkts = echo.sending_pps * interval_s
    return Interval(
        index=0, end_s=0.0, length_s=interval_s, active=np.ones(n, np.bool_), sent_pkts=pkts, acked_pkts=pkts,
        lost_pkts=np.zeros(n), rtt_s=echo.rtt_s, rtt_min_s=np.full(n, RTT_MIN_S), window_pkts=pkts,
        pacing_pps=echo.sending_pps, in_flight_pkts=pkts, turn_pkts=np.zeros(n), echo=echo,
        previous_echo=before,
    )  # fmt: skip
