# SPDX-License-Identifier: Apache-2.0
"""The daemon's latest events. Each has a number, so that a client can ask for the events from a number on."""

from __future__ import annotations

import itertools
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Value = str | int | float | bool | None
Kind = Literal[
    "flow-opened", "flow-closed", "flow-switched", "flow-advised", "flow-fallback", "flows-lost",
    "configuration-changed", "mode-changed", "rollout-changed", "events-left-out",
]  # fmt: skip

KEPT: Final = 4096
RATE_PER_S: Final = 50
"""Largest number of events of one kind that are kept in a second. Further events are counted and left out."""
PAGE: Final = 512


@dataclass(frozen=True, slots=True)
class Replay:
    """Events, oldest first. `next` is the number of the event that follows them. `missed` is true if the ring
    did not have the event with which the client wanted to begin.
    """

    events: list[Mapping[str, Value]]
    next: int
    missed: bool


class EventRing:
    """The last `KEPT` events. An event has a number, a Unix time in seconds, a kind and fields.

    The first number is the Unix time of the daemon's start in µs. So a number is never used twice, even after
    a restart.
    """

    def __init__(self) -> None:
        self._kept: deque[Mapping[str, Value]] = deque(maxlen=KEPT)
        self._next = time.time_ns() // 1000
        self._second = 0
        self._told: dict[Kind, int] = {}
        self._left_out: dict[Kind, int] = {}

    @property
    def next(self) -> int:
        """The number of the next event."""
        return self._next

    def room(self, kind: Kind, wanted: int = 1) -> int:
        """Return the number of events of a kind, at most `wanted`, that may be added in this second. The rest
        of `wanted` is counted as left out.
        """
        self._turn()
        told = self._told.get(kind, 0)
        room = min(wanted, max(RATE_PER_S - told, 0))
        if room < wanted:
            self._left_out[kind] = self._left_out.get(kind, 0) + wanted - room
        self._told[kind] = told + room
        return room

    def add(self, kind: Kind, **fields: Value) -> None:
        """Add an event with these fields. Call `room` first, which says whether an event may be added."""
        self._kept.append({"number": self._next, "time": round(time.time(), 3), "kind": kind, **fields})
        self._next += 1

    def tell(self, kind: Kind, **fields: Value) -> None:
        """Add an event if there is room for it."""
        if self.room(kind):
            self.add(kind, **fields)

    def since(self, number: int) -> Replay:
        """Return at most `PAGE` events, from the one with this number on.

        If the ring does not have the event with this number, and it is not the next one either, the result
        begins with the oldest event. This happens after a restart, or when a client asks too late.
        """
        self._turn()
        first = self._next - len(self._kept)
        known = first <= number <= self._next
        begin = number - first if known else 0
        events = list(itertools.islice(self._kept, begin, begin + PAGE))
        return Replay(events, first + begin + len(events), missed=not known)

    def _turn(self) -> None:
        """If a new second has begun, add an event for each kind of which the last second left some out."""
        second = int(time.monotonic())
        if second == self._second:
            return
        self._second = second
        self._told.clear()
        left_out, self._left_out = self._left_out, {}
        for kind, count in left_out.items():
            self.add("events-left-out", of=kind, count=count)
