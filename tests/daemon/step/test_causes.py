# SPDX-License-Identifier: Apache-2.0
"""Each stage of a step names itself: in log, journal, events, rows, and the answer to `why`."""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import pytest
from support.logged_engine import NAMES, STEERED, Log, make, seen, towards

from ltp_switcher.daemon.choose.choice import Cause, Choice
from ltp_switcher.daemon.choose.teams.teams import Teams
from ltp_switcher.daemon.control.why import why_json
from ltp_switcher.daemon.datapath.protocol import FlowFlags
from ltp_switcher.daemon.gain.rows import Group, Kind
from ltp_switcher.daemon.gain.trial import Trial
from ltp_switcher.daemon.settings.policies import parse
from ltp_switcher.daemon.step.engine import Engine

PINNED = STEERED | int(FlowFlags.PINNED)


class Pulling(Teams):
    """A team selection that has every flow run arm 7."""

    def step(self, slots: np.ndarray, records: np.ndarray, choice: Choice) -> Choice:
        return choice.but(np.ones(slots.shape, np.bool_), np.uint8(7), Cause.TEAM_SELECTION)


class Agreeing(Teams):
    """A team selection that measures the arm that the policy chose."""

    def step(self, slots: np.ndarray, records: np.ndarray, choice: Choice) -> Choice:
        return choice.but(np.ones(slots.shape, np.bool_), choice.arms, Cause.TEAM_SELECTION)


@dataclass(frozen=True)
class Stage:
    """A way to an arm, and all that is to be told of it."""

    cause: str
    words: str
    arm: int
    kind: Kind
    trial: Trial | None = None
    explore: float = 0.0
    teams: type[Teams] = Teams
    policy: tuple[str, object] | None = None


HOLDBACK = Trial("holdback", share=0.9999, arm=2)
STAGES = [
    Stage("policy", "the lot fell on it", 5, Kind.CHOSEN),
    Stage("team_selection", "team selection measures", 7, Kind.PULL, teams=Pulling),
    Stage("team_selection", "team selection measures", 5, Kind.PULL, teams=Agreeing),
    Stage("held", "a policy of an operator holds", 4, Kind.OPERATOR, policy=("pin", "arm4")),
    # The later stage has the word, also where it agrees with the one before.
    Stage("held", "a policy of an operator holds", 5, Kind.OPERATOR, policy=("pin", "arm5")),
    Stage("held", "holds", 4, Kind.OPERATOR, HOLDBACK, 1.0, Pulling, ("pin", "arm4")),
    Stage("experiment", "the experiment keeps the flow on the baseline", 2, Kind.BASELINE, HOLDBACK),
    Stage("experiment", "the experiment", 2, Kind.BASELINE, HOLDBACK, 0.0, Pulling),
    Stage("experiment", "the experiment", 5, Kind.BASELINE, Trial("holdback", share=0.9999, arm=5)),
    Stage("exploration", "chance gave", 8, Kind.EXPLORED, explore=1.0),
]


def govern(engine: Engine, key: str, value: object) -> None:
    ids = {"arm4": 4, "arm5": 5, "arm1": 1}
    engine.govern(parse([{"prefix": "10.0.0.0/8", key: value}], arms=[*ids]), ids, 1)


