# SPDX-License-Identifier: Apache-2.0
"""Detects that the path's RTT floor has moved, from the lowest RTT of each look. A look lasts 0.25 s or more.

The floor falls at the first lower sample. A rise needs more care, because a queue looks the same at first.
The lowest RTT of each look has to stay high and constant. It also has to exceed the floor by more than a few
packets of the bottleneck, and by more than the queue that the arm keeps on every path. If the lowest RTT
stays high without being constant, there is a queue.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Slots
from ltp_switcher.daemon.choose.path.looks import BDP, KERNEL_FLOOR, TIME_NS
from ltp_switcher.daemon.settings.rule_policy import RuleSection
from ltp_switcher.slots import SlotArrays, column

CONSTANT: Final = 0.1
"""The RTT counts as constant while the lowest RTT of each look (0.25 s or more) differs from the first look's
by at most this share.
"""


class FloorMoves(SlotArrays):
    """The time for which the lowest RTT of each look has been high, by player.

    A player is the flows that share a bottleneck. A look is the time over which measurements are summed up.

    Args:
        settings: the rule's thresholds.
    """

    _raised_ns = column(np.int64)
    """Time from which on the RTT is high and constant, CLOCK_MONOTONIC; 0 while it is not."""
    _raised_us = column(np.float64)
    """Lowest RTT of the look at which the RTT began to be high and constant, µs."""
    _queued_ns = column(np.int64)
    """Time from which on the RTT is high, CLOCK_MONOTONIC; 0 while it is not."""

    def __init__(self, settings: RuleSection) -> None:
        super().__init__()
        self._settings = settings

    def look(
        self, slots: Slots, least_us: Floats, floor_us: Floats, own_us: Floats, seen: Floats
    ) -> tuple[Bools, Bools, Floats]:
        """Return three arrays of shape (n,): whether the RTT of the path has fallen, whether it has risen,
        and the time for which the RTT of the looks has been high.

        The time is in seconds, and NaN where the RTT is not high. If the RTT has been high for long without
        being constant, there is a queue.

        Args:
            slots: the players, shape (n,).
            least_us: lowest RTT of the look, shape (n,).
            floor_us: lowest RTT of the path, shape (n,).
            own_us: queue that the arm keeps on every path, as a delay in µs, shape (n,).
            seen: fields from `looks.read`, shape (fields, n).
        """
        now_ns, kernel_floor_us, bdp_pkts = seen[TIME_NS], seen[KERNEL_FLOOR], seen[BDP]
        settings = self._settings
        known = np.isfinite(least_us) & np.isfinite(floor_us)
        fell = known & (least_us * settings.rtt_step < floor_us)
        # Both are infinite in the look before a flow's first RTT.
        excess_us = np.subtract(least_us, floor_us, out=np.zeros(slots.shape), where=known)
        queued_pkts = bdp_pkts * excess_us / np.maximum(kernel_floor_us, 1.0)
        more_us = np.maximum((settings.rtt_step - 1.0) * floor_us, own_us)
        high = known & (excess_us > more_us) & (queued_pkts > settings.queue_pkts)
        first_us = self._raised_us[slots]
        constant = np.abs(least_us - first_us) <= CONSTANT * first_us
        goes_on = high & (self._raised_ns[slots] > 0) & constant
        begins = high & ~goes_on
        self._raised_us[slots] = np.where(begins, least_us, first_us)
        self._raised_ns[slots] = np.where(goes_on, self._raised_ns[slots], np.where(begins, now_ns, 0.0))
        rose: Bools = goes_on & (now_ns - self._raised_ns[slots] >= settings.rise_s * 1e9)
        stands = high & (self._queued_ns[slots] > 0)
        self._queued_ns[slots] = np.where(stands, self._queued_ns[slots], np.where(high, now_ns, 0.0))
        high_s: Floats = np.where(stands, (now_ns - self._queued_ns[slots]) * 1e-9, np.nan)
        return fell, rose, high_s

    def forget(self, slots: Slots) -> None:
        """Forget the earlier looks of these players, because these looks say nothing about later ones."""
        self._raised_ns[slots] = 0
        self._queued_ns[slots] = 0
