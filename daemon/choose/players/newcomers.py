# SPDX-License-Identifier: Apache-2.0
"""Newcomers: flows that begin while siblings are open. Siblings are the flows that share a bottleneck.

If the siblings fill their windows, the newcomer joins them at once, because it gets its part of their rate.
Other siblings, like the connections of a web page, do not fill their windows, and have nothing to share.
Beside them the steady arm, LTP, would begin with a few packets, and a short transfer would be over before its
rate has grown. So the newcomer begins with the probing arm, BBR, there.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Indices, Slots
from ltp_switcher.slots import SlotArrays, column

FILLED_S: Final = 1.0
"""Time in seconds. A newcomer joins a player at once if one of the player's flows has filled its window for
this time without a break, and did so no longer ago than this time.
"""


class _Players(SlotArrays):
    filled_ns = column(np.int64)
    """Last time at which one of the player's flows had filled its window for `FILLED_S`, CLOCK_MONOTONIC."""


class Newcomers(SlotArrays):
    """Tells which flows are young. The flows that share a bottleneck are siblings, and together one player. A
    young flow does not join its siblings yet.

    Args:
        start_s: time in seconds for which a flow is young. A flow that joins its siblings at once is not
            young at all.
    """

    _old_ns = column(np.int64)
    """Time from which on a flow is not young, CLOCK_MONOTONIC; 0 before its first record."""
    _spare_ns = column(np.int64)
    """Time at which the flow last had room in its window, or did not run the steady arm, CLOCK_MONOTONIC."""

    def __init__(self, start_s: float) -> None:
        super().__init__()
        self._start_ns = start_s * 1e9
        self._players = _Players()

    def found(self, players: Slots) -> None:
        """Take in new players, by their numbers."""
        self._players.reset(players)

    def step(self, slots: Slots, players: Indices, began_ns: Floats, now_ns: Floats, fills: Bools) -> None:
        """Take in a step of n flows. Each argument has the shape (n,).

        Args:
            slots: the slots of the flows.
            players: the player of each flow.
            began_ns: start of the step, CLOCK_MONOTONIC; for a new flow, the start of the flow.
            now_ns: end of the step, CLOCK_MONOTONIC.
            fills: True where the flow runs the steady arm, LTP, and has enough to send.
        """
        new = self._old_ns[slots] == 0
        if new.any():
            born, since_ns = slots[new], began_ns[new]
            joins = since_ns - self._players.filled_ns[players[new]] <= FILLED_S * 1e9
            self._old_ns[born] = since_ns + np.where(joins, 0.0, self._start_ns)
        spare = new | ~fills
        self._spare_ns[slots[spare]] = now_ns[spare]
        filled = now_ns - self._spare_ns[slots] >= FILLED_S * 1e9
        self._players.filled_ns[players[filled]] = now_ns[filled]

    def young(self, slots: Slots, now_ns: Floats) -> Bools:
        """True where a flow is still young at `now_ns`, CLOCK_MONOTONIC, shape (n,)."""
        found: Bools = now_ns < self._old_ns[slots]
        return found
