# SPDX-License-Identifier: Apache-2.0
"""Finds RTTs that stand far above the path's lowest one, while no packet is lost.

An arm that goes by the RTT or the rate takes such an RTT for its own queue, and sends less. But the queue
may be of another kind. For example, ACKs wait where the way back is slow. Such a queue is full at a small
share of the path's rate, and then it delays a large window no more than a small one. A lost ACK does no harm,
because the next ACK tells the same. Only an arm that grows until packets are lost gets beyond such a queue.

So the filling arm, Cubic, gets a trial where the RTT has stood under the probing arm, BBR. It begins with
BBR's whole window, and has to earn more than the other arms have shown.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Slots
from ltp_switcher.daemon.choose.path.looks import ACK_GAP, TURN, Looks
from ltp_switcher.daemon.choose.rule.drain import CONSTANT
from ltp_switcher.slots import SlotArrays, column, put_first

LOOKS: Final = 4
"""Number of looks, of 0.25 s or more, in which the RTT has to stand: each differs from their mean by at most
`drain.CONSTANT`.
"""
FAR: Final = 2.0
"""The RTT stands far above the path's lowest one from this multiple of it on. BBR's own queue does not reach
it, because BBR has at most twice the path's product of rate and lowest RTT in flight (Cardwell et al.,
"BBR: Congestion-Based Congestion Control", ACM Queue 14, 2016).
"""
GAPS: Final = 2.0
"""Number of gaps between ACKs by which BBR's queue may last longer. BBR adds the largest burst of ACKs to its
window.
"""


class Standing(SlotArrays):
    """The mean RTTs of each player's last looks under the arm that runs. A player is the flows that share a
    bottleneck, and a look lasts 0.25 s or more.
    """

    _means_us = column(np.float64, LOOKS, initial=np.nan)
    """Mean RTT of each look, newest first. It is NaN if the RTT was not far above the path's lowest one."""
    _earned = column(np.float64, LOOKS, initial=np.nan)
    """Log reward of each look, newest first; NaN as in `Looks.earned`."""
    _before = column(np.float64, initial=np.nan)
    """Mean log reward of the looks in which the RTT stood, before the filling arm's trial."""

    def look(self, slots: Slots, looks: Looks, seen: Floats, queue_pkts: float) -> Bools:
        """Take in looks, and return true where the RTT stands far above the path's lowest one, shape (n,).

        Args:
            slots: players, shape (n,).
            looks: the looks of these players.
            seen: fields from `looks.read`, shape (fields, n).
            queue_pkts: number of packets of queue that BBR may have beyond twice the product.
        """
        floor_us, mean_us = looks.floor_us[slots], looks.mean_us[slots]
        more_us = np.maximum(queue_pkts * looks.packet_us[slots], GAPS * seen[ACK_GAP])
        far = mean_us - FAR * floor_us > more_us
        # ACKs that wait for a turn delay every window alike, and an arm's window has their packets already.
        far &= (looks.lost_pkts[slots] == 0) & (seen[TURN] == 0)
        put_first(self._means_us, slots, np.where(far, mean_us, np.nan))
        put_first(self._earned, slots, looks.earned[slots])
        known = self._means_us[slots]
        off = np.abs(known / known.mean(axis=1, keepdims=True) - 1.0)
        stands: Bools = off.max(axis=1) <= CONSTANT
        return stands

    def ratio(self, slots: Slots, looks: Looks) -> Floats:
        """Mean RTT of the last look over the path's lowest RTT, shape (n,)."""
        ratio: Floats = self._means_us[slots, 0] / looks.floor_us[slots]
        return ratio

    def begin_trial(self, slots: Slots) -> None:
        """Keep the rewards under the probing arm, because trials of the filling arm begin."""
        self._before[slots] = self._earned[slots].mean(axis=1)

    def gain(self, slots: Slots, earned: Floats) -> Floats:
        """Logarithm of the filling arm's reward over the probing arm's while the RTT stood, shape (n,).

        `earned` is the filling arm's log reward, shape (n,). The gain is NaN if either is not known.
        """
        gain: Floats = earned - self._before[slots]
        return gain

    def forget(self, slots: Slots) -> None:
        """Forget the RTTs of these players, because their arms or their paths change."""
        self._means_us[slots] = np.nan
        self._earned[slots] = np.nan
