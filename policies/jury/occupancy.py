# SPDX-License-Identifier: Apache-2.0
"""A flow's share of the bottleneck's bandwidth, estimated from its own probing (Jury, Eq. 5).

A flow multiplies its rate by a, and its throughput changes by a factor T. Then the flow holds the share (a -
T) / (T (a - 1)) of the link. It holds all of the link if T stays 1, and nearly nothing if T equals a.

One sample drowns in noise, because a - 1 is 2.5 % at most. A mean of ratios would explode, so numerators and
denominators are averaged separately. Each is multiplied by the random direction of the flow's exploration
(`probe`), which no other flow knows. So common moves of all flows, and changes of the path, average out.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Slots
from ltp_switcher.policies.runtime.measurements import Echo
from ltp_switcher.slots import SlotArrays, column

MEMORY: Final = 200.0
"""Number of echoes in the running averages if round trips are short: 6 s. If the number were twice as large,
the estimate would come too late: flows would overshoot the fair share and swing about it.
"""
MEMORY_RTTS: Final = 15.0
"""Least length of the running averages, in round trips. An estimate as fast as the control loop would swing
along with the loop.
"""
BOUND: Final = 1.25
"""Limit of changes of rate and throughput: factors are clipped to 1 / `BOUND` to `BOUND`
(Jury, Section 3.4).
"""
PRIOR: Final = 0.2
"""Share of the bottleneck that a flow is assumed to hold before anything is known. Like a newcomer's share it
is small, so the flow grows.
"""
PRIOR_WEIGHT: Final = 0.002
"""Weight of `PRIOR` in the averages. After many echoes, the samples of a flow that probes in every interval
weigh ten times as much (0.02).
"""
_KNOWN_WEIGHT: Final = 0.02
"""The averaged denominator of a flow that probes in every interval."""


class Occupancy(SlotArrays):
    """Estimates of the bottleneck shares of flows in numbered slots."""

    # Running averages over echoes.
    _numerator = column(np.float64)
    _denominator = column(np.float64)

    def assume(self, slots: Slots, ratio: Floats) -> None:
        """Set the averages as if many echoes had already shown these shares, shape (n,)."""
        self._numerator[slots] = ratio * (_KNOWN_WEIGHT + PRIOR_WEIGHT) - PRIOR * PRIOR_WEIGHT
        self._denominator[slots] = _KNOWN_WEIGHT

    def update(self, slots: Slots, echo: Echo, previous: Echo, probe: Floats, length_s: float) -> None:
        """Update the averages with the change from one echo to the next.

        Args:
            slots: shape (n,).
            echo: fate of an interval, shape (n,).
            previous: echo of the interval before it.
            probe: random part of the action between the two echoes, within ±2, shape (n,).
            length_s: length of an interval in seconds.
        """
        memory = np.maximum(MEMORY, MEMORY_RTTS * echo.rtt_s / length_s)
        rate = (echo.sending_pps / previous.sending_pps).clip(1.0 / BOUND, BOUND)
        throughput = (echo.delivered_pps / previous.delivered_pps).clip(1.0 / BOUND, BOUND)
        _average(self._numerator, slots, probe * (rate - throughput), memory)
        _average(self._denominator, slots, probe * (throughput * (rate - 1.0)), memory)

    def ratio(self, slots: Slots) -> Floats:
        """Return the share of the bottleneck that each flow holds, 0 to 1, shape (n,)."""
        numerator = self._numerator[slots] + PRIOR * PRIOR_WEIGHT
        denominator = np.maximum(self._denominator[slots] + PRIOR_WEIGHT, 1e-9)
        ratio: Floats = (numerator / denominator).clip(0.0, 1.0)
        return ratio


def _average(averages: Floats, slots: Slots, samples: Floats, memory: Floats) -> None:
    average = averages[slots]
    averages[slots] = average + (samples - average) / memory
