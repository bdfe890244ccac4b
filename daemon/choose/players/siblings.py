# SPDX-License-Identifier: Apache-2.0
"""Siblings: the open flows to one destination prefix that share a bottleneck. Together they are one player.

If each flow decided for itself, it would take its siblings for rivals. Mutant Eq. 1 with κ = 2 would then pay
the flow that takes everything. So the rule sees a player as one flow, which has the packets of all the
player's flows and the lowest RTT of any. All flows of a player get the arm of its role at the same time,
except young flows (`newcomers`).

Flows of a prefix count as siblings unless their RTTs show that they share no bottleneck. One queue delays all
flows that pass it, so the mean RTTs of siblings agree in a look, the time over which the rule sums up. A flow
with another RTT joins the player of flows with the same RTT, or becomes a player of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Indices, Slots
from ltp_switcher.daemon.choose.path.looks import (
    BDP,
    DELIVERED,
    KERNEL_FLOOR,
    LOST,
    LOST_WITHOUT_QUEUE,
    RTT_LEAST,
    RTT_SAMPLES,
    RTT_SUM,
    SILENT_NS,
    SRTT,
)
from ltp_switcher.slots import SlotArrays, column

APART: Final = 1.25
"""Largest ratio of the mean RTTs of two flows that share a bottleneck, unless `APART_PKTS` allows more."""
APART_PKTS: Final = 10.0
"""Largest difference between the mean RTTs of two flows that share a bottleneck, unless `APART` allows more.
It is counted in packets that the bottleneck sends in this time.
"""
SAMPLES_LEAST: Final = 3
"""Least number of RTT samples in a look (0.25 s or more) with which a flow's mean RTT counts."""
MISFITS: Final = 4
"""A flow leaves its player, the flows that share a bottleneck, when this count is reached. Each look (0.25 s
or more) with another RTT than the player's adds one, and each other look takes one off.
"""
MOVES_MAX: Final = 2
"""Number of moves to other players after which a flow moves no more. A player is the flows that share a
bottleneck.
"""

_SUMMED: Final = [RTT_SAMPLES, RTT_SUM, LOST_WITHOUT_QUEUE, BDP, SILENT_NS]
_TOTALS: Final = [DELIVERED, LOST]


class Folded(NamedTuple):
    """A step of g players, in the form that a step of g flows would have. A player is the flows that share a
    bottleneck.
    """

    players: Indices
    """Numbers of the players, shape (g,)."""
    seen: Floats
    """The fields of `looks.read`, summed up or merged by player, shape (fields, g)."""
    idle: Bools
    """True where no flow of the player had enough to send, shape (g,)."""
    draining: Bools
    """True where the player's arm empties the queue, shape (g,). The oldest flow tells, or another one if the
    oldest has no record in the step.
    """


class _Players(SlotArrays):
    """The state of each player."""

    oldest = column(np.int64)
    """Slot of the player's oldest flow."""
    totals = column(np.float64, 2)
    """Packets that the player's flows delivered and lost."""
    jain = column(np.float64, initial=1.0)
    """Jain's index of the packets that the flows delivered in the last look."""
    look_ns = column(np.float64, initial=np.nan)
    """End of the last look, CLOCK_MONOTONIC."""


