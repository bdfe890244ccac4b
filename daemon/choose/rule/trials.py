# SPDX-License-Identifier: Apache-2.0
"""Whether the careful arm suits a short path: it is tried where that is likely, and leaves where it starves.

LTP keeps a queue of two or three milliseconds, whatever the rate. Vegas keeps two to four packets. On a fast
and short path that is less, and so the RTT is lower at the same rate. The steady arm's own RTT shows its
queue. The careful arm then has to earn more than the steady one did, or the steady one comes back for good.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Slots
from ltp_switcher.daemon.choose.path.looks import Looks
from ltp_switcher.daemon.choose.rule import reasons as why
from ltp_switcher.daemon.choose.rule.roles import STEADY
from ltp_switcher.daemon.choose.rule.states import ROLE, State, States
from ltp_switcher.slots import SlotArrays, column

CAREFUL_PKTS: Final = 5.0
"""Vegas's queue, in packets, with the bursts of its acknowledgements."""
STEADY_US: Final = 2500.0
"""LTP's queue, µs."""
OWN_US: Final = 2.0 * STEADY_US
"""Queue under the steady arm from which on it is not the arm's own, µs."""
GAIN: Final = 1.03
"""Factor by which the RTT has to exceed the one that is expected of the careful arm."""
LOOKS: Final = 8
"""Looks that each arm gets."""
OTHER: Final = 1.5
"""A rate or RTT that differs by this factor from the mean is another path's: no reward before compares."""


def fast(packet_us: Floats) -> Bools:
    """True where the careful arm's packets are a shorter queue than the steady arm's on any path."""
    found: Bools = CAREFUL_PKTS * packet_us < STEADY_US
    return found


class Trials(SlotArrays):
    """The rewards that the arms have shown since the path changed, by player."""

    _count = column(np.int64)
    """Looks at the arm that runs. The first has the RTT of the arm before, and does not count."""
    _gain = column(np.float64)
    """Log of the mean RTT over the one that is expected of the careful arm, a mean over these looks. A queue
    that is not the steady arm's own counts as short."""
    _share = column(np.float64)
    """Reward of the looks, as a share: `Looks.share`."""
    _before = column(np.float64, initial=np.nan)
    """The steady arm's share when the careful arm replaced it; NaN if it never did."""
    _packet = column(np.float64)
    """Log of the time that a packet took, µs, a mean over the looks."""
    _least = column(np.float64)
    """Log of the lowest RTT, µs, a mean over the looks."""

    def look(self, slots: Slots, looks: Looks) -> None:
        """Take in the last looks of these players, whose arms have settled.

        A look in which the application paused says nothing of the arm.
        """
        slots = slots[np.isfinite(looks.rate_Bps[slots])]
        self._begin_anew(slots, looks)
        self._count[slots] += 1
        slots = slots[self._count[slots] > 0]
        floor_us, mean_us = looks.floor_us[slots], looks.mean_us[slots]
        careful_us = floor_us + CAREFUL_PKTS * looks.packet_us[slots]
        own = mean_us <= floor_us + OWN_US
        weight = 1.0 / np.minimum(self._count[slots], LOOKS)
        for mean, seen in (
            (self._gain, np.where(own, _log(mean_us) - _log(careful_us), -1.0)),
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

    def findings(self, slots: Slots, state: States, calm: Bools) -> dict[int, tuple[Bools, Floats]]:
        """The findings of these players' trials, by reason: where, and the number that the reason tells.

        Args:
            slots: players, shape (n,).
            state: state of each player, shape (n,).
            calm: where the RTT has settled, and the path neither swings nor loses packets without a queue.
        """
        seen = calm & (self._count[slots] >= LOOKS)
        tried = seen & (state == State.TRIES)
        role = ROLE[state]
        share, before, gain = self._share[slots], self._before[slots], self._gain[slots]
        packet_us = np.exp(self._packet[slots])
        return {
            why.SHORTER: (
                seen & (role == STEADY) & np.isnan(before) & (gain > np.log(GAIN)),
                100 * np.expm1(gain),
            ),
            why.EARNED: (tried & (share < before), 100 * (1 - share / before)),
            why.SLOW: (tried & np.isnan(before) & ~fast(packet_us), 1e-3 * CAREFUL_PKTS * packet_us),
        }

    def other_arm(self, slots: Slots, tried: Bools) -> None:
        """These players change their arms, and some try the careful arm, or have done so, shape (n,).

        Each does it once on a path.
        """
        self._before[slots[tried]] = self._share[slots[tried]]
        self._count[slots] = -1


def _log(rtt_us: Floats) -> Floats:
    """NaN in a look without an RTT."""
    log: Floats = np.log(np.where(np.isfinite(rtt_us) & (rtt_us > 0), rtt_us, np.nan))
    return log
