# SPDX-License-Identifier: Apache-2.0
"""Choosers that learn nothing: one chooses at random, and one keeps every flow's arm."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final

import numpy as np

from ltp_switcher.arrays import ArmIds, Slots
from ltp_switcher.daemon.choose.chooser import Chooser, Draw
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.datapath.commands import PINNED
from ltp_switcher.slots import SlotArrays, column

DWELLS: Final = (20, 40, 80, 160)
"""Numbers of steps for which an arm is held when data sets are recorded. They go from the least time between
two decisions of the bandit to a sixth of the longest feature window, 1000 steps.
"""


class RandomChooser(Chooser, SlotArrays):
    """Draws arms of the pool at random, and holds each for a number of steps drawn from `dwells`.

    With `dwells` (1,) this is the baseline "random". With `DWELLS` it makes data sets for training, which
    must show every arm both right after a switch and once it has settled.
    """

    needed_step_s = 0.0
    reasons = ("the lot fell on it",)

    _arm = column(np.uint8)
    _left = column(np.int64)
    """Steps until the next draw."""

    def __init__(self, pool: Sequence[int], *, dwells: Sequence[int] = (1,), seed: int = 1) -> None:
        super().__init__()
        self._rng = np.random.default_rng(seed)
        self._dwells = np.array(dwells, np.int64)
        self._pool = np.array(pool, np.uint8)
        self._pools: dict[int, ArmIds] = {}

    def open(self, slots: Slots, prefixes: Sequence[str]) -> None:
        """Take in new flows. Each flow draws an arm at its first step."""
        self.reset(slots)

    def close(self, slots: Slots) -> None:
        """Forget flows that have ended, and the pools that were set for these flows alone."""
        for slot in slots.tolist():
            self._pools.pop(slot, None)

    def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Draw:
        """Draw arms for the flows whose hold is over. The other flows keep their arms."""
        left = self._left[slots]
        over = left <= 0
        ending = slots[over]
        if ending.size:
            self._arm[ending] = self._pool[self._rng.integers(self._pool.size, size=ending.size)]
            for slot in self._pools.keys() & set(ending.tolist()):
                self._arm[slot] = self._rng.choice(self._pools[slot])
            left[over] = self._dwells[self._rng.integers(self._dwells.size, size=ending.size)]
        self._left[slots] = left - 1
        unknown = np.empty(slots.shape)
        unknown.fill(np.nan)
        return Draw(self._arm[slots], unknown, over)

    def set_pool(self, arms: Sequence[int], slots: Slots | None = None) -> None:
        """Draw from these arms, for the flows `slots` or, if `slots` is None, for all. These flows draw anew
        at their next step.
        """
        if slots is None:
            self._pool = np.array(arms, np.uint8)
            self._pools.clear()
            self._left[:] = 0
        else:
            for slot in slots.tolist():
                self._pools[slot] = np.array(arms, np.uint8)
            self._left[slots] = 0

    @property
    def pool(self) -> tuple[int, ...]:
        """The arms from which new flows draw."""
        return tuple(int(arm) for arm in self._pool)


class KeepChooser(Chooser, SlotArrays):
    """Keeps every flow on the arm on which it began. A flow that ran the fallback arm meanwhile returns to
    its first arm.
    """

    needed_step_s = inf
    reasons = ("the flow began with it, and keeps it",)

    _arm = column(np.uint8)
    """The arm of the flow; 0 before its first record."""

    def __init__(self, pool: Sequence[int]) -> None:
        super().__init__()
        self._pool = tuple(pool)

    def open(self, slots: Slots, prefixes: Sequence[str]) -> None:
        """Take in new flows. The first record of a flow shows its arm."""
        self.reset(slots)

    def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Draw:
        """Return the arms on which the flows began. A pinned flow keeps the arm to which it is pinned."""
        arms = self._arm[slots]
        if not arms.all():
            self._arm[slots] = arms = np.where(arms == 0, records["want_arm"], arms)
        pinned = records["flags"] & PINNED
        if pinned.any():
            # The chooser does not choose for a pinned flow. Afterwards the flow returns to its earlier arm.
            arms = np.where(pinned, records["want_arm"], arms)
        unknown = np.empty(slots.shape)
        unknown.fill(np.nan)
        return Draw(arms, unknown, np.zeros(slots.shape, np.bool_))

    def set_pool(self, arms: Sequence[int], slots: Slots | None = None) -> None:
        """Keep the pool only to show it, because this chooser chooses nothing."""
        if slots is None:
            self._pool = tuple(arms)

    @property
    def pool(self) -> tuple[int, ...]:
        """The arms of the pool in the settings."""
        return self._pool
