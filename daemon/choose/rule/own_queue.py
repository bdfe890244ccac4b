# SPDX-License-Identifier: Apache-2.0
"""Whether the queue of a path is the flow's own.

After a fall of the rate a learned arm may keep the queue full: it compares its throughput with the largest
that it has had. The RTT then looks like a longer path's, or like the RTT behind another flow's queue. So the
arm begins anew, with a window that empties the queue within a few round trips. If the RTT falls to the
path's, the queue was the flow's own, and nothing else has changed.

The test gives share away where the queue is another flow's, and a longer path shows better without it. So it
needs a rate that has fallen by much, or several flows to one prefix: as many flows of the probing arm would
fill the queue themselves. An RTT that is high and constant needs losses, too: a full queue has some, a longer
path has none.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Slots
from ltp_switcher.daemon.choose.path.looks import Looks
from ltp_switcher.slots import SlotArrays, column

SHOW_RTTS: Final = 2.0
"""Round trips on the empty path that show its RTT."""
SLOW: Final = 0.4
"""Share of the highest rate that the path has shown, below which the rate has fallen by much."""
LATE_US: Final = 100_000.0
"""Time for a window to become as small as it is to be: two controls, of which each halves it at most."""
SHOWN: Final = 1.1
"""The queue is gone at an RTT below the path's lowest times this."""


class OwnQueue(SlotArrays):
    """The tests under way, by player.

    Args:
        rtt_step: factor over the path's lowest RTT above which a queue is not the flow's own.
        again_s: time from a test to the next.
    """

    _until_ns = column(np.int64)
    """End of the test under way, CLOCK_MONOTONIC; 0 without a test."""
    _lowest_us = column(np.float64, initial=np.inf)
    """Lowest RTT in the test."""
    _shown_us = column(np.float64)
    """An RTT that ends the test early."""
    _constant = column(np.bool_)
    """Whether the RTT was constant before the test."""
    _again_ns = column(np.int64)
    """Time before which no test begins, CLOCK_MONOTONIC."""
    _begun = column(np.bool_)
    """Whether the test has begun since the last call of `begun`."""

    def __init__(self, rtt_step: float, again_s: float) -> None:
        super().__init__()
        self._rtt_step, self._again_ns_after = rtt_step, int(again_s * 1e9)

    def under_way(self, slots: Slots) -> Bools:
        """True where a player is tested, shape (n,)."""
        found: Bools = self._until_ns[slots] > 0
        return found

    def due(self, slots: Slots, looks: Looks, constant: Bools, several: Bools, now_ns: Floats) -> Bools:
        """True where a high RTT calls for a test, shape (n,).

        Args:
            slots: players whose RTT is high, shape (n,).
            looks: looks of these players.
            constant: whether the RTT is constant, too, shape (n,).
            several: which players have several flows, shape (n,).
            now_ns: CLOCK_MONOTONIC, shape (n,).
        """
        may_fill = several | (looks.rate_Bps[slots] < SLOW * looks.top_Bps[slots])
        unclear = ~constant | (looks.lost_pkts[slots] > 0)
        found: Bools = may_fill & unclear & (now_ns >= self._again_ns[slots])
        return found

    def begin(
        self, slots: Slots, constant: Bools, least_us: Floats, floor_us: Floats, now_ns: Floats
    ) -> None:
        """Begin tests. All arrays have shape (n,).

        Args:
            slots: players.
            constant: whether the RTT is constant.
            least_us: the RTT now. A queue is gone within as much time once the window is small.
            floor_us: lowest RTT of the path.
            now_ns: CLOCK_MONOTONIC.
        """
        queued = least_us > self._rtt_step * floor_us
        late_us = np.where(queued, least_us + LATE_US, 0.0)
        self._until_ns[slots] = (now_ns + (least_us + late_us + SHOW_RTTS * floor_us) * 1e3).astype(np.int64)
        self._shown_us[slots] = np.where(queued, SHOWN * floor_us, 0.0)
        self._again_ns[slots] = now_ns.astype(np.int64) + self._again_ns_after
        self._lowest_us[slots] = np.inf
        self._constant[slots] = constant
        self._begun[slots] = True

    def look(
        self, slots: Slots, least_us: Floats, floor_us: Floats, now_ns: Floats
    ) -> tuple[Bools, Floats, Bools]:
        """Take in looks, and end the tests whose time is over. All arrays have shape (n,).

        Args:
            slots: players.
            least_us: lowest RTT of the look.
            floor_us: lowest RTT of the path.
            now_ns: end of the look.

        Returns:
            Where the arm can go on, the lowest RTT of the path there, and where a queue stands that is
            another's. The arm can go on where the queue was its own, or where the path has become longer.
        """
        tested = self.under_way(slots)
        at = slots[tested]
        self._lowest_us[at] = np.minimum(self._lowest_us[at], least_us[tested])
        ended = tested & (now_ns > self._until_ns[slots])
        own = ended & (self._lowest_us[slots] <= self._rtt_step * floor_us)
        longer = ended & ~own & self._constant[slots]
        self._until_ns[slots[ended]] = 0
        return own | longer, np.where(own, floor_us, self._lowest_us[slots]), ended & ~own & ~longer

    def empties(self, slots: Slots, least_us: Floats, now_ns: int) -> Bools:
        """True where a player's window is to be small now, shape (n,).

        Args:
            slots: players, shape (n,).
            least_us: lowest RTT of the step, shape (n,); 0 if not known.
            now_ns: CLOCK_MONOTONIC.
        """
        found: Bools = now_ns < self._until_ns[slots]
        shown = found & (least_us > 0) & (least_us < self._shown_us[slots])
        self._until_ns[slots[shown]] = now_ns
        return found & ~shown

    def begun(self, slots: Slots) -> Bools:
        """True where a test has begun since the last call, shape (n,)."""
        found: Bools = self._begun[slots]
        self._begun[slots] = False
        return found
