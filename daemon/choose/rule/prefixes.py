# SPDX-License-Identifier: Apache-2.0
"""The choices of probing by destination prefix, for the flows that come next."""

from __future__ import annotations

from typing import Final

PREFIXES_MAX: Final = 65_536
"""Prefixes remembered; the one probed first makes room."""


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
