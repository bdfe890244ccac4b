# SPDX-License-Identifier: Apache-2.0
"""Slow start again, where the path has become much faster.

The policy changes the window by at most 2.5 % in an interval (LTP, Eq. 8), so it needs two seconds for a link
that has four times the rate. If the window has grown by a quarter without any queue, the path has more. Then
slow start begins anew. As ever, it ends where a queue begins, with the window that the path carries. The
paper has no second slow start.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Slots
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.policies.runtime.slow_start import queue_threshold_s
from ltp_switcher.slots import SlotArrays, column

GROWTH: Final = 1.25
"""Factor by which the window grows without a queue before slow start begins anew."""
ROUNDS: Final = 2.0
"""Least number of round trips for that growth, so that the RTT shows its effect."""
STAYS: Final = 1.08
"""Factor by which the RTT may grow meanwhile. On a full link it grows as the window does."""


class Restarts(SlotArrays):
    """The growth of windows since their last low, by the flows' slots."""

    _growth = column(np.float64, initial=1.0)
    """The window over its last low."""
    _least_s = column(np.float64, initial=np.inf)
    """Least RTT of an interval since that low, in seconds."""
    _time_s = column(np.float64)
    """Time since that low, in seconds."""

    def step(self, slots: Slots, interval: Interval, may: Bools, change: Floats) -> Bools:
        """True where slow start begins anew, shape (n,).

        Args:
            slots: shape (n,).
            interval: the latest interval.
            may: true where the flow fills its window, and is alone with LTP on its path, shape (n,).
            change: the policy's window over the window before, shape (n,).
        """
        growth = self._growth[slots] * change
        begins = ~may | (growth <= 1.0)
        growth[begins] = 1.0
        least_s = np.fmin(np.where(begins, np.inf, self._least_s[slots]), interval.rtt_s)
        time_s = np.where(begins, 0.0, self._time_s[slots] + interval.length_s)
        starts: Bools = (growth >= GROWTH) & (time_s >= ROUNDS * interval.rtt_s)
        starts &= interval.rtt_s < STAYS * least_s
        # Slow start would end at once, with a window for the least RTT.
        starts &= interval.rtt_s <= queue_threshold_s(interval.rtt_min_s)
        self._growth[slots] = np.where(starts, 1.0, growth)
        self._least_s[slots] = least_s
        self._time_s[slots] = np.where(starts, 0.0, time_s)
        return starts
