# SPDX-License-Identifier: Apache-2.0
"""Credit: a reward goes to the decision under which its data was sent. A decision gives a flow its arm for
some round trips.

An ACK reports on data that left one RTT ago, perhaps under another arm. The kernel module sorts a step's
samples by the epoch in which their data was sent. An epoch is the time between two switches. A flow may keep
its arm over many decisions, so this Python module sorts the samples further, by decision. Once the data sent
under a decision has been acknowledged, Mutant Eq. 1 over all its samples judges the decision. Mutant itself
credits the arm that is active when the ACK arrives (`credit = "acked"`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Indices, Ints, Slots
from ltp_switcher.daemon.datapath.performance import (
    COUNTS,
    DELIVERED,
    TIME_NS,
    credit_counts,
    step_counts,
)
from ltp_switcher.daemon.datapath.types import RecordArray
from ltp_switcher.daemon.settings.schema import Credit
from ltp_switcher.slots import SlotArrays, column

# Data sent at the very end of a decision may meet a longer RTT than the smoothed one.
_LAG: Final = 1.25


@dataclass(frozen=True)
class Earned:
    """Decisions from which the agent can learn now, one for each of m flows. A decision gives a flow its arm
    for some round trips.

    `at` has indices into the step's slots, shape (m,). `arms` has the ids of the arms, shape (m,). `z` has
    the contexts in which the bandit decided, shape (m, dim). `counts` sums up the data sent under each
    decision, shape (m, 5), in the order of `datapath.performance`.
    """

    at: Indices
    arms: Indices
    z: Floats
    counts: Floats


class Decisions(SlotArrays):
    """The last decisions of every flow, in a ring of `depth` decisions for each slot. A decision gives a flow
    its arm for some round trips.

    Args:
        dim: length of a context, the numbers from which the bandit decides.
        credit: the setting `learning.credit`: "sent" or "acked".
        depth: one more than the largest number of a flow's decisions that can have data under way at once.
    """

    made = column(np.int64)
    """Number of decisions since the flow's beginning."""
    _learnt = column(np.int64)
    """Number of decisions that the agent has learned from or that were dropped. These are the oldest ones."""
    _z = column(np.float64, "depth", "dim")
    _arm = column(np.intp, "depth")
    _lesson = column(np.bool_, "depth")
    """Whether the agent may learn from the decision's reward."""
    _start_ns = column(np.int64, "depth")
    _counts = column(np.float64, "depth", COUNTS)

    def __init__(self, dim: int, credit: Credit, depth: int) -> None:
        self.dim = dim
        self.credit = credit
        self.depth = depth
        super().__init__()

    def arm(self, slots: Slots) -> Indices:
        """The arm of the decision in force, shape (n,); 0 before the first decision."""
        return self._arm[slots, (self.made[slots] - 1) % self.depth]

    def context(self, slots: Slots) -> Floats:
        """The context of the decision in force, shape (n, dim)."""
        return self._z[slots, (self.made[slots] - 1) % self.depth]

    def start_ns(self, slots: Slots) -> Ints:
        """Time at which the decision in force was made, CLOCK_MONOTONIC, shape (n,)."""
        return self._start_ns[slots, (self.made[slots] - 1) % self.depth]

    def make(
        self, slots: Slots, arms: Indices, z: Floats, time_ns: Ints, lesson: Bools | None = None
    ) -> None:
        """Record one new decision for each slot. `z` has the contexts, shape (n, dim), and all other arrays
        have the shape (n,).

        The agent learns nothing from decisions where `lesson` is false. If `lesson` is None, it learns from
        all of them.
        """
        made = self.made[slots]
        at = made % self.depth
        self._z[slots, at] = z
        self._arm[slots, at] = arms
        self._start_ns[slots, at] = time_ns
        self._lesson[slots, at] = True if lesson is None else lesson
        self._counts[slots, at] = 0.0
        self.made[slots] = made + 1
        # A full ring forgets its oldest decision, although nothing was learned from it.
        self._learnt[slots] = np.maximum(self._learnt[slots], made + 1 - self.depth)

    def fold(self, slots: Slots, records: RecordArray, time_ns: Ints) -> None:
        """Add one step's samples to the decisions under which their data was sent."""
        if self.credit == "acked":
            at = (self.made[slots] - 1) % self.depth
            self._counts[slots, at] += step_counts(records)
            return
        arms = records["credit"]["arm"]
        # Age of each place in the ring: 0 is the decision in force.
        age = (self.made[slots, None] - 1 - np.arange(self.depth)) % self.depth
        exists = age < self.made[slots, None]
        sent_ns = time_ns - records["srtt_us"].astype(np.int64) * 1000
        begun = exists & (self._start_ns[slots] <= sent_ns[:, None])
        # Data belongs to the newest decision for its arm that had begun when the data left. If there is none,
        # it belongs to the newest decision for the arm.
        worth = np.where(begun, 2 * self.depth, self.depth) - age
        same = (arms[:, :, None] == self._arm[slots][:, None, :]) & exists[:, None, :]
        worth = np.where(same, worth[:, None, :], 0)
        best = worth.argmax(axis=2)
        ours = (best[:, :, None] == np.arange(self.depth)) & same
        self._counts[slots] += ours.transpose(0, 2, 1).astype(np.float64) @ credit_counts(records)

    def ripe(self, slots: Slots, time_ns: Ints, srtt_us: Floats) -> Earned:
        """Remove the oldest decision of each flow, if a later one has replaced it, and all data sent under it
        has been acknowledged.

        With the credit "acked", no decision waits for its data. Returns the removed decisions that have
        samples, and from which the agent may learn.
        """
        learnt = self._learnt[slots]
        replaced = learnt < self.made[slots] - 1
        if self.credit == "sent":
            end = self._start_ns[slots, (learnt + 1) % self.depth]
            replaced &= time_ns >= end + (_LAG * 1e3 * srtt_us).astype(np.int64)
        at = np.flatnonzero(replaced)
        self._learnt[slots[at]] += 1
        place = slots[at], learnt[at] % self.depth
        counts = self._counts[place]
        seen = (counts[:, TIME_NS] > 0) & (counts[:, DELIVERED] > 0) & self._lesson[place]
        place = place[0][seen], place[1][seen]
        return Earned(at[seen], self._arm[place], self._z[place], counts[seen])
