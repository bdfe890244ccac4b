# SPDX-License-Identifier: Apache-2.0
"""Phases: many flows of an arm are decided for in turns, few together, and one alone as ever."""

from __future__ import annotations

import numpy as np
import pytest
from support.records import record

from ltp_switcher.daemon.datapath import protocol
from ltp_switcher.daemon.steer.arms import LearnedArms
from ltp_switcher.daemon.steer.phases import Deal, phases_of
from ltp_switcher.policies.runtime.arm import Law
from ltp_switcher.policies.runtime.measurements import Interval

MS_NS = 1_000_000
LTP = int(protocol.ArmId.LTP)
PPS = 400.0


class Watching:
    """An arm that keeps windows, and remembers for each flow when it was asked, and with which rates."""

    law = Law.WINDOW
    interval_s = 0.030

    def __init__(self) -> None:
        self.asked: list[tuple[float, list[int]]] = []
        self.rates: dict[int, list[float]] = {}
        self.lengths_s: list[float] = []
        self.begun: list[int] = []

    def begin(self, slots: np.ndarray, window_pkts: np.ndarray) -> None:
        self.begun += slots.tolist()

    def decide(self, slots: np.ndarray, interval: Interval) -> np.ndarray:
        self.asked.append((round(interval.end_s * 1e3, 6), slots.tolist()))
        self.lengths_s.append(interval.length_s)
        for slot, rate in zip(slots.tolist(), interval.delivered_pps.tolist(), strict=True):
            self.rates.setdefault(slot, []).append(rate)
        return np.full((slots.size, 1), 10.0)

    def times_ms(self, slot: int) -> list[float]:
        """When a flow was decided for."""
        return [at_ms for at_ms, slots in self.asked if slot in slots]


def flows_at(slots: np.ndarray, at_ms: float) -> np.ndarray:
    """Records of flows under LTP that get `PPS` packets a second."""
    made = np.concatenate([record(slot + 1, arm=LTP, snd_cwnd=20, in_flight=20) for slot in slots.tolist()])
    made["total_delivered"] = at_ms * PPS / 1e3
    return made


def run(policy: Watching, flows: dict[float, int], *, step_s: float = 0.010) -> LearnedArms:
    """Steps at these times in ms, each with so many flows."""
    arms = LearnedArms(step_s, lambda _: policy)
    known: dict[int, np.ndarray] = {}
    for at_ms, count in flows.items():
        slots = known.setdefault(count, np.arange(count))
        arms.step(slots, flows_at(slots, at_ms), int(at_ms * MS_NS))
    return arms


def test_each_step_decides_for_a_third_of_many_flows_and_for_each_every_interval() -> None:
    policy = Watching()
    run(policy, {10.0 * step: 300 for step in range(31)})
    later = [(at_ms, slots) for at_ms, slots in policy.asked if at_ms > 60]
    assert [at_ms for at_ms, _ in later] == [10.0 * step for step in range(7, 31)]
    assert max(len(slots) for _, slots in later) <= 105
    for slot in range(300):
        times_ms = policy.times_ms(slot)
        assert times_ms[0] <= 60
        assert set(np.diff(times_ms)) == {30.0}
        assert policy.rates[slot] == pytest.approx([PPS] * len(times_ms))
    assert policy.begun[:300] == list(range(300))


@pytest.mark.parametrize("count", [1, 60])
def test_few_flows_are_decided_for_together_at_the_same_times_as_ever(count: int) -> None:
    """A flow alone: an interval after it came, then every interval; a late step makes one longer."""
    policy = Watching()
    times_ms = [0.0, 10, 20, 30, 40, 51, 61, 70, 80, 93, 103, 140, 150, 160, 171, 180, 190, 200]
    run(policy, dict.fromkeys(times_ms, count))
    assert policy.asked == [(at_ms, list(range(count))) for at_ms in (30.0, 61.0, 93.0, 140.0, 171.0, 200.0)]
    assert policy.lengths_s == pytest.approx([0.030, 0.031, 0.032, 0.047, 0.031, 0.029])


def test_after_a_pause_the_phases_part_again() -> None:
    policy = Watching()
    late = [10.0 * step for step in range(10)] + [145.0 + 10 * step for step in range(30)]
    run(policy, dict.fromkeys(late, 300))
    later = [len(slots) for at_ms, slots in policy.asked if at_ms > 240]
    assert len(later) >= 18
    assert max(later) <= 120
    # None was asked about less than an interval, but for what a step is off.
    for slot in range(300):
        assert min(np.diff(policy.times_ms(slot))) >= 25.0
        assert policy.rates[slot] == pytest.approx([PPS] * len(policy.times_ms(slot)))


def test_flows_of_a_path_are_decided_for_in_the_same_step() -> None:
    policy = Watching()
    arms = LearnedArms(
        0.010, lambda _: policy, paths=lambda slots: [f"path {slot % 200}" for slot in slots.tolist()]
    )
    for step in range(31):
        # The last ones come when the others are there.
        slots = np.arange(400) if step > 10 else np.arange(200)
        arms.step(slots, flows_at(slots, 10.0 * step), step * 10 * MS_NS)
    steps = [slots for at_ms, slots in policy.asked if at_ms > 180]
    assert len(steps) >= 10
    assert max(map(len, steps)) < 200
    for slots in steps:
        paths = {slot % 200 for slot in slots}
        assert sorted(slots) == [slot for slot in range(400) if slot % 200 in paths]


def test_a_flow_that_comes_to_a_phase_gets_whole_intervals_only() -> None:
    policy = Watching()
    counts = {10.0 * step: 150 + step for step in range(60)}
    run(policy, counts)
    for slot in range(209):
        assert policy.rates.get(slot, []) == pytest.approx([PPS] * len(policy.times_ms(slot)))
    assert len([slot for slot in range(150, 209) if slot in policy.rates]) > 50


def test_a_steps_length_makes_the_phases() -> None:
    assert [phases_of(0.030, step_s) for step_s in (0.010, 0.030, 0.050, 0.015)] == [3, 1, 1, 2]
    assert phases_of(0.300, 0.010) == 8
    policy = Watching()
    run(policy, {30.0 * step: 300 for step in range(5)}, step_s=0.030)
    assert policy.asked == [(30.0 * step, list(range(300))) for step in range(1, 5)]


def test_a_deal_fills_one_phase_first_and_follows_the_flows_that_leave() -> None:
    deal = Deal()
    assert set(deal.deal(range(64), range(64), 3).tolist()) == {0}
    assert deal.deal([64, 65], ["a", "a"], 3).tolist() == [1, 1]
    deal.deal(range(100, 400), range(100, 400), 3)
    assert max(deal.flows) - min(deal.flows[:3]) <= 1
    assert deal.flows[3:] == [0] * 5
    assert deal.deal([500], ["a"], 3).tolist() == [1]
    deal.leave([64, 65])
    assert deal.deal([64], ["a"], 3).tolist() == [1]
    deal.leave([64, 500, *range(64), *range(100, 400)])
    assert deal.flows == [0] * 8
    # Nothing is left of a path whose flows are gone.
    assert deal.deal([7], ["a"], 3).tolist() == [0]
