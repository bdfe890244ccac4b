# SPDX-License-Identifier: Apache-2.0
"""Why each flow runs its arm: its last switches with their reasons, and the sentences about them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np

from ltp_switcher.arrays import ArmIds, Bools, Slots
from ltp_switcher.daemon.choose.chooser import Chooser
from ltp_switcher.daemon.datapath import FlowInfo, RecordArray, protocol
from ltp_switcher.daemon.datapath.commands import PINNED
from ltp_switcher.daemon.step.decision_log import describe_peer
from ltp_switcher.daemon.step.events import EventRing, Kind
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.slots import SlotArrays, column

SWITCHES_KEPT: Final = 5
_ADVISED: Final = np.uint8(1 << 7)
"""Marks an arm that was advised only; arms' ids are below."""


class Cause(IntEnum):
    """Who moved a flow to another arm."""

    POLICY = 1
    TEAM_SELECTION = 2
    OPERATOR = 3
    FALLBACK = 4
    MODE = 5
    ELSEWHERE = 6
    HELD = 7
    EXPERIMENT = 8


_SENTENCES: Final = {
    Cause.TEAM_SELECTION: "team selection measured the arm on this path",
    Cause.OPERATOR: "an operator pinned the flow",
    Cause.MODE: "only mode active controls learned arms",
    Cause.HELD: "a policy of an operator holds the flow at this arm",
    Cause.EXPERIMENT: "an experiment or exploration gave the flow this arm, see section [gain]",
    Cause.ELSEWHERE: "the application or another program chose it",
}
FALLBACKS: Final = {
    protocol.FallbackReason.NONE: "the module gave no reason",
    protocol.FallbackReason.SILENCE: "the daemon was silent for too long",
    protocol.FallbackReason.INIT_REFUSED: "the arm refused to start",
    protocol.FallbackReason.SESSION_ENDED: "the earlier daemon ended without a successor",
}

_SWITCH: Final = np.dtype(
    [
        ("time_ns", "i8"),
        ("before", "u1"),
        ("after", "u1"),
        ("cause", "u1"),
        ("code", "u1"),
        ("carried_out", "?"),
        ("value", "f8"),
    ]
)


@dataclass(frozen=True, slots=True)
class Switch:
    """One switch of a flow, or advice to switch. time_ns: CLOCK_MONOTONIC."""

    time_ns: int
    before: str | None
    after: str | None
    cause: Cause
    carried_out: bool
    reason: str
    """In words, as a part of a sentence."""


