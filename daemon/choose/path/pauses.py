# SPDX-License-Identifier: Apache-2.0
"""Measures how much of the time the application of a flow has nothing to send.

The kernel's own mark, `FlowFlags.APP_LIMITED`, is set only on the first packet after a pause. So pauses are
read from the times of ACKs. If an ACK leaves no packet in flight, the time until the next ACK is a pause,
less one round trip. An outage of the path is no pause, because packets are in flight.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Slots
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.slots import SlotArrays, column

SHORTEST_NS: Final = 100e6
"""Shortest pause, in ns. A flow with a small window may have nothing in flight for a moment, and its next
record comes at the end of the step. Such a short time is no pause.
"""
MEMORY_NS: Final = 10e9
"""Time constant of the share of pauses, in ns. It is short, because a connection that was silent for long may
carry a download next.
"""


class Pauses(SlotArrays):
    """The pauses of all flows: times in which the application had nothing to send."""

    _empty = column(np.bool_)
    """Whether the last ACK left nothing in flight."""
    _paused_ns = column(np.float64)
    """Time of pauses in ns. Old pauses fade with `MEMORY_NS`, and so does `_seen_ns`, the time in which they
    were seen.
    """
    _seen_ns = column(np.float64)

    def step(self, slots: Slots, records: RecordArray) -> None:
        """Take in a step's records, shape (n,)."""
        time_ns = records["interval_ns"].astype(np.float64)
        paused_ns = time_ns - 1e3 * records["srtt_us"]
        paused_ns[~self._empty[slots] | (paused_ns < SHORTEST_NS)] = 0.0
        fades = np.exp(-time_ns / MEMORY_NS)
        self._paused_ns[slots] = fades * self._paused_ns[slots] + paused_ns
        self._seen_ns[slots] = fades * self._seen_ns[slots] + time_ns
        self._empty[slots] = records["in_flight"] == 0

    def share(self, slots: Slots) -> Floats:
        """The share of the recent time in which the application paused, shape (n,)."""
        share: Floats = self._paused_ns[slots] / np.maximum(self._seen_ns[slots], 1.0)
        return share
