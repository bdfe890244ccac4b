# SPDX-License-Identifier: Apache-2.0
"""The rule's memory of prefixes, and its way over a restart of the daemon or of the machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.records import record
from support.rule_flows import BBR, LTP, STEP_S, UNCHECKED, VEGAS

from ltp_switcher.daemon.choose import clocks
from ltp_switcher.daemon.choose.rule import prefixes as module
from ltp_switcher.daemon.choose.rule.prefixes import Prefixes
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.service.state import read_state, write_state
from ltp_switcher.errors import ArtifactError

S = 10**9
AHEAD_NS = 1_800_000_000 * S
CUBIC = 1
SLOT = np.array([0])
NAMES = ["192.0.2.0/24", "2001:db8:7::/48", "2001:db8:7::/48@4026532000", "203.0.113.0/24"]

Learned = st.lists(st.tuples(st.sampled_from(NAMES), st.floats(0, 2), st.integers(0, 900)), max_size=8)


@given(Learned, st.integers(900, 2000), st.integers(0, 700), st.integers(-(10**6), 10**6))
@example([(NAMES[0], 0.5, 400)], 900, 99, 0)
@example([(NAMES[0], 0.5, 400)], 900, 100, 0)
def test_a_number_counts_as_long_as_it_would_without_the_restart(
    learned: list[tuple[str, float, int]], saved_s: int, away_s: int, reset_s: int
) -> None:
    """`away_s` passes in between, and CLOCK_MONOTONIC moves by `reset_s` more, as when the machine starts."""
    before, after = Prefixes(600.0), Prefixes(600.0)
    for prefix, value, at_s in sorted(learned, key=lambda one: one[2]):
        before.learn(prefix, value, at_s * S)
    array = before.state(saved_s * S, AHEAD_NS)
    began_s = saved_s + away_s
    after.restore(array, (began_s + reset_s) * S, AHEAD_NS - reset_s * S)
    for now_s in (began_s, began_s + 300, began_s + 601):
        for prefix in NAMES:
            assert after.value(prefix, (now_s + reset_s) * S) == before.value(prefix, now_s * S)


def test_where_the_clock_was_set_back_a_number_counts_no_longer_than_a_new_one() -> None:
    before, after = Prefixes(600.0), Prefixes(600.0)
    before.learn("a", 2.0, 100 * S)
    after.restore(before.state(100 * S, AHEAD_NS), 50 * S, 0)
    assert after.value("a", 649 * S) == 2.0
    assert after.value("a", 650 * S) is None


def test_numbers_that_no_longer_count_take_no_room_in_the_file() -> None:
    memory = Prefixes(600.0)
    memory.learn("old", 1.0, 0)
    memory.learn("new", 1.0, 500 * S)
    assert memory.state(600 * S, 0)["prefix"].tolist() == [b"new"]
    assert memory.state(1100 * S, 0).size == 0


def test_the_oldest_makes_room_after_a_restart_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PREFIXES_MAX", 2)
    before, after = Prefixes(600.0), Prefixes(600.0)
    for at_s, prefix in enumerate(("a", "b", "a")):
        before.learn(prefix, at_s, at_s * S)
    after.restore(before.state(3 * S, 0), 3 * S, 0)
    after.learn("c", 3, 3 * S)
    assert [after.value(prefix, 3 * S) for prefix in "abc"] == [2, None, 3]


@pytest.mark.parametrize(
    "array",
    [
        np.array(3),
        np.zeros(2),
        np.zeros(2, [("prefix", "S4"), ("value", "f8")]),
        np.zeros(2, [("prefix", "U4"), ("value", "f8"), ("learned_ns", "i8")]),
        np.zeros(2, [("prefix", "S4"), ("value", "f8"), ("learned_ns", "f8")]),
        np.zeros((2, 2), [("prefix", "S4"), ("value", "f8"), ("learned_ns", "i8")]),
    ],
)
def test_an_array_of_another_form_is_refused(array: np.ndarray) -> None:
    with pytest.raises(ArtifactError, match="another form"):
        Prefixes(600.0).restore(array, 0, 0)


class World:
    """The rule, flow after flow, and the clocks of its machine."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.settings = UNCHECKED
        self.chooser = RuleChooser([BBR, LTP, VEGAS], self.settings)
        self.now_ns, self.ahead_ns = 5 * S, AHEAD_NS
        times = SimpleNamespace(monotonic_ns=lambda: self.now_ns, time_ns=lambda: self.now_ns + self.ahead_ns)
        monkeypatch.setattr(clocks, "time", times)

    def flow(self, prefix: str, kind: str) -> list[int]:
        """The arms of a flow of 3 s: its rate varies, its start loses 15 %, or nothing happens."""
        self.chooser.open(SLOT, [prefix])
        told: list[int] = []
        arm, switched_s = CUBIC, 0.0
        for step in range(1, 101):
            at_s = step * STEP_S
            self.now_ns += int(STEP_S * S)
            rtt_us = 400_000 if kind == "varies" and 0.5 < at_s < 1.0 else 40_000
            lost = int(60 * min(step, 33) * 0.15 / 0.85) if kind == "overfills" else 0
            made = record(
                1, time_ns=self.now_ns, interval_ns=int(STEP_S * S), samples=5, rtt_samples=5, delivered=60,
                total_delivered=60 * step, total_lost=lost, srtt_us=rtt_us, mss=1448, arm=arm, want_arm=arm,
                rtt_floor_us=40_000, bdp=80, round_trips=int((at_s - switched_s) / (rtt_us * 1e-6)),
            )  # fmt: skip
            made["rtt_stat"] = made["srtt_stat"] = (rtt_us, rtt_us, 5 * rtt_us)
            told.append(int(self.chooser.step(SLOT, made).arms[0]))
            if told[-1] != arm:
                arm, switched_s = told[-1], at_s
        self.chooser.close(SLOT)
        return told

    def restart(self, path: Path, reset_s: int) -> None:
        """Let another daemon take over, after a restart of the machine unless `reset_s` is 0."""
        write_state(path, self.chooser.state())
        self.now_ns += reset_s * S
        self.ahead_ns -= reset_s * S
        arrays = read_state(path)
        assert arrays is not None
        self.chooser = RuleChooser([BBR, LTP, VEGAS], self.settings)
        self.chooser.restore(arrays)

    def wait(self, away_s: int) -> None:
        """Let time pass. The rule's clock is its last record's, so a flow to another prefix tells it."""
        self.now_ns += away_s * S
        self.flow("elsewhere", "plain")