class Journal(SlotArrays):
    """The last `SWITCHES_KEPT` switches of every flow; each is told to `events`, too.

    `names` are the arms' by id.
    """

    _ring = column(_SWITCH, SWITCHES_KEPT)
    _count = column(np.int64)
    _last = column(np.uint8)
    """The arm of the last switch; with `_ADVISED` where it was not carried out."""
    _runs = column(np.uint8)
    """The arm that the flow should run, as far as is known here; 0: unknown."""
    _odd = column(np.uint8)
    """The other arm that it was seen to run at the last look; 0: none."""

    def __init__(self, names: Mapping[int, str], chooser: Chooser, events: EventRing) -> None:
        super().__init__()
        self._names = names
        self._chooser = chooser
        self._events = events

    def open(self, slots: Slots, table: FlowTable) -> None:
        """Begin flows, with the arms that they have now."""
        self.reset(slots)
        self._runs[slots] = table.record["want_arm"][slots]

    def decided(
        self,
        table: FlowTable,
        slots: Slots,
        records: RecordArray,
        arms: ArmIds,
        pulled: Bools,
        held: Bools | None = None,
        tried: Bools | None = None,
        *,
        carried_out: bool,
    ) -> None:
        """Note decisions for arms, some of which differ from the flows' own. Arrays of shape (n,).

        pulled: the decision is team selection's; held: it is that of an operator's policy.
        tried: it is that of an experiment or of exploration.
        """
        wanted = arms if carried_out else arms | _ADVISED
        differs = (arms != records["want_arm"]) & ((records["flags"] & PINNED) == 0)
        if not carried_out:
            # Advice that the flow would no longer need may come again.
            self._last[slots[~differs]] = 0
        new = np.flatnonzero(differs & (self._last[slots] != wanted))
        if not new.size:
            return
        slots, pulled = slots[new], pulled[new]
        why = self._chooser.reason(slots)
        entries = np.zeros(new.size, _SWITCH)
        entries["time_ns"] = time.monotonic_ns()
        entries["before"], entries["after"] = records["want_arm"][new], arms[new]
        causes = np.where(pulled, Cause.TEAM_SELECTION, Cause.POLICY)
        if held is not None:
            causes = np.where(held[new], Cause.HELD, causes)
        if tried is not None:
            causes = np.where(tried[new], Cause.EXPERIMENT, causes)
        entries["cause"] = causes
        entries["code"], entries["value"] = why.code, why.value
        entries["carried_out"] = carried_out
        self._add(table, slots, entries)
        self._last[slots] = wanted[new]

    def note(self, table: FlowTable, slot: int, after: int, cause: Cause, code: int = 0) -> None:
        """Note a switch that the policy did not decide, if the flow did not run the arm before."""
        before = int(self._runs[slot])
        if before == after:
            return
        entry = np.zeros(1, _SWITCH)
        entry[0] = (time.monotonic_ns(), before, after, cause, code, True, np.nan)
        self._add(table, np.array([slot]), entry)
        self._last[slot] = after

    def look(self, table: FlowTable) -> None:
        """Note arms that neither the daemon nor the module's watchdog chose; about once a second.

        The table's record may be older than the last command, so an arm counts when it is seen twice.
        """
        slots = np.array(table.slots(), np.int64)
        arms, wanted = table.record["arm"][slots], table.record["want_arm"][slots]
        expected, flags = self._runs[slots], table.record["flags"][slots]
        self._runs[slots[expected == 0]] = wanted[expected == 0]
        odd = (expected != 0) & (arms != 0) & (arms != expected) & (arms == wanted)
        odd &= (flags & np.uint32(protocol.FlowFlags.FALLEN_BACK)) == 0
        again = odd & (self._odd[slots] == arms)
        self._odd[slots] = np.where(odd, arms, 0)
        for at in np.flatnonzero(again).tolist():
            self.note(table, int(slots[at]), int(arms[at]), Cause.ELSEWHERE)

    def of(self, slot: int) -> list[Switch]:
        """The last switches of an open flow, newest first."""
        count = int(self._count[slot])
        places = [(count - 1 - back) % SWITCHES_KEPT for back in range(min(count, SWITCHES_KEPT))]
        return [self._switch(self._ring[slot, place]) for place in places]

    def advised(self, slot: int) -> str | None:
        """The arm that the daemon would give an open flow, where it runs another and only advice is given."""
        last = int(self._last[slot])
        return self._names.get(last & ~int(_ADVISED)) if last & int(_ADVISED) else None

    def reason(self, slot: int) -> str:
        """The policy's reason for the arm of its latest decision, in words."""
        why = self._chooser.reason(np.array([slot]))
        return self._words(int(why.code[0]), float(why.value[0]))

    def _add(self, table: FlowTable, slots: Slots, entries: np.ndarray) -> None:
        self._ring[slots, self._count[slots] % SWITCHES_KEPT] = entries
        self._count[slots] += 1
        carried_out = entries["carried_out"]
        self._runs[slots[carried_out]] = entries["after"][carried_out]
        kind: Kind = "flow-switched" if carried_out.all() else "flow-advised"
        if entries["cause"][0] == Cause.FALLBACK:
            kind = "flow-fallback"
        for at in range(self._events.room(kind, len(entries))):
            switch, flow = self._switch(entries[at]), table.info[slots[at]]
            if flow is not None:
                self._events.add(
                    kind, cookie=str(flow.cookie), remote=describe_peer(flow), before=switch.before,
                    after=switch.after, cause=switch.cause.name.lower(), reason=switch.reason,
                )  # fmt: skip

    def _switch(self, entry: np.void) -> Switch:
        cause, code = Cause(int(entry["cause"])), int(entry["code"])
        if cause == Cause.POLICY:
            reason = self._words(code, float(entry["value"]))
        elif cause == Cause.FALLBACK:
            reason = FALLBACKS[protocol.FallbackReason(code)]
        else:
            reason = _SENTENCES[cause]
        return Switch(
            int(entry["time_ns"]),
            self._names.get(int(entry["before"])),
            self._names.get(int(entry["after"])),
            cause,
            bool(entry["carried_out"]),
            reason,
        )

    def _words(self, code: int, value: float) -> str:
        return self._chooser.reasons[code].format(value=value)


def flow_event(flow: FlowInfo) -> dict[str, str | int]:
    """The fields of the events of a flow's birth and death."""
    return {"cookie": str(flow.cookie), "remote": describe_peer(flow), "netns": flow.netns}
