# SPDX-License-Identifier: Apache-2.0
"""Pulses ask a path for more than its arm takes.

The careful arm adds a packet in a round trip or two. Where the path has become much faster, its queue stays
empty, nothing is lost, and no measurement says that there is more. So the module is asked for a pulse: the
window grows by a quarter for one round trip, and stays where the path delivered that much faster
(`kmod-mutant/mutant_pulse.h`). A pulse that finds nothing costs a quarter of the window's queue for one round
trip. So the time to the next one doubles from pulse to pulse, and begins anew where one has found more.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Slots
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.datapath.protocol import FlowFlags
from ltp_switcher.slots import SlotArrays, column

WAIT_RTTS: Final = (10, 40)
"""Round trips between pulses: at first, and at most."""
GAINED: Final = np.uint32(FlowFlags.GAINED)
"""The flag of a record in whose step a pulse has found more."""


class Pulses(SlotArrays):
    """The pulses of flows. Slots are those of flows."""

    _since_ns = column(np.int64)
    """Time of the last pulse, CLOCK_MONOTONIC, or of the arm's begin; 0 while the arm may not ask."""
    _wait_rtts = column(np.int64, initial=WAIT_RTTS[0])
    """Round trips from the last pulse to the next."""

    def step(self, slots: Slots, records: RecordArray, may: Bools) -> Bools:
        """Choose the flows whose paths are to be asked now, shape (n,).

        Args:
            slots: the flows of the step, shape (n,).
            records: `RECORD_DTYPE`, shape (n,).
            may: where a pulse would say something: the flow fills its window under an arm that does not ask
                for more itself, shape (n,).
        """
        now_ns = records["time_ns"].astype(np.int64)
        gained = (records["flags"] & GAINED) != 0
        self._wait_rtts[slots[gained | ~may]] = WAIT_RTTS[0]
        since_ns = self._since_ns[slots]
        # A round trip is as long as it is now: the queue of the arm before may have gone.
        wait_ns = self._wait_rtts[slots] * records["srtt_us"].astype(np.int64) * 1000
        due = may & (since_ns > 0) & (now_ns - since_ns >= wait_ns)
        begins = gained | due | (since_ns == 0)
        self._since_ns[slots[begins]] = now_ns[begins]
        self._wait_rtts[slots[due]] = np.minimum(2 * self._wait_rtts[slots[due]], WAIT_RTTS[1])
        self._since_ns[slots[~may]] = 0
        return due
