# SPDX-License-Identifier: Apache-2.0
"""The journal: each flow's last switches with their reasons, and sentences that explain the flow's arm."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Indices, Slots
from ltp_switcher.daemon.choose.choice import Cause, Causes, Choice
from ltp_switcher.daemon.choose.chooser import Chooser
from ltp_switcher.daemon.datapath import FlowInfo, RecordArray, protocol
from ltp_switcher.daemon.step.decision_log import describe_peer
from ltp_switcher.daemon.step.events import EventRing, Kind
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.slots import SlotArrays, column

SWITCHES_KEPT: Final = 5
_ADVISED: Final = np.uint8(1 << 7)
"""A bit that marks an arm as only advised. The ids of arms are smaller."""


_SENTENCES: Final = {
    Cause.NONE: "no data has moved since the daemon first saw the flow, or since its policies changed",
    Cause.TEAM_SELECTION: "team selection measures the arm on this path",
    Cause.OPERATOR: "an operator pinned the flow",
    Cause.MODE: "only mode active controls learned arms",
    Cause.HELD: "a policy of an operator holds the flow at this arm",
    Cause.EXCLUDED: "a policy of an operator excludes the flow",
    Cause.EXPERIMENT: "the experiment keeps the flow on the baseline arm, see section [gain]",
    Cause.EXPLORATION: "chance gave the flow this arm for its decision, see gain.explore",
    Cause.VISIT: "the flow's visit to its network drew this arm by lot, see section [visits]",
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
    """One switch of a flow, or advice to switch, at `time_ns` (CLOCK_MONOTONIC). `before` and `after` are
    names of arms, and `carried_out` is false for advice.
    """

    time_ns: int
    before: str | None
    after: str | None
    cause: Cause
    carried_out: bool
    reason: str
    """The reason in words, as part of a sentence."""


class Journal(SlotArrays):
    """The last `SWITCHES_KEPT` switches of every flow. Each switch also becomes an event in `events`. Advice,
    which the daemon gives in mode advise, counts as a switch that is not carried out.

    `names` has the arms' names by id.
    """

    _ring = column(_SWITCH, SWITCHES_KEPT)
    _count = column(np.int64)
    _last = column(np.uint8)
    """The arm of the last switch, with `_ADVISED` if the switch was not carried out."""
    _runs = column(np.uint8)
    """The arm that the flow should run, to the journal's knowledge; 0 if unknown."""
    _cause = column(np.uint8)
    """The `Cause` of the flow's arm, or of the advised arm."""
    _code = column(np.uint8)
    """The number of a `FallbackReason` if the latest switch that `note` recorded was a fallback; otherwise 0.
    """
    _odd = column(np.uint8)
    """An unexpected arm that the flow ran at the last call of `look`; 0 if there was none."""

    def __init__(self, names: Mapping[int, str], chooser: Chooser, events: EventRing) -> None:
        super().__init__()
        self._names = names
        self._chooser = chooser
        self._events = events

    def open(self, slots: Slots, table: FlowTable) -> None:
        """Begin the journals of flows, with the arms that the flows have now."""
        self.reset(slots)
        self._runs[slots] = table.record["want_arm"][slots]

    def caused(self, slots: Slots, causes: Causes) -> None:
        """Remember who chose the arms of flows in their latest decisions. Arrays have the shape (n,)."""
        self._cause[slots] = causes

    def agreed(self, slots: Slots) -> None:
        """Record that flows run the arms that are advised for them. After that, any advice to switch counts
        as new.
        """
        self._last[slots] = 0

    def decided(
        self,
        table: FlowTable,
        slots: Slots,
        records: RecordArray,
        choice: Choice,
        differs: Bools,
        *,
        carried_out: bool,
    ) -> Indices:
        """Note the decisions of a step for n flows. Returns the indices of the decisions that are new
        switches, shape (m,). Call `caused` first.

        `differs` is true where the flow has another arm than the decided one, shape (n,). Such a decision is
        a new switch if it does not repeat the flow's last switch or advice.
        """
        arms = choice.arms
        wanted = arms if carried_out else arms | _ADVISED
        if not carried_out:
            self.agreed(slots[~differs])
        new = np.flatnonzero(differs & (self._last[slots] != wanted))
        if not new.size:
            return new
        slots = slots[new]
        why = self._chooser.reason(slots)
        entries = np.zeros(new.size, _SWITCH)
        entries["time_ns"] = time.monotonic_ns()
        entries["before"], entries["after"] = records["want_arm"][new], arms[new]
        entries["cause"] = choice.causes[new]
        entries["code"], entries["value"] = why.code, why.value
        entries["carried_out"] = carried_out
        self._add(table, slots, entries)
        self._last[slots] = wanted[new]
        return new

    def note(self, table: FlowTable, slot: int, after: int, cause: Cause, code: int = 0) -> None:
        """Note a switch that no step decided, such as a fallback. If the flow ran the arm already, only the
        cause and its code are noted.
        """
        before = int(self._runs[slot])
        self._cause[slot], self._code[slot] = cause, code
        if before == after:
            return
        entry = np.zeros(1, _SWITCH)
        entry[0] = (time.monotonic_ns(), before, after, cause, code, True, np.nan)
        self._add(table, np.array([slot]), entry)
        self._last[slot] = after

    def look(self, table: FlowTable) -> None:
        """Note arms that neither the daemon nor the module's watchdog chose. Call this about once a second.

        The flow table's record may be older than the last command. So an arm counts only when two calls in a
        row have seen it.
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
        """The name of the arm that the daemon advises for an open flow; None if there is no advice, or if the
        flow runs the arm.
        """
        last = int(self._last[slot])
        return self._names.get(last & ~int(_ADVISED)) if last & int(_ADVISED) else None

    def cause(self, slot: int) -> Cause:
        """Return the `Cause` of the arm that an open flow runs or is advised to run."""
        return Cause(int(self._cause[slot]))

    def reason(self, slot: int) -> str:
        """The reason, in words, for the arm that an open flow runs or is advised to run."""
        cause, code, value = self.cause(slot), int(self._code[slot]), np.nan
        if cause == Cause.POLICY:
            why = self._chooser.reason(np.array([slot]))
            code, value = int(why.code[0]), float(why.value[0])
        return self._reason(cause, code, value)

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
        cause = Cause(int(entry["cause"]))
        return Switch(
            int(entry["time_ns"]),
            self._names.get(int(entry["before"])),
            self._names.get(int(entry["after"])),
            cause,
            bool(entry["carried_out"]),
            self._reason(cause, int(entry["code"]), float(entry["value"])),
        )

    def _reason(self, cause: Cause, code: int, value: float) -> str:
        if cause == Cause.POLICY:
            return self._chooser.reasons[code].format(value=value)
        return FALLBACKS[protocol.FallbackReason(code)] if cause == Cause.FALLBACK else _SENTENCES[cause]


def flow_event(flow: FlowInfo) -> dict[str, str | int]:
    """The fields of the event of a flow's birth or death."""
    return {"cookie": str(flow.cookie), "remote": describe_peer(flow), "netns": flow.netns}
