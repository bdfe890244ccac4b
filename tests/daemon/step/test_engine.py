# SPDX-License-Identifier: Apache-2.0
"""The step, with a kernel made of lists."""

import logging
import time

import numpy as np
import pytest
from support.fake_kernel import Kernel
from support.records import flow, record

from ltp_switcher.daemon.choose.chooser import Chooser
from ltp_switcher.daemon.choose.lab.baselines import KeepChooser, RandomChooser
from ltp_switcher.daemon.choose.teams.teams import Teams
from ltp_switcher.daemon.datapath import (
    EventBatch,
    FlowEvent,
    FlowInfo,
)
from ltp_switcher.daemon.datapath.protocol import (
    ArmId,
    Cmd,
    ControlLaw,
    FallbackReason,
    FlowFlags,
)
from ltp_switcher.daemon.settings.policies import parse
from ltp_switcher.daemon.settings.schema import MptsSection
from ltp_switcher.daemon.steer import LearnedArms
from ltp_switcher.daemon.step.decision_log import DecisionLog
from ltp_switcher.daemon.step.engine import Engine
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.daemon.step.starts import StartingArms
from ltp_switcher.policies.runtime.arm import Law
from ltp_switcher.policies.runtime.measurements import Interval

NAMES = {arm: f"arm{arm}" for arm in range(12)}


def made_of(*cookies: int) -> Kernel:
    """A kernel with these flows, which report nothing until the test says so."""
    return Kernel(*(flow(cookie) for cookie in cookies), steps=[])


class Ten:
    """A learned arm that wants a window of ten, always and at every step."""

    law = Law.WINDOW
    interval_s = 0.010

    def begin(self, slots: np.ndarray, window_pkts: np.ndarray) -> None:
        pass

    def decide(self, slots: np.ndarray, interval: Interval) -> np.ndarray:
        return np.full((slots.size, 1), 10.0)


def make(
    kernel: Kernel,
    mode: str = "active",
    chooser: Chooser | None = None,
    starts: StartingArms | None = None,
) -> Engine:
    chooser = chooser or RandomChooser([5])
    teams = Teams(MptsSection(enabled=False), [5], 1, chooser.set_pool, names=NAMES, zeta=5.0, kappa=2.0)
    learned = LearnedArms(0.010, lambda _: Ten())
    log = DecisionLog(NAMES, 1000.0, mode)
    return Engine(kernel, kernel, FlowTable(), chooser, teams, log, learned, mode=mode, starts=starts)


def records(*cookies: int) -> np.ndarray:
    return np.concatenate([record(cookie, want_arm=1, arm=1, samples=1) for cookie in cookies])


def test_all_flows_of_a_step_are_decided_with_one_batch() -> None:
    kernel = made_of(7, 8, 9)
    kernel.steps = [records(9, 7)]
    engine = make(kernel)
    engine.step()
    assert [batch["cookie"].tolist() for batch in kernel.sent] == [[9, 7]]
    assert set(kernel.sent[0]["arm"].tolist()) == {5}
    assert len(engine.table) == 3
    assert engine.statistics.decisions == 2
    assert engine.busy


class Draining(RandomChooser):
    """Wants the queue of every second flow emptied, and the arm of the first flow to begin anew once."""

    anew = True

    def begins_anew(self, slots: np.ndarray) -> np.ndarray:
        found = (np.arange(slots.size) == 0) & self.anew
        self.anew = False
        return found

    def drains(self, slots: np.ndarray, records: np.ndarray) -> np.ndarray:
        return np.arange(slots.size) % 2 == 1


def test_a_queue_is_emptied_where_the_chooser_says_so() -> None:
    """The arm wants a window of 10 for each; the paths hold 12 packets."""
    kernel = made_of(7, 8, 9)
    fields = {"arm": ArmId.LTP, "want_arm": ArmId.LTP, "samples": 1, "in_flight": 5, "bdp": 12}
    for at_ms in (10, 20, 30):
        made = np.concatenate([record(cookie, **fields) for cookie in (7, 8, 9)])
        made["time_ns"] = time.monotonic_ns() + at_ms * 1_000_000
        kernel.steps.append(made)
    engine = make(kernel, chooser=Draining([int(ArmId.LTP)]))
    for _ in range(3):
        engine.step()
    told = {row["cookie"].item(): row["value"][0].item() for batch in kernel.controls for row in batch}
    assert told == {7: 10, 8: 6, 9: 10}


def test_an_arm_begins_anew_where_the_chooser_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = made_of(7, 8, 9)
    engine = make(kernel, chooser=Draining([int(ArmId.LTP)]))
    forgotten: list[list[int]] = []
    monkeypatch.setattr(engine.learned, "forget", lambda slots: forgotten.append(slots.tolist()))
    for _ in range(3):
        kernel.steps.append(records(7, 8, 9))
        engine.step()
    assert forgotten == [[engine.table.slots_of(np.array([7], np.uint64))[0]]]


