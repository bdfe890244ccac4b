# SPDX-License-Identifier: Apache-2.0
"""Tests whether the queue of a path belongs to the player's own flows. A player is the flows that share a
bottleneck.

After a fall of the rate the steady arm, LTP, may keep the queue full, because LTP compares its throughput
with the largest one of the past. The high RTT then looks like a longer path, or like the queue of another
flow. So the test lets the arm begin anew, with a window that empties the queue within a few round trips. If
the RTT falls to the path's lowest, the queue was the player's own, and nothing else has changed.

If the queue belongs to another flow, the test costs the player some of its share of the rate. If the path has
become longer, the probing arm, BBR, shows it better than a test. So a test needs a rate that has fallen by
much, or a player with several flows, with which BBR would fill the queue, too. If the RTT is high and
constant, a test also needs losses, because a full queue loses packets and a longer path does not.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Slots
from ltp_switcher.daemon.choose.path.looks import Looks
from ltp_switcher.slots import SlotArrays, column

SHOW_RTTS: Final = 2.0
"""Number of round trips without a queue that show the RTT of the path."""
SLOW: Final = 0.4
"""Below this share of the path's highest rate, the rate counts as fallen by much."""
LATE_US: Final = 100_000.0
"""Time in µs that the steady arm needs to make its window small. It takes two decisions of the arm, and each
of them can halve the window.
"""
SHOWN: Final = 1.1
"""The queue is gone if the RTT is below this multiple of the path's lowest RTT."""


class OwnQueue(SlotArrays):
    """The tests under way, by player. A player is the flows that share a bottleneck.

    In a test the steady arm, LTP, begins anew with a small window. If the RTT falls, the queue was the
    player's own. The RTT is taken from looks, which last 0.25 s or more.

    Args:
        rtt_step: the queue is the player's own if the lowest RTT of the test is at most this multiple of the
            path's lowest RTT.
        again_s: least time from the beginning of a test to the beginning of the next one.
    """

    _until_ns = column(np.int64)
    """End of the test under way, CLOCK_MONOTONIC; 0 without a test."""
    _lowest_us = column(np.float64, initial=np.inf)
    """Lowest RTT of the test so far, µs."""
    _shown_us = column(np.float64)
    """An RTT below this value ends the test early, µs."""
    _constant = column(np.bool_)
    """Whether the RTT was constant before the test."""
    _again_ns = column(np.int64)
    """Time before which no test begins, CLOCK_MONOTONIC."""
    _begun = column(np.bool_)
    """Whether a test has begun since the last call of `begun`."""

    def __init__(self, rtt_step: float, again_s: float) -> None:
        super().__init__()
        self._rtt_step, self._again_ns_after = rtt_step, int(again_s * 1e9)

    def under_way(self, slots: Slots) -> Bools:
        """True for players that are tested now, shape (n,)."""
        found: Bools = self._until_ns[slots] > 0
        return found

    def due(self, slots: Slots, looks: Looks, constant: Bools, several: Bools, now_ns: Floats) -> Bools:
        """True where a high RTT calls for a test, shape (n,).

        Args:
            slots: players whose RTT is high, shape (n,).
            looks: looks of these players.
            constant: whether the RTT is also constant, shape (n,).
            several: true for players with several flows, shape (n,).
            now_ns: CLOCK_MONOTONIC, shape (n,).
        """
        may_fill = several | (looks.rate_Bps[slots] < SLOW * looks.top_Bps[slots])
        unclear = ~constant | (looks.lost_pkts[slots] > 0)
        found: Bools = may_fill & unclear & (now_ns >= self._again_ns[slots])
        return found

    def begin(
        self, slots: Slots, constant: Bools, least_us: Floats, floor_us: Floats, now_ns: Floats
    ) -> None:
        """Begin tests. All arrays have the shape (n,).

        Args:
            slots: players.
            constant: whether the RTT is constant.
            least_us: lowest RTT of the last look. After the window has become small, the queue needs this
                time to empty.
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
        """Take in looks, and end the tests whose time is over. All arrays have the shape (n,).

        Args:
            slots: players.
            least_us: lowest RTT of the look.
            floor_us: lowest RTT of the path.
            now_ns: end of the look.

        Returns:
            Three arrays. The first is true where the arm can continue: the queue was the player's own, or the
            path has become longer. The second has the lowest RTT of the path, µs, for these players. The
            third is true where the queue belongs to another flow.
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
        """True where the window of a player has to be small now, shape (n,).

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
