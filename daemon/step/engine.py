# SPDX-License-Identifier: Apache-2.0
"""One step: read every flow's measurements, decide, send one batch of commands (Mutant Algorithm 1).

Arrays hold all flows of a step. Python handles a single flow only when the flow begins, when it ends, or when
it finishes a trial of an arm for team selection (the search for a path's best arms).
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Ints, Slots
from ltp_switcher.daemon.choose.choice import Cause, of_policy
from ltp_switcher.daemon.choose.chooser import Chooser
from ltp_switcher.daemon.choose.teams.teams import Teams
from ltp_switcher.daemon.choose.teams.terms import Terms
from ltp_switcher.daemon.datapath import (
    FlowInfo,
    FlowNotFoundError,
    RecordArray,
    protocol,
)
from ltp_switcher.daemon.datapath.commands import PINNED, commands_for
from ltp_switcher.daemon.datapath.recording import Recorder
from ltp_switcher.daemon.gain.outcomes import OutcomeRows
from ltp_switcher.daemon.settings.policies import Policies
from ltp_switcher.daemon.settings.prefixes import whole_prefix
from ltp_switcher.daemon.steer import IS_LEARNED, LEARNED, LearnedArms
from ltp_switcher.daemon.steer.drain import drain
from ltp_switcher.daemon.step.counters import Statistics
from ltp_switcher.daemon.step.decision_log import DecisionLog, RateLimit
from ltp_switcher.daemon.step.events import EventRing, Kind
from ltp_switcher.daemon.step.flow_table import UNKNOWN, Changes, FlowTable
from ltp_switcher.daemon.step.governed import Governed
from ltp_switcher.daemon.step.histogram import Distributions
from ltp_switcher.daemon.step.history import History
from ltp_switcher.daemon.step.journal import FALLBACKS, Journal, flow_event
from ltp_switcher.daemon.step.learning.live import LiveLearner
from ltp_switcher.daemon.step.learning.lots import RECORDS
from ltp_switcher.daemon.step.outcomes import Outcomes
from ltp_switcher.daemon.step.sources import EventSource, StepSource
from ltp_switcher.daemon.step.spans import Spans
from ltp_switcher.daemon.step.starts import StartingArms
from ltp_switcher.log_fields import fields

log = logging.getLogger(__name__)

BUSY_NS: Final = 1_000_000_000
"""Time in ns without new data on any flow after which the daemon is no longer busy."""
LOOK_NS: Final = 1_000_000_000
"""Time in ns between two looks. A look is the work that is due once a second, such as to measure goodput."""
POLICY_START_NS: Final = 600_000_000_000
"""Time in ns for which the module keeps an arm on which an operator's policy starts flows. The daemon renews
the arm after half of this time.
"""
RESYNC_NS: Final = 10_000_000_000
"""Time in ns between two lists of all flows. The lists show flows whose births or deaths the daemon has
missed.
"""


class Engine:
    """The open flows, the chooser that decides for them, the learned arms, and the step that connects these
    parts.

    In mode `active` the daemon carries its decisions out, in mode `advise` it only logs them, and in mode
    `off` it makes none.
    """

    def __init__(
        self,
        datapath: StepSource,
        events: EventSource,
        table: FlowTable,
        chooser: Chooser,
        teams: Teams,
        decisions: DecisionLog,
        learned: LearnedArms,
        *,
        mode: str = "active",
        starts: StartingArms | None = None,
        spans: Spans | None = None,
        outcomes: Outcomes | None = None,
        visits: LiveLearner | None = None,
        recorder: Recorder | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.datapath = datapath
        self.table = table
        self.chooser = chooser
        self.teams = teams
        self.decisions = decisions
        self.learned = learned
        self.statistics = Statistics()
        self.mode = mode
        self.events = EventRing()
        self.journal = Journal(decisions.names, chooser, self.events)
        self.history = History()
        self.distributions = Distributions()
        self._events = events
        self._starts = starts
        self.spans = spans
        self.outcomes = outcomes
        if outcomes is not None:
            outcomes.grouped = self._grouped
        self.visits = visits
        if visits is not None:
            visits.pulls = teams.visits
        self.governed = Governed()
        self._renew_at_ns = 0
        self._known = _NO_SLOTS
        self.breathe: Callable[[], object] = lambda: None
        """A function that is called between the parts of a step, so that other work need not wait for the
        step's end.
        """
        self._recorder = recorder
        self._clock = clock
        self._sent_away = RateLimit(1.0)
        self._busy_until_ns = 0
        self._resync_at_ns = 0
        self._look_at_ns = 0
        self._plans = False
        """Whether the next step makes plans for visits. The planning has a step of its own, so that no step
        has all the work of a second.
        """

    @property
    def busy(self) -> bool:
        """Whether a flow was born or moved data in the last `BUSY_NS`."""
        return self._clock() < self._busy_until_ns

    @property
    def logged_rows(self) -> tuple[int, int]:
        """Number of rows that were written to the decision log, and number of rows that were dropped because
        the disk had no room or was too slow.
        """
        log = None if self.spans is None else self.spans.log
        return (0, 0) if log is None else (log.logged, log.dropped)

    def step(self) -> None:
        """Run a step: poll the flows, decide, and send commands."""
        started_ns = self._clock()
        if started_ns >= self._look_at_ns:
            self._look_at_ns = started_ns + LOOK_NS
            self._look(started_ns)
        elif self._plans:
            self._plans = False
            self._plan()
        self.breathe()
        records = self.datapath.close_step()
        self.breathe()
        if not records.size:
            self._control(_NO_SLOTS, records, started_ns)
            return
        slots = self.table.slots_of(records["cookie"])
        # `slots_of` returns the same array as long as the flows are the same.
        if slots is not self._known:
            if slots.min() == UNKNOWN:
                slots, records = self._adopt(slots, records)
            self._known = slots
        self._busy_until_ns = started_ns + BUSY_NS
        self._decide(slots, records)
        self.breathe()
        # The kernel closes the flows' steps one after the other, so the last record has the latest time.
        read_ns = int(records["time_ns"][-1]) if records.size else started_ns
        self._control(slots, records, max(started_ns, read_ns))
        self.statistics.took((self._clock() - started_ns) * 1e-9)

    def _look(self, now_ns: int) -> None:
        """Do the work that is due once a second."""
        self.table.mark(now_ns)
        self.breathe()
        self._write_starts()
        self.breathe()
        if now_ns >= self._resync_at_ns:
            self.resync()
            self.breathe()
        self.history.mark(self.table, now_ns)
        self.breathe()
        if self.spans is not None:
            self.spans.look(self.table, now_ns)
            self.breathe()
        if self.outcomes is not None:
            rows = self.outcomes.take()
            self.breathe()
            if self.visits is not None:
                self._learn(self.visits, rows)
        self.journal.look(self.table)
        self.breathe()
        self.distributions.look(self.table)

    def _grouped(self, rows: OutcomeRows) -> OutcomeRows:
        if self.spans is None:
            return rows
        return self.spans.grouped(rows, self.governed.unruled, active=self.mode == "active")

    def _learn(self, visits: LiveLearner, rows: OutcomeRows) -> None:
        """Learn from the outcomes of flows and from the paths of open flows. Outside of mode active, no new
        outcome counts, because the daemon does not choose the flows' arms.
        """
        active = self.mode == "active"
        visits.take(rows if active else rows[:0], self.table, self._free, time.time())
        if active:
            visits.surprised(self.table, self.chooser.starved, time.time())
        self._plans = active
        self.breathe()
        visits.walk(self.table, self.chooser.path)
        self.breathe()

    def _plan(self) -> None:
        if self.visits is not None:
            holds = self.datapath.record_version >= RECORDS
            if self.visits.holds and not holds:
                log.warning(
                    "visits.learn does nothing before the new module is loaded: records of version %d do not"
                    " tell what a visit drew, those of version %d do",
                    self.datapath.record_version, RECORDS,
                )  # fmt: skip
            self.visits.holds = holds
            self.visits.plan(self._free, time.time())
            self.breathe()

    def _free(self, prefixes: Sequence[str]) -> Bools:
        """True for prefixes whose flows get their arms from neither an operator's policy nor an experiment,
        shape (n,).

        A host belongs to the same group of the experiment as its prefix.
        """
        found = self.governed.unruled(prefixes)
        if self.spans is not None:
            whole = [whole_prefix(prefix) for prefix in prefixes]
            starts = self.spans.starts(dict.fromkeys(whole, 1))
            found &= np.array([starts[prefix] != 0 for prefix in whole], np.bool_)
        return found

    def read_events(self) -> None:
        """Take in the births, deaths and fallbacks of flows."""
        batch = self._events.read()
        if batch.lost:
            self.statistics.events_lost += 1
            self.events.tell("flows-lost")
            self.resync()
            return
        now_ns = self._clock()
        changes = Changes()
        fallen: list[FlowInfo] = []
        for event in batch.events:
            flow = event.flow
            if event.kind == protocol.Cmd.FLOW_BIRTH:
                slot = self.table.add(flow, now_ns)
                if slot is not None:
                    changes.opened.append(slot)
                self._busy_until_ns = now_ns + BUSY_NS
            elif event.kind == protocol.Cmd.FLOW_DEATH:
                if self.spans is not None and flow.cookie in self.table:
                    self.spans.end(self.table, self.table.slot(flow.cookie), flow.record)
                if self.visits is not None and flow.cookie in self.table:
                    self.visits.end(self.table.slot(flow.cookie), flow.cookie)
                slot = self.table.remove(flow.cookie)
                self._tell_flow("flow-closed", flow)
                if slot in changes.opened:
                    # The flow was born and ended within the batch, so nobody else knows it.
                    changes.opened.remove(slot)
                elif slot is not None:
                    changes.closed.append(slot)
            elif event.kind == protocol.Cmd.FLOW_FALLBACK:
                self.statistics.fallbacks += 1
                self.decisions.fell_back(flow, FALLBACKS[flow.reason])
                fallen.append(flow)
        self._apply(changes)
        for flow in fallen:
            slot = self.table.slot(flow.cookie)
            if slot != UNKNOWN:
                arm = int(flow.record["arm"][0])
                self.journal.note(self.table, slot, arm, Cause.FALLBACK, int(flow.reason))

    def resync(self) -> None:
        """List all flows again, and take in those that came or ended without an event."""
        now_ns = self._clock()
        self._resync_at_ns = now_ns + RESYNC_NS
        self._apply(self.table.resync(self.datapath.flows(self.table.flow), now_ns))

    def close(self) -> None:
        """Log the decisions in force, take the learner's entries out of the module's table, and finish the
        recording.
        """
        if self.spans is not None:
            self.spans.end_log(self.table)
        if self.outcomes is not None:
            self.outcomes.close()
        if self.visits is not None:
            self.visits.close_table()
        if self._recorder is not None:
            self._recorder.close()

    def _write_starts(self) -> None:
        """Write the arms on which new flows should begin into the module's table. Outside of mode active,
        nothing is written.
        """
        news = self.governed.starts(self.chooser.starts())
        if self.spans is not None:
            news = self.spans.starts(news)
        if self._starts is None or self.mode != "active":
            self._renew_at_ns = 0
            return
        if self.visits is not None:
            news = self.visits.starts(news, time.time())
        self._starts.write(news)
        now_ns = self._clock()
        if now_ns >= self._renew_at_ns:
            # An entry expires, so that it does not outlive its policy for long. Here the policies in force
            # renew their entries.
            self._renew_at_ns = now_ns + POLICY_START_NS // 2
            self._starts.write(self.governed.own_starts(), POLICY_START_NS * 1e-9)

    def set_default_arm(self, arm: int) -> None:
        """Tell the chooser and the learner that the module begins new flows on another arm from now on; `arm`
        is its id. The operators' policies learn of it by `govern`.
        """
        self.chooser.set_default_arm(arm)
        if self.visits is not None:
            self.visits.set_default_arm(arm)

    def govern(self, policies: Policies, ids: Mapping[str, int], default_arm: int) -> None:
        """Put the operators' policies in force for open and future flows.

        `ids` has the arms' ids by name, and `default_arm` is the id of the module's arm for new flows.
        """
        before = self.governed.own_starts()
        self.governed.govern(policies, ids, default_arm)
        gone = dict.fromkeys(before.keys() - self.governed.own_starts().keys(), 0)
        if self._starts is not None and gone:
            self._starts.write(gone)
        if self.visits is not None:
            self.visits.release(self._free)
        self._renew_at_ns = 0
        slots = np.array(self.table.slots(), np.int64)
        if slots.size:
            self.teams.close(slots)
            self.chooser.set_pool(self.teams.candidates, slots)
            self._open_teams(slots)
            self.journal.caused(slots, self.governed.causes(slots))

    def _open_teams(self, slots: Slots) -> None:
        chosen, paths = self.governed.open(slots, self.table, Terms(self.teams.candidates, self.teams.k))
        if self.visits is not None:
            # A flow that stays on its lot takes part in no selection.
            free = self.visits.held.held(chosen) == 0
            chosen, paths = chosen[free], [paths[place] for place in np.flatnonzero(free).tolist()]
        self.teams.special = self.governed.terms
        self.teams.open(chosen, paths)

    def _decide(self, slots: Slots, records: RecordArray) -> None:
        count = self.statistics
        count.records += len(records)
        self.table.observe(slots, records)
        if self.mode == "off":
            if self.spans is not None:
                self.spans.finish(self.table)
            return
        self.breathe()
        given = self.teams.pulled(slots) if self.chooser.learns_from_teams else None
        active = self.mode == "active"
        visits = self.visits if active else None
        if visits is not None:
            given = visits.given(slots, given)
        decision = self.chooser.step(slots, records, given)
        self.breathe()
        verdicts = self.chooser.verdicts(slots)
        if verdicts is not None:
            self.teams.hear(slots, verdicts)
        choice = self.teams.step(slots, records, of_policy(decision.arms))
        if visits is not None:
            choice = visits.step(slots, choice)
        choice = self.governed.step(slots, records, choice)
        if self.spans is not None:
            free = self.governed.free(slots)
            choice = self.spans.step(self.table, slots, records, choice, free, active=active)
        arms = choice.arms
        self.journal.caused(slots, choice.causes)
        if visits is not None:
            visits.caused(slots, choice.causes)
        count.decisions += len(records)
        if self._recorder is not None:
            self._recorder.append(slots, records, arms)
        self.table.reward[slots] = decision.reward
        differs = arms != records["want_arm"]
        changes = int(np.count_nonzero(differs))
        count.changes += changes
        count.explored += int(np.count_nonzero(decision.exploring))
        if changes or not active:
            new = self.journal.decided(self.table, slots, records, choice, differs, carried_out=active)
            if new.size:
                self.decisions.decided(self.table, slots[new], records[new], arms[new], self.journal.reason)
        if active:
            steered = choice.causes != _EXCLUDED if self.governed.policies else None
            own = (arms == decision.arms) & (choice.causes != _VISIT)
            asks, whole = (
                None if found is None else found * own
                for found in (self.chooser.asks(slots), self.chooser.whole(slots))
            )
            self._select(commands_for(records, arms, differs, steered, asks, whole))

    def _select(self, commands: RecordArray) -> None:
        if commands.size:
            sent = self.datapath.select(commands)
            count = self.statistics
            count.commands_applied += sent.applied
            count.commands_unknown += sent.unknown
            count.commands_refused += sent.refused

    def _control(self, slots: Slots, records: RecordArray, now_ns: int) -> None:
        """Send the controls of the learned arms. These arms see every step, even one without records."""
        if self.mode != "active":
            self._send_away(records[IS_LEARNED[records["want_arm"]]])
            return
        anew = self.chooser.begins_anew(slots) if slots.size else None
        if anew is not None and anew.any():
            self.learned.forget(slots[anew])
        controls = self.learned.step(slots, records, now_ns)
        if slots.size and controls.size:
            drains = self.chooser.drains(slots, records)
            if drains is not None and self.visits is not None:
                drains = drains & (self.visits.held.held(slots) == 0)
            if drains is not None and drains.any():
                drain(controls, records[drains])
        if controls.size:
            sent = self.datapath.control(controls)
            count = self.statistics
            count.controls_applied += sent.applied
            count.controls_clamped += sent.clamped
            count.controls_unknown += sent.unknown
            count.controls_refused += sent.refused

    def _send_away(self, records: RecordArray) -> None:
        """Move these flows from learned arms to the fallback arm. Pinned flows are pinned to the fallback
        arm.

        Outside of mode active nobody controls a learned arm. The module's watchdog does not move such a flow
        either, because the daemon's requests show it that the daemon lives.
        """
        if not records.size:
            return
        fallback = self.datapath.config().fallback_arm
        name = protocol.ArmId(fallback).name.lower()
        if self._sent_away.allows(records.size):
            others, self._sent_away.held_back = self._sent_away.held_back, 0
            log.info(
                "mode %s: %d flows move from learned arms to %s, the fallback arm, because only mode active "
                "controls learned arms; %d others since the last line",
                self.mode, records.size, name, others,
            )  # fmt: skip
        self._select(commands_for(records, np.full(records.size, fallback, np.uint8)))
        for slot in self.table.slots_of(records["cookie"]).tolist():
            if slot != UNKNOWN:
                self.journal.note(self.table, slot, fallback, Cause.MODE)
        pinned = records[(records["flags"] & PINNED) != 0]
        for cookie, arm in zip(pinned["cookie"].tolist(), pinned["want_arm"].tolist(), strict=True):
            with contextlib.suppress(FlowNotFoundError):
                self.datapath.pin(cookie, fallback)
                log.warning(
                    "flow %d was pinned to %s and is pinned to %s now", cookie, LEARNED[arm], name,
                    extra=fields(cookie=cookie, arm=name),
                )  # fmt: skip

    def _adopt(self, slots: Slots, records: RecordArray) -> tuple[Ints, RecordArray]:
        """Add the flows whose records came before the events of their births. Returns slots and records
        without the flows that have ended.
        """
        opened = []
        for cookie in records["cookie"][slots == UNKNOWN].tolist():
            try:
                slot = self.table.add(self.datapath.flow(cookie), self._clock())
            except FlowNotFoundError:
                continue
            if slot is not None:
                opened.append(slot)
        self._apply(Changes(opened=opened))
        slots = self.table.slots_of(records["cookie"])
        known = slots != UNKNOWN
        return slots[known], records[known]

    def _apply(self, changes: Changes) -> None:
        if changes.closed:
            closed = np.array(changes.closed, np.int64)
            self.teams.close(closed)
            self.governed.close(closed)
            self.chooser.close(closed)
            self.learned.forget(closed)
            if self.visits is not None:
                self.visits.close(closed)
            if self.spans is not None:
                self.spans.close(closed)
            self.statistics.flows_closed += len(changes.closed)
        if changes.opened:
            opened = np.array(changes.opened, np.int64)
            prefixes = [self.table.prefix[slot] for slot in changes.opened]
            self.chooser.open(opened, prefixes)
            if self.visits is not None:
                self.visits.open(opened, self.table, draws=self.mode == "active")
            self._open_teams(opened)
            self.journal.open(opened, self.table)
            self.journal.caused(opened, self.governed.causes(opened))
            self.history.open(opened, self.table)
            if self.spans is not None:
                self.spans.grow(int(opened.max()) + 1)
                self.spans.open(opened, prefixes)
            for slot in changes.opened:
                self._tell_flow("flow-opened", self.table.info[slot])
            self.statistics.flows_opened += len(changes.opened)

    def _tell_flow(self, kind: Kind, flow: FlowInfo | None) -> None:
        if flow is not None and self.events.room(kind):
            self.events.add(kind, **flow_event(flow))


_EXCLUDED: Final = np.uint8(Cause.EXCLUDED)
_VISIT: Final = np.uint8(Cause.VISIT)
_NO_SLOTS: Final = np.zeros(0, np.int64)
