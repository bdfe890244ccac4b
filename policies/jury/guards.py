# SPDX-License-Identifier: Apache-2.0
"""Two rules that Jury follows beyond the paper. Its network is trained without them.

Before a standing queue it goes by losses, or yields to the queue (`standing`). When a flow's start has filled
the link, its window becomes the amount that the link holds, and waits for the echo. Otherwise the window of a
satellite's flow grows 1.9 times before the flow hears of its queue, and then shrinks as much.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Slots
from ltp_switcher.policies.jury.standing import StandingQueues
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.slots import SlotArrays, column

START_ENDS: Final = 1.125
"""RTT over its minimum at which a flow's start has filled the link: HyStart's share without its limits, which
a satellite's RTT would reach by jitter alone."""


class Guards(SlotArrays):
    """The two rules, for flows in numbered slots.

    Args:
        on: whether there are any; without, all answers are no.
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
        """Take in an interval, arrays of shape (n,)."""
        if self._on:
            self._stands[slots], self._yields[slots] = self._queues.update(slots, interval)

    def stands(self, slots: Slots) -> Bools:
        """Whether a queue stands that is not the flow's own, shape (n,)."""
        return self._stands[slots]

    def yields(self, slots: Slots) -> Bools:
        """Whether the flow yields to a queue, shape (n,)."""
        return self._yields[slots]

    def settles(self, slots: Slots, interval: Interval) -> Bools:
        """Whether the window waits for the echo of where it was set, shape (n,)."""
        settles: Bools = self._held_until[slots] > interval.echo.index
        return settles

    def end_start(self, slots: Slots, interval: Interval, window_pkts: Floats) -> Floats:
        """Return the windows, (n,): the amount that the link holds, where a flow's start has filled it."""
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
