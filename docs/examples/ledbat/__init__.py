# SPDX-License-Identifier: Apache-2.0
"""LEDBAT (RFC 6817) as an arm: the example of docs/adding-an-arm.md. It has rules in place of a network."""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Slots
from ltp_switcher.policies.runtime.arm import Arm
from ltp_switcher.policies.runtime.declaration import Law, Variant
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.slots import SlotArrays, column

TARGET_S: Final = 0.020
"""Queueing delay in seconds that a flow holds. RFC 6817, Section 2.5, allows up to 0.1 s."""
GAIN: Final = 1.0
"""Packets per round trip that an empty queue adds. RFC 6817, Section 2.5, allows up to 1."""
LEAST_PKTS: Final = 2.0


class LedbatArm(SlotArrays):
    """LEDBAT as an `Arm`. It applies RFC 6817, Section 2.4.2, once an interval instead of at each ACK."""

    law = Law.WINDOW
    interval_s = 0.030
    _window_pkts = column(np.float64)
    _halved_s = column(np.float64, initial=-np.inf)

    def begin(self, slots: Slots, window_pkts: Floats) -> None:
        """See `Arm`."""
        self.reset(slots)
        self._window_pkts[slots] = window_pkts

    def decide(self, slots: Slots, interval: Interval) -> Floats:
        """See `Arm`."""
        window = self._window_pkts[slots]
        # Before the first ACK the smallest RTT is infinite.
        known = np.isfinite(interval.rtt_min_s)
        queueing_s = np.where(known, interval.rtt_s - np.where(known, interval.rtt_min_s, 0.0), TARGET_S)
        change = GAIN * (TARGET_S - queueing_s) / TARGET_S * interval.acked_pkts / window
        change = np.where(interval.leaves_unused(window), np.minimum(change, 0.0), change)
        # The losses of one round trip are one sign of congestion.
        halve = (interval.lost_pkts > 0) & (interval.end_s - self._halved_s[slots] > interval.rtt_s)
        self._halved_s[slots[halve]] = interval.end_s
        window = np.maximum(np.where(halve, window / 2, window + change), LEAST_PKTS)
        self._window_pkts[slots] = window
        return window[:, None]


def make_arm(variant: Variant) -> Arm:
    """Make the arm. Its only variant has no weights."""
    return LedbatArm()
