# SPDX-License-Identifier: Apache-2.0
"""The rule's three roles with their arms, and its memory of destination prefixes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Generic, TypeVar

import numpy as np

from ltp_switcher.arrays import ArmIds
from ltp_switcher.daemon.datapath.protocol import ArmId

Value = TypeVar("Value")

PROBING, STEADY, CAREFUL = range(3)
ROLES: Final = (ArmId.BBR, ArmId.LTP, ArmId.VEGAS)
"""The arms of the three roles, in the order probing, steady, careful."""
PREFIXES_MAX: Final = 65_536
"""Largest number of prefixes in memory. The prefix that was learned first is forgotten first."""
_SUBSTITUTES: Final = (ArmId.BBR, ArmId.LTP, ArmId.VEGAS, ArmId.CUBIC)
"""Substitutes for a role's own arm, if the pool lacks it. The first of these that the pool has takes the
role.
"""


def roles_of(pool: Sequence[int]) -> ArmIds:
    """Return the pool's arm for each role, shape (3,)."""
    order = [int(arm) for arm in _SUBSTITUTES if arm in pool] or list(pool)
    return np.array([arm if arm in pool else order[0] for arm in ROLES], np.uint8)


class Prefixes(Generic[Value]):
    """A memory with one value for each destination prefix. A value counts for a limited time.

    Args:
        memory_s: time for which a value counts, s.
    """

    def __init__(self, memory_s: float) -> None:
        self._memory_ns = memory_s * 1e9
        self._known: dict[str, tuple[Value, int]] = {}
        """Value of each prefix, and the time when it was learned, CLOCK_MONOTONIC in ns."""

    def learn(self, prefix: str, value: Value, now_ns: int) -> None:
        """Remember this value for the prefix, from now on."""
        self._known.pop(prefix, None)
        self._known[prefix] = value, now_ns
        if len(self._known) > PREFIXES_MAX:
            del self._known[next(iter(self._known))]

    def value(self, prefix: str, now_ns: int) -> Value | None:
        """The value of the prefix; None if it was never learned, or is too old."""
        value, learned_ns = self._known.get(prefix, (None, 0))
        return value if now_ns - learned_ns < self._memory_ns else None
