# SPDX-License-Identifier: Apache-2.0
"""Owl's features, actions and utility, and its learning problem in the simulator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.policies.owl.arm import OwlArm
from ltp_switcher.policies.owl.cellular import held_out_traces, training_trace
from ltp_switcher.policies.owl.reward import OWL, OWL_LOSS, Utility, equilibrium
from ltp_switcher.policies.owl.signals import ACTIONS, FEATURES, HISTORY, MASKED, OwlSignals
from ltp_switcher.policies.owl.task import OwlTask, SimulatedAgent
from ltp_switcher.policies.runtime.inference import Layer, Network
from ltp_switcher.policies.runtime.measurements import Echo, Interval
from ltp_switcher.policies.runtime.path_knowledge import NetworkKnowledge
from ltp_switcher.policies.simulator.delivery_traces import section, traces_folder
from ltp_switcher.policies.simulator.paths import Flows, Paths
from ltp_switcher.policies.simulator.regions import OWL as REGION
from ltp_switcher.policies.simulator.regions import draw
from ltp_switcher.policies.simulator.simulator import Roster, Simulator
from ltp_switcher.policies.simulator.tasks import Environment

ROW = np.arange(1)


def interval(*, number: int = 1, acked: float = 30.0, lost: float = 0.0, rtt_s: float = 0.05) -> Interval:
    one = np.ones(1)
    echo = Echo(-one, *(np.full(1, np.nan) for _ in range(4)))
    return Interval(
        index=number,
        end_s=0.03 * number,
        length_s=0.03,
        active=one > 0,
        sent_pkts=(acked + lost) * one,
        acked_pkts=acked * one,
        lost_pkts=lost * one,
        rtt_s=rtt_s * one,
        rtt_min_s=(min(rtt_s, 0.05) if rtt_s else np.inf) * one,
        window_pkts=50.0 * one,
        pacing_pps=1000.0 * one,
        in_flight_pkts=50.0 * one,
        turn_pkts=0.0 * one,
        echo=echo,
        previous_echo=echo,
    )


def signals(window_pkts: float = 50.0, *, slow_start: bool = False) -> OwlSignals:
    made = OwlSignals(slow_start=slow_start)
    made.begin(ROW, np.array([window_pkts]))
    return made


def q_values(action: int) -> np.ndarray:
    values = np.zeros((1, len(ACTIONS)), np.float32)
    values[0, action] = 1.0
    return values


def feature(observation: np.ndarray, name: str, age: int = 0) -> float:
    return float(observation.reshape(HISTORY, len(FEATURES))[HISTORY - 1 - age, FEATURES.index(name)])


def test_history_holds_the_last_five_intervals_and_starts_masked() -> None:
    owl = signals()
    owl.observe(ROW, interval(rtt_s=0.05))
    seen = owl.observe(ROW, interval(number=2, rtt_s=0.1))
    assert seen.shape == (1, owl.observation_size)
    assert feature(seen, "rtt") == pytest.approx(np.log(2.0))
    assert feature(seen, "rtt", age=1) == 0.0
    assert feature(seen, "rtt_variation") == 2.0
    assert feature(seen, "pnc", age=4) == feature(seen, "pna", age=4) == MASKED


def test_the_network_is_seen_where_it_is_known_and_masked_where_not() -> None:
    owl = signals()
    owl.hear(ROW, np.array(1000.0), np.array(0.25), np.array(0.2))
    seen = owl.observe(ROW, interval(acked=30.0))
    assert feature(seen, "pnc") == pytest.approx(np.sqrt(0.5))
    assert (feature(seen, "pna"), feature(seen, "known")) == pytest.approx((0.25, 0.2))
    owl.hear(ROW, *(np.array(np.nan),) * 3)
    seen = owl.observe(ROW, interval(number=2))
    assert (feature(seen, "pnc"), feature(seen, "pna"), feature(seen, "known")) == (MASKED, MASKED, 0.0)


def test_a_flow_that_has_heard_nothing_has_finite_features() -> None:
    seen = signals().observe(ROW, interval(acked=0.0, rtt_s=0.0))
    assert np.isfinite(seen).all()


@given(action=st.integers(0, 6), window=st.floats(2.0, 1e5))
def test_windows_move_by_the_action_within_half_and_double(action: int, window: float) -> None:
    owl = signals(window)
    seen = replace(interval(), in_flight_pkts=np.array([window]))
    after = owl.control(ROW, seen, q_values(action))[0, 0]
    assert after == pytest.approx(np.clip(window + ACTIONS[action], max(2.0, window / 2), 2 * window))


def test_a_window_of_two_packets_is_left_again() -> None:
    """The kernel tells what is in flight at an ACK, before it answers it: of two packets none."""
    made, window = signals(2.0), 2.0
    for _ in range(20):
        seen = replace(interval(), in_flight_pkts=np.array([max(0.0, window - 2.0)]))
        window = float(made.control(ROW, seen, q_values(4))[0, 0])
    assert window == 22.0


def test_a_window_that_is_not_used_does_not_grow() -> None:
    owl = signals(200.0)
    assert owl.control(ROW, interval(), q_values(6))[0, 0] == 200.0
    assert owl.control(ROW, interval(), q_values(0))[0, 0] == 190.0


def test_a_window_does_not_grow_where_a_third_is_lost() -> None:
    owl = signals(50.0)
    assert owl.control(ROW, interval(acked=20.0, lost=10.0), q_values(6))[0, 0] == 50.0
    assert owl.control(ROW, interval(acked=25.0, lost=10.0), q_values(6))[0, 0] == 60.0


def test_behind_a_long_queue_a_window_shrinks() -> None:
    owl = signals(50.0)
    assert owl.control(ROW, interval(rtt_s=0.12), q_values(6))[0, 0] == 60.0
    assert owl.control(ROW, interval(rtt_s=0.13), q_values(6))[0, 0] == 50.0


def test_slow_start_doubles_until_the_rtt_rises_and_is_for_small_windows() -> None:
    owl = signals(20.0, slow_start=True)
    owl.observe(ROW, interval(acked=20.0))
    assert owl.control(ROW, interval(acked=20.0), q_values(0))[0, 0] == 40.0
    owl.observe(ROW, interval(number=2, rtt_s=0.06))
    assert owl.control(ROW, interval(number=2), q_values(0))[0, 0] == 30.0
    large = signals(100.0, slow_start=True)
    large.observe(ROW, interval())
    assert (
        large.control(ROW, replace(interval(), in_flight_pkts=np.array([100.0])), q_values(4))[0, 0] == 101.0
    )


def test_utility_is_equation_7() -> None:
    one = np.ones(1)
    value = Utility(delta=0.4, beta=0.3, scale=1.0)(0.9 * one, 0.8 * one, 0.1 * one, 0.06 * one, 0.03 * one)
    assert value == pytest.approx(0.8 - 0.4 * 0.8 / 0.9 - 0.3 * np.log(2.0))
    assert OWL.delta == OWL.beta == 0.5
    assert OWL_LOSS.beta == 0.0
    # δ = 0.7 (§VII-D); by the rate of sending, and without loss 0.3 of a λ of 4.5.
    assert OWL_LOSS(0.8 * one, 0.5 * one, 0.0 * one, 0.06 * one, 0.03 * one) == pytest.approx(0.3 * 4.5 * 0.8)
    assert OWL_LOSS(one, one, 0.5 * one, one, one) == pytest.approx(4.5 * (1.0 - 0.7 / 0.5))


@pytest.mark.parametrize(("share", "pays"), [(0.6, True), (0.8, True), (0.86, False), (0.95, False)])
def test_a_larger_share_of_a_full_link_pays_up_to_five_sixths(share: float, pays: bool) -> None:
    """λ counts six times the share, so U = 6 (1 - δ) share - β log(RTT), with δ = β = 0.5."""
    others = 1.0 - share

    def utility(window: float) -> float:
        total = np.array([window + others])
        rate = window / total
        return float(OWL(rate, rate, 0.0 * rate, 3.0 * total, np.ones(1))[0])

    assert (utility(share * 1.001) > utility(share)) is pays
    one = np.ones(1)
    assert OWL(one, one, 0.0 * one, 2.0 * one, one) == pytest.approx(3.0 - 0.5 * np.log(2.0))


@given(st.lists(st.floats(0.3, 0.9), min_size=2, max_size=4))
def test_equation_9_is_where_no_sender_gains_by_another_rate(deltas: list[float]) -> None:
    capacity = 100.0
    rates = equilibrium(capacity, deltas)
    for own, delta in enumerate(deltas):
        others = rates.sum() - rates[own]

        def utility(rate: float, others: float = others, delta: float = delta) -> float:
            return rate - delta * rate * (rate + others) / capacity

        best = utility(rates[own])
        assert all(utility(rates[own] * factor) <= best + 1e-9 for factor in (0.9, 0.99, 1.01, 1.1))


def test_equation_9_of_the_papers_experiment() -> None:
    assert equilibrium(100.0, [0.7, 0.7]) == pytest.approx(100 / 2.1)
    assert equilibrium(100.0, [0.7] * 3) == pytest.approx(100 / 2.8)


def test_a_section_of_a_trace_is_a_trace_of_its_own() -> None:
    trace = np.arange(1, 1001, dtype=np.uint32)
    np.testing.assert_array_equal(section(trace, 500, 1000), np.arange(1, 501))


def test_recorded_traces_are_found_from_anywhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LTP_TRACES", raising=False)
    monkeypatch.delenv("LTP_CACHE", raising=False)
    monkeypatch.chdir(tmp_path)
    checkout = Path(__file__).resolve().parents[2]
    assert traces_folder() == checkout / ".cache" / "traces"


def test_training_needs_no_recorded_trace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    trace = training_trace()
    (tmp_path / "other.down").write_text("".join(f"{ms}\n" for ms in range(1, 3000)))
    monkeypatch.setenv("LTP_TRACES", str(tmp_path))
    assert "other.down" in held_out_traces()
    assert np.array_equal(training_trace(), trace)


def test_links_are_of_table_ii_and_some_play_traces() -> None:
    trace = np.arange(1, 1001)
    region = replace(REGION, traces=(trace,), trace_share=0.5)
    paths, _ = draw(region, Roster(window=2, cubic=1), 400, 10.0, np.random.default_rng(1))
    traced = paths.trace >= 0
    assert 0.4 < traced.mean() < 0.6
    np.testing.assert_allclose(paths.rate_mbps[traced], 12.0)
    assert (paths.rate_mbps[~traced].min() >= 6) & (paths.rate_mbps.max() <= 100)
    assert (paths.buffer_pkts.min() >= 3) & (paths.buffer_pkts.max() <= 2000)


def test_the_simulated_agent_tells_the_bottlenecks_truth_each_second() -> None:
    paths = Paths.uniform(2, rate_mbps=12.0, rtt_ms=20.0)
    flows = Flows(np.zeros((1, 2)), np.full((1, 2), np.inf), np.full((1, 2), np.nan), np.array([[24.0, 6.0]]))
    simulator = Simulator(paths, flows, Roster(fixed=1), seed=1)
    agent = SimulatedAgent.at_bottleneck(2, np.random.default_rng(1))
    for _ in range(100):
        agent.observe(simulator.step(), simulator.bottleneck.departed)
        if simulator.now_s < 0.9:
            assert np.isnan(agent.known).all()
    assert agent.pnc_pkts == pytest.approx([1000.0, 0.0], rel=0.01, abs=0.1)
    assert agent.pna == pytest.approx([0.0, 0.5], abs=0.01)


def test_random_choices_earn_finite_utility_in_the_training_environment() -> None:
    environment = Environment(OwlTask(2, OWL), REGION, Roster(2, cubic=1), environments=4, duration_s=1.5)
    rng = np.random.default_rng(1)
    seen = environment.reset(3)
    while not seen.over:
        seen = environment.step(rng.integers(0, len(ACTIONS), environment.slots))
        assert np.isfinite(seen.observations).all()
        assert np.isfinite(seen.rewards[seen.active]).all()
    again = environment.reset(3)
    assert again.observations.shape == (environment.slots, HISTORY * len(FEATURES))


def test_the_arm_takes_the_best_action_and_what_is_known_of_the_network() -> None:
    weight = np.zeros((len(ACTIONS), HISTORY * len(FEATURES)), np.float32)
    # The more spare capacity, the better +10; without knowledge, -10.
    weight[6, (HISTORY - 1) * len(FEATURES) + FEATURES.index("pna")] = 1.0
    layers = (Layer("dense", len(ACTIONS)),)
    bias = np.array([-0.1, -1, -1, -1, -1, -1, 0], np.float32)
    arm = OwlArm(OwlSignals(), Network(layers, {"0.weight": weight, "0.bias": bias}))
    arm.begin(ROW, np.array([50.0]))
    assert arm.decide(ROW, interval())[0, 0] == 40.0
    arm.network_knowledge = NetworkKnowledge(pnc_pkts=0.0, pna=0.5, known=0.2)
    assert arm.decide(ROW, interval(number=2))[0, 0] == 50.0
