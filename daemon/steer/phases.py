# SPDX-License-Identifier: Apache-2.0
"""Phases: groups of an arm's flows whose intervals end in different steps.

An interval is the time between two decisions about a flow, and spans several steps. If the intervals of all
flows ended together, one step would make all the decisions, and the next few steps none. But few flows stay
in one phase, because each batch of decisions has a fixed cost.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from ltp_switcher.arrays import Ints

FLOWS_LEAST: Final = 64
"""Number of flows that a phase gets before the next phase gets any. A phase is the flows whose intervals end
in the same step.
"""
PHASES_MAX: Final = 8
_SLACK: Final = 0.01
"""Share of the arm's interval by which rounding may make an interval shorter."""


def phases_of(interval_s: float, step_s: float) -> int:
    """The number of phases of an arm: one for each step that its interval spans, at most `PHASES_MAX`."""
    return min(max(1, round(interval_s / step_s)), PHASES_MAX)


class Deal:
    """Deals flows to phases. A flow keeps its phase from `deal` until `leave`, and all flows of a path are in
    one phase.
    """

    def __init__(self) -> None:
        self.flows: list[int] = [0] * PHASES_MAX
        """Number of flows by phase."""
        self._path: dict[int, Hashable] = {}
        self._of_path: dict[Hashable, tuple[int, int]] = {}
        """The phase of each path, and the number of the path's flows."""

    def deal(self, slots: Sequence[int], paths: Sequence[Hashable], most: int) -> Ints:
        """Deal flows to the phases 0 to `most` - 1. If flows of a path have a phase already, new flows of the
        path join them. Returns the phases, shape (n,).
        """
        dealt = []
        for slot, path in zip(slots, paths, strict=True):
            phase, count = self._of_path.get(path) or (self._choose(most), 0)
            self._of_path[path] = phase, count + 1
            self._path[slot] = path
            self.flows[phase] += 1
            dealt.append(phase)
        return np.array(dealt, np.int64)

    def leave(self, slots: Sequence[int]) -> None:
        """Take flows out of the phases to which they were dealt."""
        for slot in slots:
            path = self._path.pop(slot)
            phase, count = self._of_path[path]
            self.flows[phase] -= 1
            if count > 1:
                self._of_path[path] = phase, count - 1
            else:
                del self._of_path[path]

    def _choose(self, most: int) -> int:
        open_ones = self.flows[:most]
        unfilled = (phase for phase, flows in enumerate(open_ones) if flows < FLOWS_LEAST)
        return next(unfilled, open_ones.index(min(open_ones)))


class Schedule:
    """The times at which the intervals of the phases end, CLOCK_MONOTONIC in ns.

    The first phase that has flows leads. The intervals of every other phase end a fixed share of an interval
    later than the leader's.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_ns = int(interval_s * 1e9)
        self._due_ns = [0] * PHASES_MAX

    def open(self, phase: int, flows: Sequence[int], phases: int, now_ns: int) -> None:
        """Set the end of the first interval of a phase that gets its first flows.

        `flows` has the number of flows in each phase, without these new flows.
        """
        leader = _first(flows)
        if leader is None:
            self._due_ns[phase] = now_ns + self._interval_ns
        else:
            # No measurement comes from the interval in which a flow came, so the phase's first interval may
            # be short.
            self._due_ns[phase] = self._beside(leader, phase, phases, now_ns + 1)

    def due(self, flows: Sequence[int], now_ns: int, tolerance_ns: float) -> list[int]:
        """Return the phases that have flows and whose intervals end now, or at most `tolerance_ns` later."""
        return [
            phase
            for phase, due_ns in enumerate(self._due_ns)
            if flows[phase] and now_ns >= due_ns - tolerance_ns
        ]

    def end(self, phase: int, flows: Sequence[int], phases: int, now_ns: int, tolerance_ns: float) -> None:
        """End the interval of a phase, and begin the next one.

        A step that comes late makes one interval longer. No interval becomes shorter than the arm's own,
        apart from rounding.
        """
        late = now_ns - self._due_ns[phase] > tolerance_ns
        due_ns = (now_ns if late else self._due_ns[phase]) + self._interval_ns
        leader = _first(flows)
        if leader not in (None, phase):
            due_ns = self._beside(leader, phase, phases, due_ns - int(_SLACK * self._interval_ns))
        self._due_ns[phase] = due_ns

    def _beside(self, leader: int, phase: int, phases: int, earliest_ns: int) -> int:
        """Return the first time from `earliest_ns` on at which an interval of the phase may end. It has the
        phase's fixed distance from an end of the leader's intervals.
        """
        wanted_ns = self._due_ns[leader] + (phase - leader) * self._interval_ns // phases
        return earliest_ns + (wanted_ns - earliest_ns) % self._interval_ns


def _first(flows: Sequence[int]) -> int | None:
    return next((phase for phase, count in enumerate(flows) if count), None)
