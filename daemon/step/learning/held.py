# SPDX-License-Identifier: Apache-2.0
"""The flows that stay on the arm that their visit drew.

A visit is a group of flows to a prefix that began near each other. The flows of a visit share one lot, drawn
at random. The lot is an arm on which they stay, or the decision: then the daemon chooses their arms in every
step, as it does for flows without a lot.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from ltp_switcher.arrays import ArmIds, Bools, Floats, Ints, Slots
from ltp_switcher.daemon.choose.choice import Cause, Choice
from ltp_switcher.daemon.datapath import OutcomeArray
from ltp_switcher.daemon.datapath.protocol import OUTCOME_DTYPE
from ltp_switcher.daemon.gain import value
from ltp_switcher.slots import SlotArrays, column

ABORT: Final = math.log(4.0)
"""Largest shortfall of a flow's value, the logarithm of its reward, below the expected value. With a larger
shortfall, the flow earns less than a quarter of the expected reward. Then it leaves the arm that its visit
drew.
"""
_SUMS: Final = ("acked_bytes", "busy_us", "receiver_us", "delivered", "lost", "rtt_us_sum", "rtt_samples")


class Lot(NamedTuple):
    """The lot that a flow's visit drew, with the probability `chance`. A visit is a group of flows to a
    prefix that began near each other.
    """

    arm: int
    """Id of the arm on which the visit's flows stay; 0 means that the daemon chooses their arms in every
    step.
    """
    chance: float
    visit: int
    """Number of the visit. The visits to a prefix are numbered from 1 on."""
    left: bool
    """Whether the flow has left the arm that its visit drew."""


class HeldFlows(SlotArrays):
    """The lot of each flow's visit, and whether the flow stays on the lot's arm.

    A visit is a group of flows to a prefix that began near each other. It draws a lot: an arm, or 0 for the
    decision, by which the daemon chooses the flows' arms in every step.
    """

    drawn = column(np.bool_)
    """Whether the flow's visit drew a lot."""
    lot = column(np.uint8)
    """Id of the arm that the visit drew; 0 stands for the decision."""
    arm = column(np.uint8)
    """Id of the arm on which the flow stays; 0 if the decision chooses the flow's arm."""
    chance = column(np.float64)
    visit = column(np.uint32)
    """Number of the flow's visit."""
    foreign = column(np.bool_)
    """Whether the flow ever got an arm from another source than its lot and the decision, such as an
    operator. Such a flow teaches nothing about lots.
    """
    _told = column(OUTCOME_DTYPE)
    """The flow's latest outcome."""

    def open(self, slots: Slots, drawn: Bools, lots: ArmIds, chances: Floats, visits: Ints) -> None:
        """Take in new flows, and the lots, chances and numbers of their visits. All arrays have the shape
        (n,).
        """
        self.reset(slots)
        self.drawn[slots], self.chance[slots], self.visit[slots] = drawn, chances, visits
        self.lot[slots] = self.arm[slots] = np.where(drawn, lots, 0)

    def close(self, slots: Slots) -> None:
        """Forget flows that have ended."""
        self.reset(slots)

    def held(self, slots: Slots) -> ArmIds:
        """Return the ids of the arms on which flows stay, shape (n,); 0 where the decision chooses the flow's
        arm.
        """
        self.grow(int(slots.max(initial=-1)) + 1)
        return self.arm[slots]

    def step(self, slots: Slots, choice: Choice) -> Choice:
        """Return the choice of arms, changed where flows stay on the arms that their visits drew. All arrays
        have the shape (n,).
        """
        held = self.held(slots)
        return choice.but(held != 0, held, Cause.VISIT) if held.any() else choice

    def since(self, slots: Slots, outcomes: OutcomeArray) -> OutcomeArray:
        """Return outcomes, shape (n,), in which the sums cover only the time since the flow's previous
        outcome. The given outcomes count from each flow's start. No slot appears twice.
        """
        made, before = outcomes.copy(), self._told[slots]
        for name in _SUMS:
            made[name] -= np.minimum(before[name], made[name])
        self._told[slots] = outcomes
        return made

    def leave(self, slots: Slots) -> None:
        """Let the decision, the daemon's usual policy, choose the arms of these flows from now on."""
        self.arm[slots] = 0

    def of(self, slot: int) -> Lot | None:
        """The lot that an open flow's visit drew; None if it drew none."""
        if slot >= self.capacity or not self.drawn[slot]:
            return None
        lot = int(self.lot[slot])
        left = lot != 0 and not self.arm[slot]
        return Lot(lot, float(self.chance[slot]), int(self.visit[slot]), left)


def starved(outcomes: OutcomeArray, expected: Floats) -> Bools:
    """True where flows earned less than a quarter of the expected reward, shape (n,).

    Args:
        outcomes: outcomes of a part of the flows' time, shape (n,).
        expected: logarithms of the expected rewards, shape (n,); NaN where nothing is expected.
    """
    raw = value.raw_values(outcomes)
    nothing = (outcomes["acked_bytes"] <= 1) & (outcomes["busy_us"] > 0)
    raw[nothing] = -np.inf
    found: Bools = raw < expected - ABORT
    return found
