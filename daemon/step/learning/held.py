# SPDX-License-Identifier: Apache-2.0
"""The flows that stay on the arm that their visit drew.

A visit is a group of flows to a prefix that began near each other. The flows of a visit share one lot: an
arm, or the decision's own choice.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from ltp_switcher.arrays import ArmIds, Bools, Floats, Slots
from ltp_switcher.daemon.choose.choice import Cause, Choice
from ltp_switcher.daemon.datapath import OutcomeArray
from ltp_switcher.daemon.datapath.protocol import OUTCOME_DTYPE
from ltp_switcher.daemon.gain import value
from ltp_switcher.slots import SlotArrays, column

ABORT: Final = math.log(4.0)
"""Distance in log value. A flow leaves its lot when its value is below the incumbent's expected value by more
than this: when it earns less than a quarter of the expected reward.
"""
_SUMS: Final = ("acked_bytes", "busy_us", "receiver_us", "delivered", "lost", "rtt_us_sum", "rtt_samples")


class Lot(NamedTuple):
    """The lot that a flow's visit drew."""

    arm: int
    """Id of the arm; 0 stands for the decision's own choice."""
    chance: float
    visit: int
    """Number of the visit; 0 if the module has not reported the number yet."""
    left: bool
    """Whether the flow has left the arm that its visit drew."""


class HeldFlows(SlotArrays):
    """The lot of each flow's visit, and whether the flow stays on the lot's arm."""

    drawn = column(np.bool_)
    """Whether the flow's visit drew a lot."""
    lot = column(np.uint8)
    """The arm that the visit drew; 0 stands for the decision's own choice."""
    arm = column(np.uint8)
    """The arm on which the flow stays; 0 if the decision chooses its arm."""
    chance = column(np.float64)
    foreign = column(np.bool_)
    """Whether somebody other than the lot and the decision gave the flow an arm at some time. Such a flow
    tells nothing about lots.
    """
    _told = column(OUTCOME_DTYPE)
    """The latest outcome."""

    def open(self, slots: Slots, drawn: Bools, lots: ArmIds, chances: Floats) -> None:
        """Take in new flows and the lots of their visits. All arrays have the shape (n,)."""
        self.reset(slots)
        self.drawn[slots], self.chance[slots] = drawn, chances
        self.lot[slots] = self.arm[slots] = np.where(drawn, lots, 0)

    def close(self, slots: Slots) -> None:
        """Forget flows that have ended."""
        self.reset(slots)

    def held(self, slots: Slots) -> ArmIds:
        """The arms on which flows stay, shape (n,); 0 where the decision chooses."""
        self.grow(int(slots.max(initial=-1)) + 1)
        return self.arm[slots]

    def step(self, slots: Slots, choice: Choice) -> Choice:
        """The choice, changed where flows stay on the arms that their visits drew. All arrays have the shape
        (n,).
        """
        held = self.held(slots)
        return choice.but(held != 0, held, Cause.VISIT) if held.any() else choice

    def since(self, slots: Slots, outcomes: OutcomeArray) -> OutcomeArray:
        """The outcomes of the time since the flows' previous reports, shape (n,). Slots are distinct."""
        made, before = outcomes.copy(), self._told[slots]
        for name in _SUMS:
            made[name] -= np.minimum(before[name], made[name])
        self._told[slots] = outcomes
        return made

    def leave(self, slots: Slots) -> None:
        """Let the decision choose the arms of these flows from now on."""
        self.arm[slots] = 0

    def of(self, slot: int) -> Lot | None:
        """The lot that an open flow's visit drew; None if it drew none."""
        if slot >= self.capacity or not self.drawn[slot]:
            return None
        lot = int(self.lot[slot])
        left = lot != 0 and not self.arm[slot]
        return Lot(lot, float(self.chance[slot]), int(self._told["visit"][slot]), left)


def starved(outcomes: OutcomeArray, expected: Floats) -> Bools:
    """True where flows earned less than a quarter of the expected reward, shape (n,).

    Args:
        outcomes: outcomes of a part of the flows' time, shape (n,).
        expected: expected values, as logarithms, shape (n,); NaN where there is none.
    """
    raw = value.raw_values(outcomes)
    nothing = (outcomes["acked_bytes"] <= 1) & (outcomes["busy_us"] > 0)
    raw[nothing] = -np.inf
    found: Bools = raw < expected - ABORT
    return found
