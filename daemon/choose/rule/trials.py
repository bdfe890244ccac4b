# SPDX-License-Identifier: Apache-2.0
"""Tries the careful arm, Vegas, on short paths, where it may earn more than the steady arm, LTP.

LTP keeps a queue of two or three milliseconds at any rate, and Vegas keeps two to four packets. On a fast and
short path Vegas's queue is the shorter one, so the RTT is lower at the same rate. LTP's queue shows in the
RTT while LTP runs. Where the buffer is shorter than LTP's queue, LTP loses packets instead, and Vegas loses
none. During a trial Vegas has to earn more than LTP did before. If Vegas earns less, LTP returns, and this
path gets no further trial.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Slots
from ltp_switcher.daemon.choose.path.looks import Looks
from ltp_switcher.daemon.choose.path.model import BEHIND_QUEUE
from ltp_switcher.daemon.choose.rule import reasons as why
from ltp_switcher.daemon.choose.rule.roles import STEADY
from ltp_switcher.daemon.choose.rule.states import ROLE, State, States
from ltp_switcher.slots import SlotArrays, column

CAREFUL_PKTS: Final = 5.0
"""Vegas's queue in packets, including the bursts that its acknowledgements cause."""
STEADY_US: Final = 2500.0
"""LTP's queue, µs."""
OWN_US: Final = 2.0 * STEADY_US
"""A queue under LTP that is longer than this cannot be LTP's own, µs."""
GAIN: Final = 1.03
"""Least ratio of Vegas's expected reward to LTP's at which a trial of Vegas begins."""
LOOKS: Final = 8
"""Number of looks over which each arm is judged. A look lasts 0.25 s and two round trips at least."""
LEFT: Final = 0.01
"""Losses are taken to leave at least this share of a look's reward. So no look, of 0.25 s or more, decides
alone.
"""
OTHER: Final = 1.5
"""If the rate or the RTT differs from its mean by this factor, the path has changed. Earlier rewards are
forgotten then.
"""


def fast(packet_us: Floats) -> Bools:
    """True where the queue of Vegas is shorter in time than the queue of LTP, shape (n,).

    `packet_us` is the time that the bottleneck needs for a packet, µs, shape (n,).
    """
    found: Bools = CAREFUL_PKTS * packet_us < STEADY_US
    return found


class Trials(SlotArrays):
    """The rewards of each player's arms since its path changed. A player is the flows that share a
    bottleneck. The rewards decide whether the careful arm, Vegas, is tried in place of the steady arm, LTP. A
    look lasts 0.25 s or more.
    """

    _count = column(np.int64)
    """Number of looks at the present arm. The first look has the RTT of the earlier arm, and does not count.
    """
    _gain = column(np.float64)
    """Mean logarithm of a ratio of rewards: the careful arm's expected one over the steady arm's. A look with
    a queue that is not the steady arm's own counts as -1.
    """
    _share = column(np.float64)
    """Mean of `Looks.share` over the looks: the reward as a share of the reward that the path allows."""
    _before = column(np.float64, initial=np.nan)
    """The steady arm's `_share` when the careful arm replaced it; NaN if it never did."""
    _off = column(np.bool_)
    """Whether the last look differs from those before it as if the path had changed."""
    _packet = column(np.float64)
    """Mean log of the time that a packet took, µs."""
    _least = column(np.float64)
    """Mean log of the looks' lowest RTT, µs."""

    def look(self, slots: Slots, looks: Looks) -> None:
        """Take in the last looks of players whose arms have settled.

        A look in which the application paused says nothing about the arm, and is left out.
        """
        slots = slots[np.isfinite(looks.rate_Bps[slots])]
        alike = self._compare(slots, looks)
        self._count[slots] += 1
        counts = self._count[slots] > 0
        slots, alike = slots[counts], alike[counts]
        floor_us, mean_us = looks.floor_us[slots], looks.mean_us[slots]
        careful_us = floor_us + CAREFUL_PKTS * looks.packet_us[slots]
        own = mean_us <= floor_us + OWN_US
        gain = _log(mean_us) - _log(careful_us)
        left = np.where(mean_us > BEHIND_QUEUE * floor_us, looks.left[slots], 1.0)
        # A buffer that overflows has no room for a longer queue.
        gain = np.where(left < 1, np.maximum(gain, 0.0), gain) - np.log(np.maximum(left, LEFT))
        weight = 1.0 / np.minimum(self._count[slots], LOOKS)
        for mean, seen in (
            (self._gain, np.where(own, gain, -1.0)),
            (self._share, looks.share[slots]),
            (self._packet, np.where(alike, np.log(looks.packet_us[slots]), self._packet[slots])),
            (self._least, np.where(alike, _log(looks.least_us[slots]), self._least[slots])),
        ):
            mean[slots] += weight * (np.nan_to_num(seen) - mean[slots])

    def _compare(self, slots: Slots, looks: Looks) -> Bools:
        """Forget what the arms have shown where the rate or the lowest RTT has become another. Two looks have
        to show it: after a loss Vegas has less of the rate for one look. Returns false for the first of them,
        shape (n,).
        """
        known = self._count[slots] > 0
        packet = np.log(looks.packet_us[slots]) - self._packet[slots]
        least = _log(looks.least_us[slots]) - self._least[slots]
        off = known & (np.fmax(np.abs(packet), np.abs(least)) > np.log(OTHER))
        other = off & self._off[slots]
        self._off[slots] = off & ~other
        self._count[slots[other]] = 0
        self._before[slots[other]] = np.nan
        counts: Bools = other | ~off
        return counts

    def findings(
        self, slots: Slots, state: States, settled: Bools, calm: Bools
    ) -> dict[int, tuple[Bools, Floats]]:
        """The findings of trials, by the number of the reason (`reasons`) to which each leads.

        Each finding has two arrays of shape (n,): true where the reason applies, and the number for its text.

        Args:
            slots: players, shape (n,).
            state: state of each player, shape (n,).
            settled: true where the RTT has settled, shape (n,).
            calm: true where a trial may begin, because the rate does not swing either, and no packets are
                lost without a queue, shape (n,). A trial may end elsewhere, too: the careful arm's losses may
                make its rate swing.
        """
        # The next look tells whether the path has changed.
        seen = settled & (self._count[slots] >= LOOKS) & ~self._off[slots]
        tried = seen & (state == State.TRIES)
        role = ROLE[state]
        share, before, gain = self._share[slots], self._before[slots], self._gain[slots]
        packet_us = np.exp(self._packet[slots])
        return {
            why.SHORTER: (
                seen & calm & (role == STEADY) & np.isnan(before) & (gain > np.log(GAIN)),
                100 * np.expm1(gain),
            ),
            why.EARNED: (tried & (share < before), 100 * (1 - share / before)),
            why.SLOW: (tried & np.isnan(before) & ~fast(packet_us), 1e-3 * CAREFUL_PKTS * packet_us),
        }

    def other_arm(self, slots: Slots, tried: Bools) -> None:
        """Begin to count anew for players that change their arms. Each player can have one trial on a path.

        Args:
            slots: players, shape (n,).
            tried: true for players whose trial of the careful arm begins now, shape (n,).
        """
        self._before[slots[tried]] = self._share[slots[tried]]
        self._count[slots] = -1
        self._off[slots] = False


def _log(rtt_us: Floats) -> Floats:
    """The logarithm of an RTT; NaN in a look without one."""
    log: Floats = np.log(np.where(np.isfinite(rtt_us) & (rtt_us > 0), rtt_us, np.nan))
    return log
