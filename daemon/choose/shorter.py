# SPDX-License-Identifier: Apache-2.0
"""Whether the careful arm keeps a shorter queue than the steady one.

LTP keeps a queue of two or three milliseconds, whatever the rate. Vegas keeps two to four packets. On a fast
and short path that is less, and so the RTT is lower at the same rate. The steady arm's own RTT shows its
queue. The careful arm then has to earn more than the steady one did, or the steady one comes back for good.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Slots
from ltp_switcher.daemon.choose.looks import Looks
from ltp_switcher.slots import SlotArrays, column

CAREFUL_PKTS: Final = 5.0
"""Vegas's queue, in packets, with the bursts of its acknowledgements."""
STEADY_US: Final = 2500.0
"""LTP's queue."""
OWN_US: Final = 2.0 * STEADY_US
"""A longer queue under the steady arm is not its own."""
GAIN: Final = 1.03
"""By which factor the RTT has to be above the one that is expected of the careful arm."""
LOOKS: Final = 8
"""Looks that each arm gets."""
OTHER: Final = 1.5
"""A rate or RTT that differs by this factor from the mean is another path's: no reward before compares."""


def fast(packet_us: Floats) -> Bools:
    """Where the careful arm's packets are a shorter queue than the steady arm's, whatever the path's RTT."""
    found: Bools = CAREFUL_PKTS * packet_us < STEADY_US
    return found


class Shorter(SlotArrays):
    """What the arms have shown since the path changed, by player."""

    _count = column(np.int64)
    """Looks at the arm that runs."""
    _gain = column(np.float64)
    """Log of the mean RTT over the one that is expected of the careful arm, a mean over these looks."""
    _share = column(np.float64)
    """The reward that they showed, as a share: `Looks.share`."""
    _before = column(np.float64, initial=np.nan)
    """The same of the steady arm, when the careful one took its place; NaN: it has not."""
    _packet = column(np.float64)
    """Log of the time that a packet took, µs, a mean over the looks."""
    _least = column(np.float64)
    """Log of the lowest RTT, µs, a mean over the looks."""

    def look(self, slots: Slots, looks: Looks) -> None:
        """Take in the last looks of these players, whose arms have settled."""
        floor_us, mean_us = looks.floor_us[slots], looks.mean_us[slots]
        careful_us = floor_us + CAREFUL_PKTS * looks.packet_us[slots]
        own = mean_us <= floor_us + OWN_US
        self._begin_anew(slots, looks)
        self._count[slots] += 1
        weight = 1.0 / np.minimum(self._count[slots], LOOKS)
        for mean, seen in (
            (self._gain, np.where(own, np.log(mean_us / careful_us), -1.0)),
            (self._share, looks.share[slots]),
            (self._packet, np.log(looks.packet_us[slots])),
            (self._least, _log(looks.least_us[slots])),
        ):
            mean[slots] += weight * (np.nan_to_num(seen) - mean[slots])

    def _begin_anew(self, slots: Slots, looks: Looks) -> None:
        """Forget what the arms have shown where the rate or the lowest RTT has become another."""
        known = self._count[slots] > 0
        packet = np.log(looks.packet_us[slots]) - self._packet[slots]
        least = _log(looks.least_us[slots]) - self._least[slots]
        other = known & (np.fmax(np.abs(packet), np.abs(least)) > np.log(OTHER))
        self._count[slots[other]] = 0
        self._before[slots[other]] = np.nan

    def expected(self, slots: Slots) -> Bools:
        """Where the careful arm is to be tried, shape (n,)."""
        seen = (self._count[slots] >= LOOKS) & np.isnan(self._before[slots])
        found: Bools = seen & (self._gain[slots] > np.log(GAIN))
        return found

    def disappointed(self, slots: Slots) -> Bools:
        """Where the careful arm earns less than the steady one did, shape (n,)."""
        found: Bools = (self._count[slots] >= LOOKS) & (self._share[slots] < self._before[slots])
        return found

    def unfit(self, slots: Slots) -> Bools:
        """Where the path has become too slow for the careful arm since that was tried, shape (n,)."""
        other = (self._count[slots] >= LOOKS) & np.isnan(self._before[slots])
        found: Bools = other & ~fast(np.exp(self._packet[slots]))
        return found

    def other_arm(self, slots: Slots) -> None:
        """These players change their arms."""
        self._count[slots] = 0

    def try_careful(self, slots: Slots) -> None:
        """These players try the careful arm. Each does so once on a path."""
        self._before[slots] = self._share[slots]

    def shown(self, slots: Slots) -> tuple[Floats, Floats, Floats]:
        """What the three findings say, in their order.

        How much higher the RTT is than expected of the careful arm, %; how much less that earned, %; how long
        its packets take, ms.
        """
        return (
            100 * np.expm1(self._gain[slots]),
            100 * (1 - self._share[slots] / self._before[slots]),
            1e-3 * CAREFUL_PKTS * np.exp(self._packet[slots]),
        )


def _log(rtt_us: Floats) -> Floats:
    """NaN in a look without an RTT."""
    log: Floats = np.log(np.where(np.isfinite(rtt_us), rtt_us, np.nan))
    return log
