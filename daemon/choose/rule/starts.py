# SPDX-License-Identifier: Apache-2.0
"""Tells whether the probing arm's start overfills the buffer of a path. The probing arm is BBR.

BBR begins with up to 2.9 bandwidth-delay products in flight, for three round trips at least. A buffer of less
than two products cannot hold so many packets, and loses up to a third of them. A flow of 60 s hardly notices.
But most flows of a server end within two seconds, and lose most of their reward.

The first flow to a prefix shows such a buffer, and the next flows to this prefix begin otherwise. The kernel
begins them on `kernel.default_arm`, Cubic, whichever arm earlier flows have chosen. Such a flow keeps the arm
on which it began for the time in which BBR would run. A flow that began on BBR changes to
`kernel.default_arm` at the first step. Cubic's start ends at the first sign of a queue (HyStart, Ha and Rhee,
2011).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Slots
from ltp_switcher.daemon.choose.path.looks import DELIVERED, LOST, LOST_WITHOUT_QUEUE
from ltp_switcher.measures import loss_rate, reward
from ltp_switcher.slots import SlotArrays, column

LEFT: Final = 0.5
"""Share of a flow's reward. If a full buffer's losses at the flow's start leave less than this share, the
start overfilled the buffer.
"""
LOST_LEAST: Final = 8.0
"""Least number of lost packets with which a start counts as overfilling the buffer. BBR version 2 ends its
start after as many.
"""


class Starts(SlotArrays):
    """The losses of flows that start under the probing arm, BBR.

    Args:
        zeta: weight of loss in the reward, Mutant Eq. 1.
        kappa: weight of throughput in the reward.
    """

    _marks = column(np.float64, 2, initial=np.nan)
    """Packets delivered and lost by the first record of the start; NaN before this record."""
    _counts = column(np.float64, 3)
    """Packets delivered and packets lost since `_marks`, and packets lost while no queue stood. The third
    count includes the step of the first record.
    """

    def __init__(self, *, zeta: float, kappa: float) -> None:
        super().__init__()
        self._zeta, self._kappa = zeta, kappa

    def take(self, slots: Slots, seen: Floats) -> None:
        """Take in a step of flows that are still in their starts.

        Args:
            slots: slots of the flows, shape (n,).
            seen: fields from `looks.read`, shape (fields, n).
        """
        totals = seen[[DELIVERED, LOST]].T
        first = np.isnan(self._marks[slots, 0])
        self._marks[slots[first]] = totals[first]
        self._counts[slots, :2] = totals - self._marks[slots]
        self._counts[slots, 2] += seen[LOST_WITHOUT_QUEUE]

    def shown(self, slots: Slots) -> tuple[Bools, Floats]:
        """Return two arrays of shape (n,): true where a start overfilled the buffer, and the share of its
        packets that the full buffer lost.
        """
        delivered_pkts, lost_pkts, quiet_pkts = self._counts[slots].T
        overflow_pkts = lost_pkts - quiet_pkts
        share = loss_rate(overflow_pkts, delivered_pkts)
        left = reward(1.0, share, 1.0, zeta=self._zeta, kappa=self._kappa)
        found: Bools = (overflow_pkts >= LOST_LEAST) & (left < LEFT)
        return found, share
