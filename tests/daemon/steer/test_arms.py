# SPDX-License-Identifier: Apache-2.0
"""The run time of the learned arms: records to intervals, intervals to decisions, decisions to controls."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.records import record

from ltp_switcher.daemon.datapath import ArmInfo, protocol
from ltp_switcher.daemon.settings.schema import LearnedSection
from ltp_switcher.daemon.steer import arms as learned
from ltp_switcher.daemon.steer.arms import LearnedArms, controls, with_policies
from ltp_switcher.daemon.steer.monitor import Monitor
from ltp_switcher.errors import ArtifactError
from ltp_switcher.policies.runtime.arm import PARAMETERS, Law
from ltp_switcher.policies.runtime.declaration import Declaration, declarations
from ltp_switcher.policies.runtime.measurements import Interval

MS_NS = 1_000_000
LTP, JURY, SPINE = (int(arm) for arm in (protocol.ArmId.LTP, protocol.ArmId.JURY, protocol.ArmId.SPINE))


def test_controls_are_fixed_point_and_leave_out_what_is_not_to_change() -> None:
    cookies = np.array([5, 6, 7], np.uint64)
    made = controls(cookies, LTP, Law.WINDOW, np.array([[12.4], [np.nan], [np.inf]]))
    assert made["cookie"].tolist() == [5, 7]
    assert made["law"].tolist() == [protocol.ControlLaw.WINDOW] * 2
    assert made["value"].tolist() == [[12, 0, 0, 0], [2**32 - 1, 0, 0, 0]]
    assert controls(cookies, LTP, Law.WINDOW, np.ones((3, 1)), 2**32 + 9)["value"][:, 1].tolist() == [9] * 3
    made = controls(cookies[:1], SPINE, Law.AIMD, np.array([[0.5, 0.25, 2.0, 1.0]]))
    assert made["value"].tolist() == [[32768, 16384, 131072, 65536]]
    assert (made["arm"][0], made["law"][0]) == (SPINE, protocol.ControlLaw.AIMD)
    assert controls(cookies[:1], SPINE, Law.AIMD, np.array([[0.5, np.nan, 2.0, 1.0]])).size == 0


@given(law=st.sampled_from(list(Law)), data=st.data())
def test_a_control_tells_the_law_s_parameters_to_a_65536th(law: Law, data: st.DataObject) -> None:
    row = data.draw(st.lists(st.floats(0, 1000), min_size=PARAMETERS[law], max_size=PARAMETERS[law]))
    (made,) = controls(np.array([1], np.uint64), SPINE, law, np.array([row]))["value"].astype(np.float64)
    scale = 1.0 if law is Law.WINDOW else 65536.0
    assert made[: len(row)] / scale == pytest.approx(row, abs=0.51 / scale)
    assert not made[len(row) :].any()


class Doubling:
    """An arm that doubles every window, and remembers what it was asked."""

    def __init__(self, interval_s: float = 0.030) -> None:
        self.law = Law.WINDOW
        self.interval_s = interval_s
        self.begun: list[tuple[list[int], list[float]]] = []
        self.batches: list[list[int]] = []

    def begin(self, slots: np.ndarray, window_pkts: np.ndarray) -> None:
        self.begun.append((slots.tolist(), window_pkts.tolist()))

    def decide(self, slots: np.ndarray, interval: Interval) -> np.ndarray:
        assert interval.window_pkts.shape == slots.shape
        self.batches.append(slots.tolist())
        return 2.0 * interval.window_pkts[:, None]


def test_each_arm_decides_for_all_its_flows_in_one_batch_at_its_own_pace() -> None:
    made = {"ltp": Doubling(), "jury": Doubling(0.060)}
    arms = LearnedArms(0.010, made.__getitem__)
    slots = np.array([3, 100, 5])
    sent = []
    for step in range(13):
        records = np.concatenate(
            [
                record(30, arm=LTP, snd_cwnd=10, in_flight=4),
                record(1000, arm=LTP, snd_cwnd=20, in_flight=4),
                record(50, arm=JURY if step >= 6 else 1, snd_cwnd=30, in_flight=4),
            ]
        )
        sent.append(arms.step(slots, records, step * 10 * MS_NS))
    assert made["ltp"].begun == [([3, 100], [10.0, 20.0])]
    assert made["jury"].begun == [([5], [30.0])]
    assert made["ltp"].batches == [[3, 100]] * 4
    assert [batch.size for batch in sent] == [0, 0, 0, 2, 0, 0, 2, 0, 0, 2, 0, 0, 3]
    assert sorted(sent[12]["cookie"].tolist()) == [30, 50, 1000]
    assert dict(zip(sent[12]["cookie"].tolist(), sent[12]["value"][:, 0].tolist(), strict=True)) == {
        30: 20, 1000: 40, 50: 60,
    }  # fmt: skip
    assert arms.batches[LTP].count == 4
    assert (arms.batches[LTP].flows, arms.batches[LTP].controls) == (8, 8)
    assert learned.Batches().seconds == 0.0


@pytest.mark.parametrize("phase", [1, 2, 3])
def test_a_flow_that_joins_others_is_judged_by_whole_intervals(phase: int) -> None:
    """Part of an interval over the length of a whole would be a rate of a third, or of nothing."""
    seen: list[dict[int, float]] = []

    class Watching(Doubling):
        def decide(self, slots: np.ndarray, interval: Interval) -> np.ndarray:
            seen.append(dict(zip(slots.tolist(), interval.delivered_pps.tolist(), strict=True)))
            return super().decide(slots, interval)

    policy = Watching()
    arms = LearnedArms(0.010, lambda _: policy)
    slots = np.array([0, 1])
    for step in range(16):
        made = [record(1, arm=LTP, in_flight=20, snd_cwnd=20, total_delivered=4 * step)]
        joined = LTP if step >= 3 + phase else 1
        made.append(record(2, arm=joined, in_flight=20, snd_cwnd=30 + step, total_delivered=500 + 4 * step))
        arms.step(slots, np.concatenate(made), step * 10 * MS_NS)
    assert [set(batch) for batch in seen] == [{0}, {0}, {0, 1}, {0, 1}, {0, 1}]
    assert all(rate == pytest.approx(400.0) for batch in seen for rate in batch.values())
    # It begins with the window that it has when its first interval does.
    assert policy.begun[-1] == ([1], [36.0])


def test_flows_that_switch_close_or_fall_silent() -> None:
    policy = Doubling()
    arms = LearnedArms(0.010, lambda _: policy)
    slots = np.array([0, 1])

    def step(at_ms: int, first_arm: int, *, present: int = 2) -> np.ndarray:
        records = np.concatenate([record(1, arm=first_arm, in_flight=3), record(2, arm=LTP, in_flight=3)])
        return arms.step(slots[2 - present :], records[2 - present :], at_ms * MS_NS)

    step(0, LTP)
    step(30, LTP)
    step(60, 1)
    assert policy.batches == [[0, 1], [1]]
    # Nothing was heard in this step, but data is in flight: the policy decides on.
    assert arms.step(slots[:0], record(1)[:0], 90 * MS_NS).size == 1
    # Back under the arm, a flow begins anew, and with the interval after it; after a pause all do.
    step(120, LTP)
    step(1500, LTP)
    assert [begun for begun, _ in policy.begun] == [[0, 1], [0], [0], [0, 1]]
    arms.forget(np.array([1]))
    step(1530, LTP, present=0)
    assert policy.batches[-1] == [0]


def test_a_flow_that_is_to_begin_anew_is_forgotten_and_goes_on() -> None:
    policy = Doubling()
    arms = LearnedArms(0.010, lambda _: policy)
    slots = np.array([0, 1])
    records = np.concatenate([record(1, arm=LTP, snd_cwnd=7, in_flight=3), record(2, arm=LTP, in_flight=3)])
    for at_ms in range(0, 100, 10):
        arms.step(slots, records, at_ms * MS_NS)
    decided = len(policy.batches)
    arms.forget(slots[:1])
    for at_ms in range(100, 200, 10):
        arms.step(slots, records, at_ms * MS_NS)
    # It begins anew, and with the interval after it.
    assert policy.begun[1:] == [([0], [7.0])] * 2
    assert {0, 1} == {slot for batch in policy.batches[decided:] for slot in batch}


def test_an_arm_that_cannot_be_loaded_is_left_to_the_kernel(caplog: pytest.LogCaptureFixture) -> None:
    def load(name: str) -> Doubling:
        raise ArtifactError(f"{name}.npz is corrupt")

    arms = LearnedArms(0.010, load)
    for step in range(5):
        assert arms.step(np.array([0]), record(1, arm=JURY, in_flight=3), step * 30 * MS_NS).size == 0
    assert arms.failed == {JURY: "jury.npz is corrupt"}
    assert caplog.text.count("jury.npz is corrupt") == 1
    with pytest.raises(ArtifactError):
        arms.load([1, JURY])


def test_without_weights_an_arm_is_not_available(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first = declarations()["jury"].variants[0]
    untrained = Declaration("jury", "", (dataclasses.replace(first, weights=tmp_path / "jury.npz"),))
    monkeypatch.setattr(learned, "declarations", lambda: {"jury": untrained})
    cubic = ArmInfo(1, "cubic", protocol.ArmState.AVAILABLE, protocol.ArmKind.KERNEL, "")
    jury = ArmInfo(JURY, "jury", protocol.ArmState.AVAILABLE, protocol.ArmKind.LEARNED, "")
    old = dataclasses.replace(jury, state=protocol.ArmState.UNAVAILABLE, reason="not in this kernel")
    found = with_policies([cubic, jury, old], LearnedSection())
    assert found[0] is cubic
    assert not found[1].available
    assert found[1].reason == "no trained weights (jury.npz): `make train-jury`"
    assert found[2] is old


def test_the_step_may_be_as_long_as_the_fastest_arm_allows() -> None:
    made = {"ltp": Doubling(0.030), "spine": Doubling(0.300), "jury": Doubling(0.020)}
    arms = LearnedArms(0.010, made.__getitem__)
    slots = np.arange(3)

    def step(*now: int) -> float:
        records = [record(i + 1, arm=arm, in_flight=3) for i, arm in enumerate(now)]
        arms.step(slots, np.concatenate(records), 1)
        return arms.needed_step_s

    arms.load([SPINE, LTP, JURY])
    assert arms.needed_step_s == float("inf")
    assert step(SPINE, 1, 1) == pytest.approx(0.300)
    assert step(SPINE, LTP, 1) == pytest.approx(0.030)
    assert step(SPINE, LTP, JURY) == pytest.approx(0.020)
    assert step(SPINE, 1, 1) == pytest.approx(0.300)


def test_a_flow_that_stopped_begins_anew_when_it_comes_back() -> None:
    policy = Doubling()
    arms = LearnedArms(0.010, lambda _: policy)
    slots, nothing = np.array([0]), np.zeros(0, np.int64)
    moving, idle = record(1, arm=LTP, in_flight=3), record(1, arm=LTP, in_flight=0)
    for at_ms in range(0, 200, 10):
        arms.step(slots, moving if at_ms < 100 else idle, at_ms * MS_NS)
    for at_ms in range(200, 2000, 100):
        arms.step(nothing, moving[:0], at_ms * MS_NS)
    decided = len(policy.batches)
    for at_ms in range(2000, 2100, 10):
        arms.step(slots, moving, at_ms * MS_NS)
    assert [begun for begun, _ in policy.begun] == [[0], [0]]
    assert len(policy.batches) > decided


@pytest.mark.parametrize("step_ms", [1000, 2000])
def test_long_steps_are_no_pauses(step_ms: int) -> None:
    """Each such step began the flows anew, so that none was ever decided for."""
    policy = Doubling()
    arms = LearnedArms(step_ms / 1000, lambda _: policy)
    slots, moving = np.array([0]), record(1, arm=LTP, in_flight=3)
    for step in range(1, 5):
        arms.step(slots, moving, step * (step_ms + 1) * MS_NS)
    assert policy.batches == [[0]] * 3
    arms.step(slots, moving, 9 * step_ms * MS_NS)
    assert [begun for begun, _ in policy.begun] == [[0], [0]]


def test_the_least_rtt_is_of_the_path_as_the_flow_found_it() -> None:
    """The kernel's minimum still knows the path from before; what is seen under the arm never rises."""
    monitor = Monitor()
    monitor.grow(2)
    slots = np.array([0, 1])

    def close(at_ms: int, *floors_us: int) -> list[float]:
        rows = [
            record(i + 1, arm=LTP, in_flight=5, min_rtt_us=20_000, rtt_floor_us=floor_us)
            for i, floor_us in enumerate(floors_us)
        ]
        if at_ms == 0:
            monitor.begin(slots, np.concatenate(rows), 0)
        monitor.observe(slots, np.concatenate(rows), at_ms * MS_NS)
        return monitor.close((at_ms + 30) * MS_NS)[1].rtt_min_s.tolist()

    assert close(0, 60_000, 0) == pytest.approx([0.060, 0.020])
    assert close(30, 50_000, 35_000) == pytest.approx([0.050, 0.020])
    assert close(60, 70_000, 35_000) == pytest.approx([0.050, 0.020])


def test_many_flows_are_decided_for_in_parts_with_pauses_and_each_as_if_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The real policy's network, over three batches and as one."""
    sent, pauses = [], []
    for most in (1000, 128):
        monkeypatch.setattr(learned, "BATCH_MAX", most)
        arms = LearnedArms(0.030, learned.loader(LearnedSection()))
        arms.breathe = lambda most=most: pauses.append(most)  # type: ignore[misc]
        slots = np.arange(300)
        rng = np.random.default_rng(1)
        for step in range(1, 9):
            records = np.concatenate([record(cookie + 1, arm=LTP, in_flight=4) for cookie in range(300)])
            records["snd_cwnd"] = rng.integers(10, 900, 300)
            records["srtt_us"] = rng.integers(5_000, 90_000, 300)
            records["total_delivered"] = step * rng.integers(100, 900, 300)
            made = arms.step(slots, records, step * 30 * MS_NS)
        sent.append(made)
    assert pauses == [128] * 3 * 7
    assert len(sent[0]) == 300
    assert np.array_equal(sent[0]["cookie"], sent[1]["cookie"])
    # The order in which BLAS adds depends on the shape.
    assert np.abs(sent[0]["value"].astype(int) - sent[1]["value"].astype(int)).max() <= 1
