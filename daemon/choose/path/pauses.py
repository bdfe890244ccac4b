# SPDX-License-Identifier: Apache-2.0
"""Measures how much of the time the application of a flow has nothing to send.

The kernel's own mark, `FlowFlags.APP_LIMITED`, is set on the first packet after a pause alone. So pauses are
read from time. Once all packets are acknowledged, the time until the next ACK is a pause, but for one round
trip. On a path that stands still there are packets in flight, so its outages are no pauses.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Slots
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.slots import SlotArrays, column

SHORTEST_NS: Final = 100e6
"""Shortest pause. Shorter times may be the wait for a step's end, after which a small window goes on."""
MEMORY_NS: Final = 10e9
"""Time constant of the share. A connection that was silent for long may carry a download next."""


class Pauses(SlotArrays):
    """The pauses of all flows."""

    _empty = column(np.bool_)
    """Whether the last ACK left nothing in flight."""
    _paused_ns = column(np.float64)
    """Time of pauses; it fades with `MEMORY_NS`, as the time in which they were seen does."""
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
        """The share of the last time in which the application paused, shape (n,)."""
        share: Floats = self._paused_ns[slots] / np.maximum(self._seen_ns[slots], 1.0)
        return share
