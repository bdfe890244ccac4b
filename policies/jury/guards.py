# SPDX-License-Identifier: Apache-2.0
"""Two rules that Jury follows beyond the paper. Its network is trained without them.

The first rule (`standing`) is for a queue that never drains. If another protocol holds the queue, Jury reacts
to losses alone. If Jury's own flows hold the queue, they yield.

The second rule ends a flow's start. When the start has filled the link, the flow's window shrinks to the
amount that the link holds. Then the window waits until the effect of this change has come back (its echo).
Without this rule, the window of a flow over a satellite grows by a factor of 1.9 before the flow hears of its
queue. Then the window shrinks by as much.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Slots
from ltp_switcher.policies.jury.standing import StandingQueues
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.slots import SlotArrays, column

START_ENDS: Final = 1.125
"""Ratio of the RTT to its minimum at which a flow's start has filled the link. The ratio is from HyStart.
HyStart's limits in ms are left out, because the RTT of a satellite would reach them by jitter alone.
"""


class Guards(SlotArrays):
    """Jury's two rules beyond the paper, for flows in numbered slots.

    Args:
        on: whether the rules apply. If not, all answers are False and no window changes.
    """

    _stands = column(np.bool_)
    """Whether another protocol's queue stands before the flow."""
    _yields = column(np.bool_)
    _starting = column(np.bool_, initial=True)
    _held_until = column(np.float64, initial=-1.0)
    """Number of the interval whose echo has to be heard before the window may change."""

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
        """Return whether each flow yields because a queue of Jury's own flows stands, shape (n,)."""
        return self._yields[slots]

    def settles(self, slots: Slots, interval: Interval) -> Bools:
        """Return whether each window waits for the echo of the change that ended the flow's start, shape
        (n,).
        """
        settles: Bools = self._held_until[slots] > interval.echo.index
        return settles

    def end_start(self, slots: Slots, interval: Interval, window_pkts: Floats) -> Floats:
        """End the start of flows that have filled the link, and return the windows in packets, shape (n,).

        The window of such a flow shrinks to the amount that the link holds without a queue. All other windows
        stay as they are.
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
