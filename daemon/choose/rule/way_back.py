# SPDX-License-Identifier: Apache-2.0
"""Finds queues on the way back, behind which an arm takes too little.

Where the way back is slow, ACKs wait there. An arm that goes by the RTT or by the rate takes this queue for
its own, and sends less. But a window that is larger than the queue of ACKs does no harm: a lost ACK costs
nothing, because the next ACK tells the same. Only an arm that grows until packets are lost gets beyond such a
queue.

TCP's timestamps tell a queue on the way back from a queue on the way to the receiver (RFC 7323; the module's
mutant_back.h). So the filling arm, Cubic, gets a trial where a queue on the way back stands under the probing
arm, BBR. It begins with BBR's whole window, and pulses raise that quickly (`pulses`). The RTT grows for some
seconds before the rate does. The filling arm has to earn more than the other arms have shown.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Slots
from ltp_switcher.daemon.choose.path.looks import ACK_GAP, BACK, THERE, TURN, Looks
from ltp_switcher.daemon.choose.rule.surprise import HALF, NEARLY
from ltp_switcher.slots import SlotArrays, column, put_first

LOOKS: Final = 3
"""Number of looks, of 0.25 s or more, in which the queue has to be on the way back."""
SHARE: Final = 0.15
"""Least queue on the way back, as a share of the RTT floor, that is more than noise."""
GAPS: Final = 2.0
"""Number of gaps between ACKs that the queue has to exceed. Where ACKs come in bursts, they wait for their
burst.
"""
MOST: Final = 2.0
"""The queue on the way back has to exceed that on the way to the receiver by this factor."""
TRIAL_S: Final = 10.0
"""Time in seconds for which the filling arm is on trial, if the queue of ACKs has stopped to grow by then.
The module knows the RTT floor of the last 5 to 10 s, so it knows the queue for about as long.
"""
LONGEST_S: Final = 20.0
"""Time for which a trial goes on while the queue grows. The rate does not grow before the queue is full."""
TOO_LONG: Final = 15.0
"""Factor by which the mean RTT may grow in a trial before the reward does. Beyond it the rate would have to
become four times as high.
"""
GREW: Final = 1.05
"""Least growth of the mean RTT over the last looks that is more than noise."""


class WayBack(SlotArrays):
    """The queue on each player's way back in its last looks under the arm that runs. A player is the flows
    that share a bottleneck, and a look lasts 0.25 s or more.
    """

    queue_us = column(np.float64)
    """Queue on the way back at the end of the last look, in µs; 0 if there is none, or if it is not known."""
    _waited = column(np.int64)
    """Number of looks, up to the last one, in which ACKs waited without a break."""
    _earned = column(np.float64, LOOKS, initial=np.nan)
    """Log reward of each look, newest first; NaN as in `Looks.earned`, and where there was no reward."""
    _mean_us = column(np.float64, LOOKS, initial=np.nan)
    """Mean RTT of each look, newest first."""
    _before_us = column(np.float64, initial=np.nan)
    """Mean RTT of the last look before the filling arm's trial."""
    _before = column(np.float64, initial=np.nan)
    """Mean log reward of the looks in which ACKs waited, before the filling arm's trial."""

    def look(self, slots: Slots, looks: Looks, seen: Floats) -> Bools:
        """Take in looks, and return true where ACKs have waited in each of the last ones, and the reward does
        not grow, shape (n,).

        Args:
            slots: players, shape (n,).
            looks: the looks of these players.
            seen: fields from `looks.read`, shape (fields, n).
        """
        floor_us = looks.floor_us[slots]
        # A way back that has become longer looks like a queue, until the path's floor is the new one.
        queue_us = np.minimum(seen[BACK], looks.mean_us[slots] - floor_us)
        waits = self.elsewhere(slots, looks, seen) & (queue_us > GAPS * seen[ACK_GAP])
        # ACKs that wait for a turn delay every window alike, and an arm's window has their packets already.
        waits &= (seen[TURN] == 0) & (looks.lost_pkts[slots] == 0)
        self.queue_us[slots] = queue_us
        self._waited[slots] = np.where(waits, self._waited[slots] + 1, 0)
        earned = looks.earned[slots]
        put_first(self._earned, slots, np.where(np.isneginf(earned), np.nan, earned))
        put_first(self._mean_us, slots, looks.mean_us[slots])
        # While the reward grows, the running arm may get beyond the queue by itself.
        grows = np.isnan(self._earned[slots, 0]) | self.gains(slots)
        due: Bools = (self._waited[slots] >= LOOKS) & ~grows
        return due

    @staticmethod
    def elsewhere(slots: Slots, looks: Looks, seen: Floats) -> Bools:
        """True where the RTT exceeds its floor by the time that ACKs take, and not by a queue on the way to
        the receiver, shape (n,). The arguments are those of `look`.
        """
        floor_us = looks.floor_us[slots]
        back_us = np.minimum(seen[BACK], looks.mean_us[slots] - floor_us)
        found: Bools = (back_us > SHARE * floor_us) & (back_us > MOST * seen[THERE])
        return found

    def waits(self, slots: Slots) -> Bools:
        """True where ACKs waited in the last look, shape (n,)."""
        waits: Bools = self._waited[slots] > 0
        return waits

    def gains(self, slots: Slots) -> Bools:
        """True where the reward grew over the last looks, shape (n,)."""
        gains: Bools = self._earned[slots, 0] - self._earned[slots, -1] > NEARLY
        return gains

    def grows(self, slots: Slots) -> Bools:
        """True where the queue on the way back grew over the last looks, shape (n,)."""
        grew: Bools = self._mean_us[slots, 0] > GREW * self._mean_us[slots, -1]
        return grew & self.waits(slots)

    def begin_trial(self, slots: Slots) -> None:
        """Keep the rewards under the probing arm, because trials of the filling arm begin."""
        earned = self._earned[slots]
        known = ~np.isnan(earned)
        self._before_us[slots] = self._mean_us[slots, 0]
        self._before[slots] = np.where(known, earned, 0.0).sum(axis=1) / known.sum(axis=1)

    def gain(self, slots: Slots, earned: Floats) -> Floats:
        """Logarithm of the filling arm's reward over the probing arm's while ACKs waited, shape (n,).

        `earned` is the filling arm's log reward, shape (n,). The gain is NaN if either is not known.
        """
        gain: Floats = earned - self._before[slots]
        return gain

    def too_long(self, slots: Slots) -> Bools:
        """True where the RTT has grown so much in a trial that the rate will hardly make up for it, shape
        (n,).
        """
        longer = self._mean_us[slots, 0] > TOO_LONG * self._before_us[slots]
        found: Bools = longer & ~(self._earned[slots, 0] > self._before[slots])
        return found

    def costs(self, slots: Slots) -> Bools:
        """True where each of the filling arm's last two looks earned less than half as much as the probing
        arm, shape (n,). A single look may have the losses of a buffer that has just become full.
        """
        latest = self._earned[slots, :2] - self._before[slots, np.newaxis]
        return np.asarray((latest < -HALF).all(axis=1))

    def forget(self, slots: Slots) -> None:
        """Forget the queues of these players, because their arms or their paths change."""
        self._waited[slots] = 0
        self._earned[slots] = np.nan
        self._mean_us[slots] = np.nan
