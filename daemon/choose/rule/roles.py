# SPDX-License-Identifier: Apache-2.0
"""The rule's three roles: their arms, and the role that suited each destination prefix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ltp_switcher.arrays import ArmIds
from ltp_switcher.daemon.datapath.protocol import ArmId

PROBING, STEADY, CAREFUL = range(3)
ROLES: Final = (ArmId.BBR, ArmId.LTP, ArmId.VEGAS)
"""The arms of the probing, the steady and the careful role, in this order."""
PREFIXES_MAX: Final = 65_536
"""Prefixes remembered; the one probed first makes room."""
_SUBSTITUTES: Final = (ArmId.BBR, ArmId.LTP, ArmId.VEGAS, ArmId.CUBIC)
"""The arms that take a role whose own arm the pool lacks: the first of these that the pool has."""


def roles_of(pool: Sequence[int]) -> ArmIds:
    """The arm of each role among those of the pool, shape (3,)."""
    order = [int(arm) for arm in _SUBSTITUTES if arm in pool] or list(pool)
    return np.array([arm if arm in pool else order[0] for arm in ROLES], np.uint8)


class Prefixes:
    """The roles of the prefixes probed so far.

    Args:
        memory_s: how long a choice counts.
    """

    def __init__(self, memory_s: float) -> None:
        self._memory_ns = memory_s * 1e9
        self._known: dict[str, tuple[int, int]] = {}
        """Role of each prefix, and the time when it was chosen, CLOCK_MONOTONIC in ns."""
        self._news: dict[str, int] = {}

    def learn(self, prefix: str, role: int, arm: int, now_ns: int) -> None:
        """Probing chose this role, which has this arm."""
        self._news[prefix] = arm
        self._known.pop(prefix, None)
        self._known[prefix] = role, now_ns
        if len(self._known) > PREFIXES_MAX:
            del self._known[next(iter(self._known))]

    def role(self, prefix: str, now_ns: int) -> int | None:
        """The role that suits the prefix; None where it is not known, or no longer."""
        role, chosen_ns = self._known.get(prefix, (None, 0))
        return role if now_ns - chosen_ns < self._memory_ns else None

    def news(self) -> dict[str, int]:
        """The arms of the prefixes probed since the last call."""
        news, self._news = self._news, {}
        return news
