# SPDX-License-Identifier: Apache-2.0
"""Pulses: short bursts that show whether a path has more rate than its arm takes.

The careful arm, Vegas, adds a packet in a round trip or two. If the path becomes much faster, its queue stays
empty and no packet is lost, so no measurement shows the new rate. Therefore the rule asks the kernel module
for a pulse. The module raises the window by a quarter for one round trip, and keeps the new window if the
path delivered that much faster (`kmod-mutant/mutant_pulse.h`). If the path has no more rate, a quarter of the
window becomes queue for one round trip. So the time between pulses doubles from one pulse to the next. After
a pulse that found more rate, the time starts again at its least value.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Slots
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.datapath.protocol import FlowFlags
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

    def step(self, slots: Slots, records: RecordArray, may: Bools) -> Bools:
        """True for flows whose paths should get a pulse now, shape (n,).

        Args:
            slots: the flows of the step, shape (n,).
            records: `RECORD_DTYPE`, shape (n,).
            may: true for flows that can learn from a pulse, shape (n,). Such a flow fills its window under an
                arm that does not look for more rate by itself.
        """
        now_ns = records["time_ns"].astype(np.int64)
        gained = (records["flags"] & GAINED) != 0
        self._wait_rtts[slots[gained | ~may]] = WAIT_RTTS[0]
        since_ns = self._since_ns[slots]
        # The wait is counted in present RTTs, because the queue of the earlier arm may have gone.
        wait_ns = self._wait_rtts[slots] * records["srtt_us"].astype(np.int64) * 1000
        due = may & (since_ns > 0) & (now_ns - since_ns >= wait_ns)
        begins = gained | due | (since_ns == 0)
        self._since_ns[slots[begins]] = now_ns[begins]
        self._wait_rtts[slots[due]] = np.minimum(2 * self._wait_rtts[slots[due]], WAIT_RTTS[1])
        self._since_ns[slots[~may]] = 0
        return due
