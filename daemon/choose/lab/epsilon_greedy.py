# SPDX-License-Identifier: Apache-2.0
"""ε-greedy, a baseline: it runs the arm with the largest mean reward so far, and at times a random arm.

Each flow learns for itself. A stay is a number of looks at the path for which a flow keeps an arm. A look
sums up at least 0.25 s and two round trips. The arm's reward is the mean of the later looks, because the
first looks show the queue of the earlier arm. At first each arm gets one stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ltp_switcher.arrays import ArmIds, Bools, Slots
from ltp_switcher.daemon.choose.chooser import Chooser, Draw, Estimate, Reasons
from ltp_switcher.daemon.choose.path.looks import Looks, read
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.datapath.commands import PINNED
from ltp_switcher.daemon.datapath.protocol import ARMS_MAX
from ltp_switcher.slots import SlotArrays, column

EPSILON: Final = 0.1
STAY_LOOKS: Final = 6
SETTLE_LOOKS: Final = 2
"""Number of looks (0.25 s or more each) at the beginning of an arm's stay whose rewards do not count."""
_GREEDY, _EXPLORED = range(2)


class EpsilonGreedyChooser(Chooser, SlotArrays):
    """ε-greedy for all flows of a step at once. A flow keeps an arm for a stay of `STAY_LOOKS` looks at the
    path. A look lasts 0.25 s or more.

    Args:
        pool: ids of the arms.
        epsilon: probability of a random arm at the end of a stay.
        zeta: weight of loss in the reward, Mutant Eq. 1.
        kappa: weight of throughput in the reward.
        seed: seed of the random draws.
    """

    needed_step_s = 0.05
    reasons: Sequence[str] = (
        "its mean reward was the largest so far",
        "the lot fell on it, so that the policy learns",
    )

    _arm = column(np.uint8)
    _left = column(np.int64)
    """Number of looks until the stay ends."""
    _code = column(np.intp)
    _sum = column(np.float64, ARMS_MAX + 1)
    """Sum of each arm's rewards, by the arm's number; `_count` has their number."""
    _count = column(np.float64, ARMS_MAX + 1)

    def __init__(
        self,
        pool: Sequence[int],
        *,
        epsilon: float = EPSILON,
        zeta: float = 5.0,
        kappa: float = 2.0,
        seed: int = 1,
    ) -> None:
        super().__init__()
        self._looks = self.part(Looks(zeta=zeta, kappa=kappa))
        self._epsilon = epsilon
        self._rng = np.random.default_rng(seed)
        self._pool = tuple(pool)
        self._pools: dict[int, tuple[int, ...]] = {}

    @property
    def pool(self) -> tuple[int, ...]:
        """The arms among which a new flow chooses."""
        return self._pool

    def set_pool(self, arms: Sequence[int], slots: Slots | None = None) -> None:
        """Choose among these arms, after the stays under way have ended."""
        if slots is None:
            self._pool = tuple(arms)
            self._pools.clear()
        else:
            self._pools.update(dict.fromkeys(slots.tolist(), tuple(arms)))

    def open(self, slots: Slots, prefixes: Sequence[str]) -> None:
        """Take in new flows, each on the first arm of the pool."""
        self.reset(slots)
        self._arm[slots] = self._pool[0]
        self._left[slots] = STAY_LOOKS

    def close(self, slots: Slots) -> None:
        """Forget flows that have ended. Their slots may be used again."""
        for slot in slots.tolist():
            self._pools.pop(slot, None)

    def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Draw:
        """Count the looks that have ended, and choose an arm for the flows whose stays have ended."""
        seen, idle, draining = read(records)
        over = self._looks.take(slots, seen, idle, draining)
        if over.any():
            at = slots[over]
            looks = self._looks
            looks.measure(at, seen[:, over])
            looks.floor_us[at] = np.minimum(looks.floor_us[at], looks.least_us[at])
            self._learn(at)
            looks.begin(at, seen[:, over])
        exploring: Bools = self._code[slots] == _EXPLORED
        arms = np.where(records["flags"] & PINNED, records["want_arm"], self._arm[slots])
        return Draw(arms, self._looks.share[slots], exploring)

    def _learn(self, slots: Slots) -> None:
        self._left[slots] -= 1
        counted = slots[self._left[slots] < STAY_LOOKS - SETTLE_LOOKS]
        arms = self._arm[counted]
        self._sum[counted, arms] += np.nan_to_num(self._looks.share[counted])
        self._count[counted, arms] += 1.0
        for slot in slots[self._left[slots] <= 0].tolist():
            pool = self._pools.get(slot, self._pool)
            means = [self.mean(slot, arm) for arm in pool]
            explores = self._rng.random() < self._epsilon
            self._arm[slot] = self._rng.choice(pool) if explores else pool[int(np.argmax(means))]
            self._code[slot] = _EXPLORED if explores else _GREEDY
            self._left[slot] = STAY_LOOKS

    def mean(self, slot: int, arm: int) -> float:
        """The mean reward of an arm for a flow; infinite before the first reward of the arm counts."""
        count = float(self._count[slot, arm])
        return float(self._sum[slot, arm]) / count if count else np.inf

    def reason(self, slots: Slots) -> Reasons:
        """The reason for each flow's arm: it was the best one, or a random one."""
        return Reasons(self._code[slots], np.full(slots.shape, np.nan))

    def estimates(self, slot: int) -> Sequence[Estimate]:
        """The mean rewards of the arms that the flow has tried."""
        pool = self._pools.get(slot, self._pool)
        known = [(arm, self.mean(slot, arm)) for arm in pool if self._count[slot, arm]]
        return [Estimate(arm, mean, mean, mean) for arm, mean in known]
