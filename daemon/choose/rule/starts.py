# SPDX-License-Identifier: Apache-2.0
"""Starts: does the probing arm's start overfill the buffer of the path?

BBR begins with up to 2.9 bandwidth-delay products in flight, for three round trips at least. A buffer of
less than two products cannot hold that, and loses up to a third of the packets. A flow of 60 s hardly
notices. Most flows of a server end within two seconds, so they lose most of their reward.

One flow shows it, and the next flows to the same prefix begin otherwise: each keeps the arm on which the
kernel began it (`kernel.default_arm`, Cubic) for as long as the probing arm would run. Cubic's start ends at
the first sign of a queue (HyStart, Ha and Rhee, 2011).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Slots
from ltp_switcher.daemon.choose.path.looks import DELIVERED, LOST, LOST_WITHOUT_QUEUE
from ltp_switcher.measures import loss_rate, reward
from ltp_switcher.slots import SlotArrays, column

LEFT: Final = 0.5
"""A start overfills the buffer where its losses leave less than this share of the reward."""
LOST_LEAST: Final = 8.0
"""Fewest lost packets that show it. BBR version 2 ends its start at as many."""


class Starts(SlotArrays):
    """The losses in the starts of flows under the probing arm.

    Args:
        zeta: weight of loss in the reward, Eq. 1.
        kappa: weight of throughput in it.
    """

    _marks = column(np.float64, 2, initial=np.nan)
    """Packets delivered and lost before the first record of the start; NaN before that."""
    _counts = column(np.float64, 3)
    """Packets delivered, lost, and lost while no queue stood, since then."""

    def __init__(self, *, zeta: float, kappa: float) -> None:
        super().__init__()
        self._zeta, self._kappa = zeta, kappa

    def take(self, slots: Slots, seen: Floats) -> None:
        """Take in a step of flows in their starts, as `looks.read` gives it, shape (fields, n)."""
        totals = seen[[DELIVERED, LOST]].T
        first = np.isnan(self._marks[slots, 0])
        self._marks[slots[first]] = totals[first]
        self._counts[slots, :2] = totals - self._marks[slots]
        self._counts[slots, 2] += seen[LOST_WITHOUT_QUEUE]

    def shown(self, slots: Slots) -> tuple[Bools, Floats]:
        """True where a start overfilled the buffer, and the share of packets lost, shape (n,)."""
        delivered_pkts, lost_pkts, quiet_pkts = self._counts[slots].T
        overflow_pkts = lost_pkts - quiet_pkts
        share = loss_rate(overflow_pkts, delivered_pkts)
        left = reward(np.ones(share.shape), share, np.ones(share.shape), zeta=self._zeta, kappa=self._kappa)
        found: Bools = (overflow_pkts >= LOST_LEAST) & (left < LEFT)
        return found, share