class Siblings(SlotArrays):
    """The player of each flow. A player is the flows of one destination prefix that share a bottleneck. It
    keeps its number as long as it has flows, as a flow keeps its slot. A look lasts 0.25 s or more, and shows
    whether flows share a bottleneck.
    """

    player = column(np.intp)
    _totals = column(np.float64, 2, initial=np.nan)
    """Packets delivered and packets lost, by the flow's last record; NaN before the first record."""
    _mark = column(np.float64, initial=np.nan)
    """Packets that the flow had delivered at the end of its last look; NaN before the first look ends."""
    _rtts = column(np.float64, 2)
    """The RTT samples since the end of the last look: their number, and their sum in µs."""
    _srtt_us = column(np.float64)
    _misfits = column(np.int64)
    _moves = column(np.int64)

    def __init__(self) -> None:
        super().__init__()
        self._players = _Players()
        self._free: list[int] = []
        self._flows: dict[int, list[int]] = {}
        """Slots of each player's flows, the oldest first."""
        self._of: dict[str, list[int]] = {}
        """Players of each prefix."""
        self._prefix: dict[int, str] = {}
        self._mixed: set[int] = set()
        self.several = 0
        """Number of players with more than one flow."""

    def prefix(self, player: int) -> str:
        """The destination prefix of an open player."""
        return self._prefix[player]

    def leads(self, slots: Slots) -> Bools:
        """True for flows that are the oldest of their players, shape (n,)."""
        found: Bools = self._players.oldest[self.player[slots]] == slots
        return found

    def oldest(self, player: int) -> int:
        """The slot of an open player's oldest flow."""
        return self._flows[player][0]

    def alone(self, players: Indices) -> Bools:
        """True where a player has a single flow; the result has the shape of `players`."""
        return np.array([len(self._flows[player]) == 1 for player in players.tolist()], np.bool_)

    def jain(self, players: Indices) -> Floats:
        """Jain's index of the packets that the flows of each player delivered in its last look, in the shape
        of `players`.
        """
        return self._players.jain[players]

    def mixed(self) -> Slots:
        """Return the open players that flows have joined or left since the last call."""
        mixed = np.array(sorted(self._mixed), np.int64)
        self._mixed.clear()
        return mixed

    def open(self, slots: Slots, prefixes: Sequence[str]) -> Slots:
        """Take in new flows, each with its prefix. Returns the players that begin with these flows."""
        self.reset(slots)
        founded = []
        for slot, prefix in zip(slots.tolist(), prefixes, strict=True):
            there = self._of.get(prefix)
            if there:
                self._join(slot, max(there, key=lambda player: len(self._flows[player])))
            else:
                founded.append(self._found(slot, prefix))
        return np.array(founded, np.int64)

    def close(self, slots: Slots) -> None:
        """Forget flows that have ended. Their slots may be used again."""
        for slot in slots.tolist():
            self._leave(slot)

    def fold(self, slots: Slots, seen: Floats, idle: Bools, draining: Bools) -> Folded:
        """Sum up a step's flows by player.

        Args:
            slots: slots of the flows, shape (n,).
            seen: the flows' fields from `looks.read`, shape (fields, n).
            idle: whether the application had too little to send, shape (n,).
            draining: whether the arm empties the queue, shape (n,).
        """
        of, known = self.player[slots], self._players
        totals = seen[_TOTALS].T
        news = np.nan_to_num(totals - self._totals[slots])
        self._totals[slots] = totals
        if not self.several:
            known.totals[of] += news
            folded = seen.copy()
            folded[_TOTALS] = known.totals[of].T
            return Folded(of, folded, idle, draining)
        self._rtts[slots] += seen[[RTT_SAMPLES, RTT_SUM]].T
        self._srtt_us[slots] = seen[SRTT]
        players, first, at = np.unique(of, return_index=True, return_inverse=True)
        # The oldest flow's values stand for the player's where values cannot be summed up.
        is_oldest = known.oldest[of] == slots
        first[at[is_oldest]] = np.flatnonzero(is_oldest)
        np.add.at(known.totals, of, news)
        folded = seen[:, first]
        folded[_TOTALS] = known.totals[players].T
        for row in _SUMMED:
            folded[row] = np.bincount(at, seen[row])
        # A player's silence is the mean of its flows' silences, whichever flows have a record in this step.
        folded[SILENT_NS] /= np.array([len(self._flows[player]) for player in players.tolist()])
        for row, is_known in ((RTT_LEAST, seen[RTT_SAMPLES] > 0), (KERNEL_FLOOR, seen[KERNEL_FLOOR] > 0)):
            least = np.full(players.size, np.inf)
            np.minimum.at(least, at[is_known], seen[row, is_known])
            folded[row] = np.where(np.isfinite(least), least, 0.0)
        return Folded(players, folded, np.bincount(at, ~idle) == 0, draining[first])

    def look(self, slots: Slots, ended: Indices, now_ns: Floats) -> Slots:
        """End the looks of some players. A flow moves to another player if its RTT has differed from its
        player's in several looks.

        Args:
            slots: slots of the step's flows, shape (n,).
            ended: the players whose looks end, shape (g,).
            now_ns: the time at which each of these looks ends, shape (g,).

        Returns:
            The new players. Each was made for a flow that fits no player of its prefix.
        """
        known = self._players
        since_ns = known.look_ns[ended]
        known.look_ns[ended] = now_ns
        if not self.several:
            return np.zeros(0, np.int64)
        took_s = np.full(known.capacity, np.nan)
        took_s[ended] = (now_ns - since_ns) * 1e-9
        mine = slots[np.isin(self.player[slots], ended)]
        of = self.player[mine]
        got = self._totals[mine, 0] - self._mark[mine]
        self._mark[mine] = self._totals[mine, 0]
        count, sum_us = self._rtts[mine].T
        self._rtts[mine] = 0.0
        # A flow that began within the look has only a part of it, and would count with too few packets.
        whole = np.isfinite(got)
        counts, sums, squares = (
            np.bincount(of[whole], weights, known.capacity) for weights in (None, got[whole], got[whole] ** 2)
        )
        busy = ended[squares[ended] > 0]
        known.jain[busy] = sums[busy] ** 2 / (counts[busy] * squares[busy])
        mean_us = np.full(self.capacity, np.nan)
        mean_us[mine] = np.where(count >= SAMPLES_LEAST, sum_us / np.maximum(count, 1.0), np.nan)
        other_us = mean_us[known.oldest[of]]
        differ = _differ(mean_us[mine], other_us, sums[of] / took_s[of])
        self._misfits[mine] = np.where(
            differ, self._misfits[mine] + 1, np.maximum(self._misfits[mine] - 1, 0)
        )
        leave = (self._misfits[mine] >= MISFITS) & (self._moves[mine] < MOVES_MAX)
        founded = [self._move(slot) for slot in mine[leave].tolist()]
        return np.array([player for player in founded if player is not None], np.int64)

    def _move(self, slot: int) -> int | None:
        """Move a flow to another player of its prefix that fits, and return None. If no player fits, make a
        new one for the flow, and return the new player.
        """
        left = int(self.player[slot])
        prefix = self._prefix[left]
        self._leave(slot)
        self._misfits[slot] = 0
        self._moves[slot] += 1
        others = [player for player in self._of.get(prefix, []) if player != left]
        apart = [_factor(self._srtt_us[self._flows[other][0]], self._srtt_us[slot]) for other in others]
        if apart and min(apart) <= APART:
            self._join(slot, others[int(np.argmin(apart))])
            return None
        return self._found(slot, prefix)

    def _found(self, slot: int, prefix: str) -> int:
        player = self._free.pop() if self._free else len(self._flows)
        self._players.reset(np.array([player]))
        self._players.oldest[player] = slot
        self._flows[player] = []
        self._prefix[player] = prefix
        self._of.setdefault(prefix, []).append(player)
        self._join(slot, player)
        return player

    def _join(self, slot: int, player: int) -> None:
        self.player[slot] = player
        self._flows[player].append(slot)
        if len(self._flows[player]) > 1:
            self._mixed.add(player)
        self.several += len(self._flows[player]) == 2

    def _leave(self, slot: int) -> None:
        player = int(self.player[slot])
        flows = self._flows[player]
        flows.remove(slot)
        self.several -= len(flows) == 1
        self._players.jain[player] = 1.0
        if flows:
            self._players.oldest[player] = flows[0]
            self._mixed.add(player)
            return
        del self._flows[player]
        self._mixed.discard(player)
        prefix = self._prefix.pop(player)
        self._of[prefix].remove(player)
        if not self._of[prefix]:
            del self._of[prefix]
        self._free.append(player)


def _factor(one_us: float, other_us: float) -> float:
    return max(one_us, other_us) / max(min(one_us, other_us), 1.0)


def _differ(one_us: Floats, other_us: Floats, rate_pps: Floats) -> Bools:
    """True where two flows' mean RTTs are too far apart for one bottleneck, shape (n,); False where an RTT or
    the rate is not known. The bottleneck would send `rate_pps` packets per second.
    """
    apart_us = np.abs(one_us - other_us)
    found: Bools = (apart_us > (APART - 1.0) * np.minimum(one_us, other_us)) & (
        apart_us * 1e-6 * rate_pps > APART_PKTS
    )
    return found
