# SPDX-License-Identifier: Apache-2.0
"""Two rules that Jury follows beyond the paper. Its network is trained without them.

The first rule: behind another protocol's standing queue, Jury reacts to losses or yields (`standing`). The
second rule: when a flow's start has filled the link, the flow's window becomes the amount that the link
holds, and then waits for the echo. Without the second rule, the window of a flow over a satellite grows 1.9
times before the flow hears of its queue. Then the window shrinks by as much.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Slots
from ltp_switcher.policies.jury.standing import StandingQueues
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.slots import SlotArrays, column

START_ENDS: Final = 1.125
"""Ratio of the RTT to its minimum at which a flow's start has filled the link. The ratio is HyStart's.
HyStart's limits are left out, because the RTT of a satellite would reach them by jitter alone.
"""


class Guards(SlotArrays):
    """The two rules, for flows in numbered slots.

    Args:
        on: whether the rules apply. If not, all answers are False and no window changes.
    """

    _stands = column(np.bool_)
    """A queue stands before the flow."""
    _yields = column(np.bool_)
    _starting = column(np.bool_, initial=True)
    _held_until = column(np.float64, initial=-1.0)
    """The window stays until the echo of this interval is heard."""

    def __init__(self, *, on: bool) -> None:
        super().__init__()
        self._on = on
        self._queues = self.part(StandingQueues())

    def observe(self, slots: Slots, interval: Interval) -> None:
        """Update the state with an interval, whose arrays have shape (n,)."""
        if self._on:
            self._stands[slots], self._yields[slots] = self._queues.update(slots, interval)

    def stands(self, slots: Slots) -> Bools:
        """Return whether another protocol's queue stands before each flow, shape (n,)."""
        return self._stands[slots]

    def yields(self, slots: Slots) -> Bools:
        """Return whether each flow yields to a queue, shape (n,)."""
        return self._yields[slots]

    def settles(self, slots: Slots, interval: Interval) -> Bools:
        """Return whether each window waits for the echo of its last change, shape (n,)."""
        settles: Bools = self._held_until[slots] > interval.echo.index
        return settles

    def end_start(self, slots: Slots, interval: Interval, window_pkts: Floats) -> Floats:
        """Return the windows in packets, shape (n,). Where a flow's start has filled the link, the window
        becomes the amount that the link holds.
        """
        filled = self._on & self._starting[slots] & (interval.rtt_s > START_ENDS * interval.rtt_min_s)
        if not filled.any():
            return window_pkts
        self._starting[slots] &= ~filled
        self._held_until[slots] = np.where(filled, interval.index + 1.0, self._held_until[slots])
        holds_pkts = np.nan_to_num(interval.echo.delivered_pps * interval.rtt_min_s, posinf=np.inf)
        shrunk: Floats = np.where(
            filled & (holds_pkts > 0.0), np.minimum(window_pkts, holds_pkts), window_pkts
        )
        return shrunk