@pytest.mark.parametrize("stage", STAGES)
def test_all_tell_the_cause_of_the_stage_that_chose(stage: Stage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    kernel, log = towards(1), Log()
    engine = make(kernel, log, stage.trial, explore=stage.explore, teams_of=stage.teams)
    if engine.spans is not None:
        engine.spans.set_pool([8])
    kernel.steps = [seen(1)]
    if stage.policy:
        engine.govern(parse([], arms=[]), {}, 1)
        engine.resync()
        govern(engine, *stage.policy)
    begun = engine.events.next
    engine.step()
    slot = engine.table.slot(1)
    assert kernel.sent[-1]["arm"].tolist() == [stage.arm]
    (switch,) = engine.journal.of(slot)
    assert (switch.cause.name.lower(), switch.after) == (stage.cause, f"arm{stage.arm}")
    (told,) = [event for event in engine.events.since(begun).events if event["kind"] == "flow-switched"]
    assert (told["cause"], told["after"], told["reason"]) == (stage.cause, switch.after, switch.reason)
    (line,) = [entry for entry in caplog.records if "switches" in entry.message]
    assert f"arm1 -> arm{stage.arm}: {switch.reason}" in line.message
    assert stage.words in switch.reason
    engine.table.record["want_arm"][slot] = stage.arm
    assert why_json(engine, slot, NAMES)["sentence"] == f"It runs arm{stage.arm}: {switch.reason}."
    engine.close()
    assert (log.rows["kind"].tolist(), log.rows["arm"].tolist()) == ([stage.kind], [stage.arm])


@pytest.mark.parametrize("mode", ["active", "advise"])
@pytest.mark.parametrize(("key", "value"), [("pin", "arm4"), ("exclude", True)])
def test_a_pinned_flow_under_a_policy_is_no_switch(
    mode: str, key: str, value: object, caplog: pytest.LogCaptureFixture
) -> None:
    """Else it would be logged as a switch once a second, for ever."""
    caplog.set_level(logging.INFO)
    kernel, log = towards(1), Log()
    engine = make(kernel, log, HOLDBACK, mode=mode, explore=1.0)
    engine.resync()
    govern(engine, key, value)
    kernel.steps = [seen(1, flags=PINNED) for _ in range(5)]
    begun = engine.events.next
    for _ in range(5):
        engine.step()
    slot = engine.table.slot(1)
    assert engine.statistics.changes == 0
    assert [entry.message for entry in caplog.records if "switch" in entry.message] == []
    assert engine.journal.of(slot) == []
    assert [event["kind"] for event in engine.events.since(begun).events] == []
    assert kernel.sent == []
    engine.close()
    (row,) = log.rows
    assert (row["arm"], row["ran"], row["kind"], row["group"]) == (1, 1, Kind.OPERATOR, Group.NONE)


def test_an_excluded_flow_gets_no_command_even_where_the_module_waits_for_one() -> None:
    kernel, log = towards(2), Log()
    engine = make(kernel, log)
    engine.resync()
    engine.govern(parse([{"prefix": "10.0.0.0/24", "exclude": True}], arms=[]), {}, 1)
    kernel.steps = [seen(1, 2, flags=0)]
    engine.step()
    assert [batch["cookie"].tolist() for batch in kernel.sent] == [[2]]
    slot = engine.table.slot(1)
    assert why_json(engine, slot, NAMES)["sentence"] == (
        "It keeps arm1: a policy of an operator excludes the flow."
    )


def test_advice_is_logged_once_until_it_ends(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    kernel, log = towards(1), Log()
    engine = make(kernel, log, mode="advise")
    engine.decisions.set_rate(1e9)
    for want in (1, 1, 1, 5, 1):
        kernel.steps = [seen(1, want_arm=want)]
        engine.step()
        assert engine.journal.advised(engine.table.slot(1)) == (None if want == 5 else "arm5")
    assert len([entry for entry in caplog.records if "would switch" in entry.message]) == 2


def test_a_pin_ends_the_decision_and_begins_one_of_the_operator() -> None:
    """Else the experiment would count the time in which the flow was not its own."""
    kernel, log = towards(1), Log()
    engine = make(kernel, log)
    for flags in (STEERED, PINNED, STEERED):
        kernel.steps = [seen(1, want_arm=5, arm=5, flags=flags)]
        engine.step()
    engine.close()
    assert log.rows["kind"].tolist() == [Kind.CHOSEN, Kind.OPERATOR, Kind.CHOSEN]


def test_before_a_first_decision_a_flow_has_no_cause() -> None:
    kernel, log = towards(2), Log()
    engine = make(kernel, log)
    engine.resync()
    slot = engine.table.slot(1)
    assert engine.journal.cause(slot) == Cause.NONE
    assert "no data has moved" in str(why_json(engine, slot, NAMES)["sentence"])
    govern(engine, "pin", "arm4")
    assert engine.journal.cause(slot) == Cause.HELD