def test_without_data_nothing_is_decided() -> None:
    kernel = made_of(7)
    engine = make(kernel)
    engine.step()
    assert kernel.sent == []
    assert not engine.busy


@pytest.mark.parametrize(("mode", "decisions"), [("advise", 1), ("off", 0)])
def test_only_active_switches(mode: str, decisions: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    kernel = made_of(7)
    kernel.steps = [records(7)]
    engine = make(kernel, mode)
    engine.step()
    assert kernel.sent == []
    assert engine.statistics.decisions == decisions
    assert ("would switch arm1 -> arm5" in caplog.text) == (mode == "advise")


def test_a_record_may_come_before_its_birth_and_after_its_death() -> None:
    kernel = made_of()
    engine = make(kernel)
    engine.step()
    kernel.table[3] = flow(3)
    kernel.steps = [records(3, 4)]
    engine.step()
    assert kernel.sent[0]["cookie"].tolist() == [3]
    assert engine.statistics.flows_opened == 1


def test_births_and_deaths_by_events() -> None:
    kernel = made_of(1)
    engine = make(kernel)
    engine.step()
    kernel.pending = [
        EventBatch(
            [
                FlowEvent(Cmd.FLOW_BIRTH, flow(2)),
                FlowEvent(Cmd.FLOW_DEATH, flow(1)),
                FlowEvent(Cmd.FLOW_BIRTH, flow(3)),
                FlowEvent(Cmd.FLOW_DEATH, flow(3)),
                FlowEvent(Cmd.FLOW_DEATH, flow(99)),
            ],
            False,
        )
    ]
    engine.read_events()
    assert [2 in engine.table, 1 in engine.table, 3 in engine.table] == [True, False, False]
    assert (engine.statistics.flows_opened, engine.statistics.flows_closed) == (2, 1)
    assert engine.busy


def test_lost_events_make_it_look_at_all_flows() -> None:
    kernel = made_of(1, 2)
    engine = make(kernel)
    engine.step()
    del kernel.table[1]
    kernel.table[5] = flow(5)
    kernel.pending = [EventBatch([], True)]
    engine.read_events()
    assert [cookie in engine.table for cookie in (1, 2, 5)] == [False, True, True]
    assert engine.statistics.events_lost == 1


def test_a_fallback_is_told_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    kernel = made_of(1)
    engine = make(kernel)
    fallen = FlowInfo(
        **{**{f: getattr(flow(1), f) for f in FlowInfo.__slots__}, "reason": FallbackReason.SILENCE}
    )
    kernel.pending = [EventBatch([FlowEvent(Cmd.FLOW_FALLBACK, fallen)], False)]
    engine.read_events()
    assert "the daemon was silent for too long" in caplog.text
    assert engine.statistics.fallbacks == 1


@pytest.mark.parametrize("mode", ["active", "advise", "off"])
def test_flows_under_a_learned_arm_are_controlled_whoever_chose_it(mode: str) -> None:
    """Pinned or not; in one batch after the commands; only while the daemon is active."""
    kernel = made_of(7, 8, 9)
    fields = {"arm": ArmId.LTP, "want_arm": ArmId.LTP, "samples": 1, "in_flight": 5}
    pinned = {**fields, "flags": FlowFlags.PINNED | FlowFlags.STEERED}
    for at_ms in (10, 20, 30):
        step = [record(7, **fields), record(8, **pinned), record(9, arm=1, want_arm=1, samples=1)]
        made = np.concatenate(step)
        made["time_ns"] = time.monotonic_ns() + at_ms * 1_000_000
        kernel.steps.append(made)
    engine = make(kernel, mode, KeepChooser([]))
    for _ in range(3):
        engine.step()
    assert mode != "active" or all(set(batch["arm"].tolist()) <= {1, ArmId.LTP} for batch in kernel.sent)
    assert [batch["cookie"].tolist() for batch in kernel.controls] == (
        [[7, 8]] * 2 if mode == "active" else []
    )
    for batch in kernel.controls:
        assert batch["law"].tolist() == [ControlLaw.WINDOW] * 2
        assert batch["value"][:, 0].tolist() == [10, 10]
    count = engine.statistics
    assert (count.controls_applied, count.controls_clamped) == ((4, 2) if mode == "active" else (0, 0))


def test_a_learned_flow_that_hears_nothing_is_decided_for_all_the_same() -> None:
    kernel = made_of(7)
    engine = make(kernel, chooser=KeepChooser([]))
    made = record(7, arm=ArmId.OWL, want_arm=ArmId.OWL, samples=1, in_flight=5)
    made["time_ns"] = time.monotonic_ns()
    kernel.steps = [made]
    engine.step()
    assert kernel.controls == []
    time.sleep(Ten.interval_s)
    engine.step()
    assert [batch["cookie"].tolist() for batch in kernel.controls] == [[7]]


PINNED = FlowFlags.PINNED | FlowFlags.STEERED


def learned_step(*, first: int, pinned: int) -> np.ndarray:
    """Flow 7 wants `first`, flow 8 is pinned to `pinned`, flow 9 has an arm of the kernel's."""
    return np.concatenate(
        [
            record(7, arm=ArmId.LTP, want_arm=first, samples=1, flags=FlowFlags.STEERED),
            record(8, arm=ArmId.LTP, want_arm=pinned, samples=1, flags=PINNED),
            record(9, arm=ArmId.BBR, want_arm=ArmId.BBR, samples=1, flags=FlowFlags.STEERED),
        ]
    )


@pytest.mark.parametrize("mode", ["advise", "off"])
def test_outside_of_active_flows_leave_learned_arms(mode: str, caplog: pytest.LogCaptureFixture) -> None:
    """Nobody controls them there: the module would keep their last controls, or run reno in their names."""
    caplog.set_level(logging.INFO)
    kernel = made_of(7, 8, 9)
    engine = make(kernel, chooser=KeepChooser([]))
    kernel.steps = [learned_step(first=ArmId.LTP, pinned=ArmId.JURY) for _ in range(2)]
    engine.step()
    assert (kernel.sent, kernel.pinned) == ([], [])
    engine.mode = mode
    engine.step()
    assert [batch.tolist() for batch in kernel.sent] == [[(7, ArmId.WESTWOOD, 0, 0, 0, 0)]]
    assert kernel.pinned == [(8, ArmId.WESTWOOD)]
    assert f"mode {mode}: 2 flows move from learned arms to westwood, the fallback arm" in caplog.text
    assert "flow 8 was pinned to jury and is pinned to westwood now" in caplog.text
    # From now on they show it, and are left alone; back in active the policy decides for those not pinned.
    settled = learned_step(first=ArmId.WESTWOOD, pinned=ArmId.WESTWOOD)
    kernel.steps = [settled, settled]
    engine.step()
    assert (len(kernel.sent), len(kernel.pinned)) == (1, 1)
    engine.mode = "active"
    engine.step()
    assert [batch["cookie"].tolist() for batch in kernel.sent] == [[7], [7]]
    assert kernel.sent[1]["arm"].tolist() == [ArmId.LTP]


def test_a_pinned_flow_may_end_before_it_leaves_its_learned_arm() -> None:
    kernel = made_of(7, 8, 9)
    engine = make(kernel, "advise", KeepChooser([]))
    engine.step()
    del kernel.table[8]
    kernel.steps = [learned_step(first=ArmId.LTP, pinned=ArmId.LTP)]
    engine.step()
    assert [batch["cookie"].tolist() for batch in kernel.sent] == [[7]]
    assert kernel.pinned == []


@pytest.mark.parametrize(("mode", "written"), [("active", {"192.0.2.0/24": 3}), ("advise", {})])
def test_the_arms_of_prefixes_go_into_the_kernel(mode: str, written: dict[str, int]) -> None:
    class Knowing(RandomChooser):
        def starts(self) -> dict[str, int]:
            return {"192.0.2.0/24": 3}

    kernel = made_of(7)
    engine = make(kernel, mode, Knowing([5]), StartingArms(kernel, 600))
    engine.step()
    assert kernel.started == written


def test_terms_last_as_long_as_the_flows_that_they_are_for() -> None:
    """A server meets prefixes without end. Two flows share a path, and the first leaves it its terms."""
    kernel = made_of()
    engine = make(kernel)
    engine.govern(parse([{"port": 443, "pool": ["arm5"]}]), {"arm5": 5}, 1)
    for number in range(50):
        pair = [flow(1 + 2 * number + twin, f"10.1.{number}.{1 + twin}") for twin in (0, 1)]
        for kind, flows in ((Cmd.FLOW_BIRTH, pair), (Cmd.FLOW_DEATH, pair[:1]), (Cmd.FLOW_DEATH, pair[1:])):
            kernel.pending = [EventBatch([FlowEvent(kind, one) for one in flows], lost=False)]
            engine.read_events()
            gone = flows is not pair and flows[0] is pair[1]
            names = [] if gone else [f"10.1.{number}.0/24@{pair[0].netns} under port 443"]
            assert list(engine.governed.terms) == names
            assert list(engine.teams.special) == names
    for number in range(3):
        kernel.pending = [EventBatch([FlowEvent(Cmd.FLOW_BIRTH, flow(900 + number))], lost=False)]
        engine.read_events()
    engine.govern(parse([{"port": 443, "k": 1}]), {"arm5": 5}, 1)
    assert len(engine.governed.terms) == 1
    engine.govern(parse([]), {}, 1)
    assert engine.governed.terms == engine.teams.special == {}
