# SPDX-License-Identifier: Apache-2.0
"""The reasons of switches: their owners, their order, and that none is told twice."""

from __future__ import annotations

import numpy as np
import pytest
from support.fake_kernel import BBR, CUBIC, VEGAS
from support.records import flow, record

from ltp_switcher.daemon.choose.choice import Cause, Choice, of_policy
from ltp_switcher.daemon.choose.chooser import Reasons
from ltp_switcher.daemon.datapath import FlowInfo
from ltp_switcher.daemon.datapath.protocol import FallbackReason, FlowFlags
from ltp_switcher.daemon.step.events import EventRing
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.daemon.step.journal import SWITCHES_KEPT, Journal, Switch

NAMES = {CUBIC: "cubic", BBR: "bbr", VEGAS: "vegas"}
FLOWS = 3


class Explained:
    """A chooser whose reason is the slot's parity, and whose number is the slot."""

    reasons = ("the slot {value:.1f} was even", "the slot was odd")

    def reason(self, slots: np.ndarray) -> Reasons:
        return Reasons(slots % 2, slots.astype(np.float64))

    def estimates(self, slot: int) -> tuple[()]:
        return ()


class World:
    """A table of flows under cubic, and their journal."""

    def __init__(self) -> None:
        self.table, self.events = FlowTable(), EventRing()
        self.begun = self.events.next
        self.journal = Journal(NAMES, Explained(), self.events)  # type: ignore[arg-type]
        flows: list[FlowInfo] = [flow(cookie, arm=CUBIC, want_arm=CUBIC) for cookie in range(1, FLOWS + 1)]
        changes = self.table.resync(flows, 0)
        self.slots = np.array(changes.opened)
        self.journal.open(self.slots, self.table)

    def decide(self, *arms: int, wanted: int = CUBIC, active: bool = True, pulled: bool = False) -> None:
        records = np.concatenate([record(1 + slot, want_arm=wanted, arm=wanted) for slot in range(FLOWS)])
        chosen = np.array(arms, np.uint8)
        cause = Cause.TEAM_SELECTION if pulled else Cause.POLICY
        choice = Choice(chosen, np.full(FLOWS, cause, np.uint8))
        self.journal.decided(
            self.table, self.slots, records, choice, chosen != records["want_arm"], carried_out=active
        )

    def told(self) -> list[tuple[object, ...]]:
        events = self.events.since(self.begun).events
        return [(event["kind"], event.get("cookie"), event.get("after")) for event in events]

    def all_of(self, slot: int) -> list[tuple[str | None, str | None, Cause, str]]:
        return [(s.before, s.after, s.cause, s.reason) for s in self.journal.of(slot)]


@pytest.fixture
def world() -> World:
    return World()


def test_a_switch_has_the_reason_of_its_moment(world: World) -> None:
    world.decide(CUBIC, BBR, VEGAS)
    assert world.all_of(0) == []
    assert world.all_of(1) == [("cubic", "bbr", Cause.POLICY, "the slot was odd")]
    assert world.all_of(2) == [("cubic", "vegas", Cause.POLICY, "the slot 2.0 was even")]
    assert world.told() == [("flow-switched", "2", "bbr"), ("flow-switched", "3", "vegas")]


def test_a_decision_that_takes_several_steps_is_one_switch(world: World) -> None:
    for _ in range(4):
        world.decide(CUBIC, BBR, CUBIC)
    assert len(world.all_of(1)) == 1
    assert len(world.told()) == 1


def test_advice_is_no_switch_and_is_told_once_until_it_ends(world: World) -> None:
    for arm in (BBR, BBR, CUBIC, BBR):
        world.decide(CUBIC, arm, CUBIC, active=False)
    assert [switch.carried_out for switch in world.journal.of(1)] == [False, False]
    assert world.told() == [("flow-advised", "2", "bbr")] * 2
    assert world.journal.advised(1) == "bbr"
    assert world.journal.advised(0) is None
    world.decide(CUBIC, BBR, CUBIC)
    newest: Switch = world.journal.of(1)[0]
    assert (newest.carried_out, newest.after) == (True, "bbr")
    assert world.journal.advised(1) is None