Flows = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["varies", "overfills", "plain"])),
    min_size=1,
    max_size=4,
)


@given(Flows, st.sampled_from([0, 100, 570, 585, 600, 700]), st.sampled_from([0, -4, 10**6]))
@example([("a", "varies"), ("b", "overfills")], 0, 0)
@example([("a", "varies"), ("b", "overfills")], 585, -4)
@settings(max_examples=10)
def test_the_next_flows_run_what_they_would_without_the_restart(
    tmp_path_factory: pytest.TempPathFactory, flows: list[tuple[str, str]], away_s: int, reset_s: int
) -> None:
    with pytest.MonkeyPatch.context() as monkeypatch:
        told = []
        for restarts in (False, True):
            world = World(monkeypatch)
            for prefix, kind in flows:
                world.flow(prefix, kind)
            if restarts:
                world.restart(tmp_path_factory.mktemp("state") / "state.npz", reset_s)
            world.wait(away_s)
            told.append([world.flow(prefix, "plain") for prefix in "abc"])
    assert told[0] == told[1]


def test_a_restart_alone_makes_no_flow_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    assert world.flow("a", "varies")[0] == BBR
    assert world.flow("b", "overfills")[0] == BBR
    world.restart(tmp_path / "state.npz", 0)
    assert set(world.flow("a", "plain")) == {VEGAS}
    assert world.flow("b", "plain")[0] == CUBIC
    assert world.flow("c", "plain")[0] == BBR


def test_an_earlier_release_has_left_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.chooser.restore({"prefixes": np.array(["a"])})
    assert world.flow("a", "plain")[0] == BBR


def test_a_case_that_is_left_out_now_does_not_come_back_from_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(monkeypatch)
    world.flow("b", "overfills")
    world.settings = replace(world.settings, without=(*world.settings.without, "starts"))
    world.restart(tmp_path / "state.npz", 0)
    assert world.flow("b", "plain")[0] == BBR
