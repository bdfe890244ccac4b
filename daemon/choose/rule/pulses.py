# SPDX-License-Identifier: Apache-2.0
"""Pulses: short bursts that show whether a path has more rate than its arm takes.

The careful arm, Vegas, adds a packet in a round trip or two. If the path becomes much faster, its queue stays
empty and no packet is lost, so no measurement shows the new rate. Therefore the rule asks the kernel module
for a pulse. The module raises the window by a quarter for one round trip, and keeps the new window if the
path delivered that much faster (`kmod-mutant/mutant_pulse.h`). If the path has no more rate, a quarter of the
window becomes queue for one round trip. So the time between pulses doubles from one pulse to the next. After
a pulse that found more rate, the time starts again at its least value.

The filling arm, Cubic, needs some 15 s to fill a queue of hundreds of ACKs by itself. Its first pulse comes
as soon as ACKs wait. The module then raises the window by a quarter in each round trip, until a queue stands
on the way to the receiver.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, PulseKinds, Slots
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.datapath.protocol import FlowFlags, PulseKind
from ltp_switcher.slots import SlotArrays, column

WAIT_RTTS: Final = (10, 40)
"""Least and largest number of round trips between two pulses, short bursts that show whether a path has more
rate.
"""
GAINED: Final = np.uint32(FlowFlags.GAINED)
"""The flag of a record in whose step a pulse has found more rate."""


class Pulses(SlotArrays):
    """The times of pulses, by the flows' slots. A pulse is a short burst that shows whether a path has more
    rate.
    """

    _since_ns = column(np.int64)
    """Time of the last pulse or of the arm's beginning, CLOCK_MONOTONIC; 0 while the flow cannot learn from a
    pulse.
    """
    _wait_rtts = column(np.int64, initial=WAIT_RTTS[0])
    """Number of round trips from the last pulse to the next one."""

    def step(
        self, slots: Slots, records: RecordArray, careful: Bools, filling: Bools, waits: Bools
    ) -> PulseKinds:
        """The pulses that flows should get now, shape (n,).

        Args:
            slots: the flows of the step, shape (n,).
            records: `RECORD_DTYPE`, shape (n,).
            careful: true for flows that can learn from a pulse, shape (n,). Such a flow fills its window
                under an arm that does not look for more rate by itself.
            filling: true for flows that fill their windows under the filling arm, shape (n,).
            waits: true for flows whose ACKs wait on the way back, shape (n,). The filling arm learns from a
                pulse there alone, because elsewhere the link is full.
        """
        may = careful | filling
        now_ns = records["time_ns"].astype(np.int64)
        gained = (records["flags"] & GAINED) != 0
        self._wait_rtts[slots[gained | ~may]] = WAIT_RTTS[0]
        since_ns = self._since_ns[slots]
        # The wait is counted in present RTTs, because the queue of the earlier arm may have gone.
        wait_ns = self._wait_rtts[slots] * records["srtt_us"].astype(np.int64) * 1000
        due = np.where(filling, waits, careful & (since_ns > 0)) & (now_ns - since_ns >= wait_ns)
        begins = gained | due | (careful & (since_ns == 0))
        self._since_ns[slots[begins]] = now_ns[begins]
        self._wait_rtts[slots[due]] = np.minimum(2 * self._wait_rtts[slots[due]], WAIT_RTTS[1])
        self._since_ns[slots[~may]] = 0
        kind = np.where(filling, np.uint8(PulseKind.FILL), np.uint8(PulseKind.MORE))
        return np.where(due, kind, np.uint8(PulseKind.NONE))