def test_the_last_five_are_kept_newest_first(world: World) -> None:
    arms = [BBR, VEGAS] * 4
    for before, after in zip([CUBIC, *arms], arms, strict=False):
        world.decide(after, after, after, wanted=before)
    assert [switch.after for switch in world.journal.of(0)] == ["vegas", "bbr", "vegas", "bbr", "vegas"]
    assert len(world.journal.of(0)) == SWITCHES_KEPT
    ages = [switch.time_ns for switch in world.journal.of(0)]
    assert ages == sorted(ages, reverse=True)


def test_team_selection_and_operators_have_reasons_of_their_own(world: World) -> None:
    world.decide(BBR, CUBIC, CUBIC, pulled=True)
    world.journal.note(world.table, 1, VEGAS, Cause.OPERATOR)
    world.journal.note(world.table, 2, BBR, Cause.FALLBACK, FallbackReason.SILENCE)
    assert world.all_of(0)[0][2:] == (Cause.TEAM_SELECTION, "team selection measures the arm on this path")
    assert world.all_of(1)[0] == ("cubic", "vegas", Cause.OPERATOR, "an operator pinned the flow")
    assert world.all_of(2)[0][2:] == (Cause.FALLBACK, "the daemon was silent for too long")
    assert [kind for kind, _, _ in world.told()] == ["flow-switched", "flow-switched", "flow-fallback"]


def test_a_pin_to_the_arm_that_runs_is_no_switch(world: World) -> None:
    world.journal.note(world.table, 1, CUBIC, Cause.OPERATOR)
    assert world.all_of(1) == []


def test_after_a_fallback_the_same_arm_is_a_switch_again(world: World) -> None:
    world.decide(BBR, CUBIC, CUBIC)
    world.journal.note(world.table, 0, CUBIC, Cause.FALLBACK, FallbackReason.SILENCE)
    world.decide(BBR, CUBIC, CUBIC)
    assert [switch.cause for switch in world.journal.of(0)] == [Cause.POLICY, Cause.FALLBACK, Cause.POLICY]


def test_an_arm_that_nobody_here_chose_is_noticed_once(world: World) -> None:
    world.table.record["arm"][1] = world.table.record["want_arm"][1] = VEGAS
    world.journal.look(world.table)
    assert world.all_of(1) == [], "the record may be older than the last command"
    for _ in range(3):
        world.journal.look(world.table)
    assert world.all_of(1) == [
        ("cubic", "vegas", Cause.ELSEWHERE, "the application or another program chose it")
    ]


def test_a_record_from_before_a_switch_is_no_arm_of_somebody_else(world: World) -> None:
    for arm in (BBR, VEGAS, BBR):
        world.decide(CUBIC, arm, CUBIC)
        world.journal.look(world.table)
        world.table.record["arm"][1] = world.table.record["want_arm"][1] = arm
        world.journal.look(world.table)
    assert {switch.cause for switch in world.journal.of(1)} == {Cause.POLICY}


@pytest.mark.parametrize(
    "fields",
    [
        {"arm": VEGAS, "want_arm": VEGAS, "flags": int(FlowFlags.FALLEN_BACK)},  # its event is to come
        {"arm": CUBIC, "want_arm": VEGAS},  # a command under way
        {"arm": 0, "want_arm": VEGAS},  # before the first ACK
    ],
)
def test_an_arm_that_is_known_to_come_is_not_noticed(world: World, fields: dict[str, int]) -> None:
    for name, value in fields.items():
        world.table.record[name][1] = value
    for _ in range(3):
        world.journal.look(world.table)
    assert world.all_of(1) == []


def test_a_flow_that_takes_a_slot_over_has_no_past(world: World) -> None:
    world.decide(BBR, BBR, BBR)
    world.journal.open(np.array([1]), world.table)
    assert world.all_of(1) == []
    assert len(world.all_of(0)) == 1


def test_many_switches_at_once_are_told_in_part_and_kept_in_full() -> None:
    table, events = FlowTable(), EventRing()
    journal = Journal(NAMES, Explained(), events)  # type: ignore[arg-type]
    changes = table.resync([flow(cookie, arm=CUBIC, want_arm=CUBIC) for cookie in range(1, 301)], 0)
    slots = np.array(changes.opened)
    journal.open(slots, table)
    begun = events.next
    records = table.record[slots]
    choice = of_policy(np.full(300, BBR, np.uint8))
    journal.decided(table, slots, records, choice, np.ones(300, np.bool_), carried_out=True)
    assert all(journal.of(slot) for slot in slots.tolist())
    assert 0 < len(events.since(begun).events) <= 100
