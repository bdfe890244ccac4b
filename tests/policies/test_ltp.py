# SPDX-License-Identifier: Apache-2.0
"""LTP's signals, actions, reward and arm."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.errors import ArtifactError
from ltp_switcher.policies import ltp
from ltp_switcher.policies.ltp import evaluate, held_out, links, variants
from ltp_switcher.policies.ltp.particles import Ranges
from ltp_switcher.policies.ltp.reward import Weights, performance_reward, probe_reward, unfairness
from ltp_switcher.policies.ltp.signals import (
    ALPHA,
    SLOW_START_GROWTH,
    LargestThroughput,
    LtpSignals,
    path_signals,
)
from ltp_switcher.policies.ltp.task import FLOWS, RANGES, REGIONS, ROSTER, LtpTask
from ltp_switcher.policies.runtime.arm import NetworkArm
from ltp_switcher.policies.runtime.inference import Layer, Network
from ltp_switcher.policies.runtime.measurements import Echo, Interval
from ltp_switcher.policies.simulator import Flows, Paths, Roster, Simulator
from ltp_switcher.policies.simulator.tasks import Environment

SLOTS = np.array([0])


def echo(index: float, delivered: float, rtt_s: float, loss: float) -> Echo:
    return Echo(*(np.array([value]) for value in (index, delivered, delivered, rtt_s, loss)))


def one(value: float) -> np.ndarray:
    return np.array([value])


def interval(**changes: object) -> Interval:
    """One flow in its steady state: 100 packets of window, 1000 packets a second, base RTT 100 ms."""
    steady = Interval(
        index=33, end_s=1.0, length_s=0.03, active=np.array([True]), sent_pkts=one(30.0),
        acked_pkts=one(30.0), lost_pkts=one(0.0), rtt_s=one(0.1), rtt_min_s=one(0.1), window_pkts=one(100.0),
        pacing_pps=one(1000.0), in_flight_pkts=one(100.0), turn_pkts=one(0.0), echo=echo(5, 1000.0, 0.1, 0.0),
        previous_echo=echo(4, 1000.0, 0.1, 0.0),
    )  # fmt: skip
    return replace(steady, **changes)  # type: ignore[arg-type]


def signals(window_pkts: float) -> LtpSignals:
    made = LtpSignals()
    made.begin(SLOTS, one(window_pkts))
    return made


def test_the_five_signals() -> None:
    seen = path_signals(
        echo(5, 800.0, 0.13, 0.1),
        echo(4, 1000.0, 0.12, 0.0),
        rtt_min_s=one(0.1),
        throughput_max_pps=one(1600.0),
    )
    np.testing.assert_allclose(seen.rtt_change_s, 0.01)
    np.testing.assert_allclose(seen.throughput_ratio, 0.8)
    np.testing.assert_allclose(seen.kept_ratio, 0.9)
    np.testing.assert_allclose(seen.throughput, 0.5)
    np.testing.assert_allclose(seen.rtt_s, 0.03)


def test_without_echoes_nothing_is_seen() -> None:
    nothing = echo(-1, np.nan, np.nan, np.nan)
    observed = signals(10.0).observe(
        SLOTS, interval(echo=nothing, previous_echo=nothing, rtt_min_s=one(np.inf))
    )
    np.testing.assert_allclose(observed, [[0.0, 0.0, 0.0, 1.0, 0.0]])


@given(st.floats(-1.0, 1.0), st.floats(100.0, 1e5))
def test_eq_8_and_its_inverse(action: float, window_pkts: float) -> None:
    made = signals(window_pkts)
    seen = interval(window_pkts=one(window_pkts), in_flight_pkts=one(window_pkts))
    there = made.control(SLOTS, seen, np.array([[action]], np.float32))[0, 0]
    change = 1 + ALPHA * abs(action)
    np.testing.assert_allclose(
        there, window_pkts * change if action >= 0 else window_pkts / change, rtol=1e-6
    )
    back = made.control(SLOTS, replace(seen, window_pkts=one(there)), np.array([[-action]], np.float32))
    np.testing.assert_allclose(back[0, 0], window_pkts, rtol=1e-6)


def test_a_new_flow_starts_slowly_until_it_meets_a_queue() -> None:
    made, up = signals(10.0), np.ones((1, 1), np.float32)
    windows = [10.0]
    for _ in range(10):
        seen = interval(window_pkts=one(windows[-1]), in_flight_pkts=one(windows[-1]), length_s=0.02)
        windows.append(made.control(SLOTS, seen, up)[0, 0])
    np.testing.assert_allclose(windows[5], 10.0 * SLOW_START_GROWTH)
    np.testing.assert_allclose(windows[10], 10.0 * SLOW_START_GROWTH**2)
    # The queue is met at 1000 packets a second and 100 ms: what the path carried without it is 100 packets.
    big = replace(interval(), window_pkts=one(400.0), in_flight_pkts=one(400.0))
    made = signals(10.0)
    made._window_pkts[0] = 400.0
    after = made.control(SLOTS, replace(big, rtt_s=one(0.13)), up)[0, 0]
    np.testing.assert_allclose(after, 100.0 * (1 + ALPHA))


def heard(acked_pkts: float, window_pkts: float = 60.0, rtt_s: float = 0.061) -> Interval:
    """Half a round trip of a flow on a path of 60 ms."""
    window = one(window_pkts)
    return interval(
        window_pkts=window, in_flight_pkts=window, length_s=one(0.03), acked_pkts=one(acked_pkts),
        rtt_min_s=one(0.06), rtt_s=one(rtt_s),
    )  # fmt: skip


def test_a_silence_that_ends_slow_start_leaves_the_window_that_the_path_has_carried() -> None:
    """The path carries 60 packets in 60 ms. A silence raises the RTT, and one interval has hardly an ACK."""
    made, up = signals(60.0), np.zeros((1, 1), np.float32)
    for _ in range(3):
        made.control(SLOTS, heard(30.0), up)
    made._window_pkts[0] = 75.0
    np.testing.assert_allclose(made.control(SLOTS, heard(6.0, 75.0, rtt_s=0.1), up)[0, 0], 60.0)


def test_a_burst_of_held_acks_is_no_rate_that_the_path_carries() -> None:
    made, up = signals(60.0), np.zeros((1, 1), np.float32)
    for acked_pkts in (30.0, 0.0, 60.0):
        made.control(SLOTS, heard(acked_pkts), up)
    made._window_pkts[0] = 200.0
    np.testing.assert_allclose(made.control(SLOTS, heard(30.0, 200.0, rtt_s=0.1), up)[0, 0], 90.0)


def test_slow_start_leaves_the_packets_of_a_turn_in_the_window() -> None:
    """ACKs wait for their turn, so the RTT is three times the floor without a queue. The path carries two
    packets in 2 ms, and a turn brings ten more.
    """
    seen = interval(
        window_pkts=one(20.0), in_flight_pkts=one(20.0), rtt_min_s=one(0.002), rtt_s=one(0.008),
        turn_pkts=one(10.0),
    )  # fmt: skip
    waits = signals(20.0).control(SLOTS, seen, np.zeros((1, 1), np.float32))
    np.testing.assert_allclose(waits[0, 0], 12.0)
    queues = signals(20.0).control(SLOTS, replace(seen, turn_pkts=one(0.0)), np.zeros((1, 1), np.float32))
    np.testing.assert_allclose(queues[0, 0], 2.0)


def test_slow_start_ends_at_losses_in_numbers_but_not_at_one() -> None:
    for lost, grows in ((1.0, True), (20.0, False)):
        made = signals(10.0)
        seen = interval(lost_pkts=one(lost), window_pkts=one(10.0), in_flight_pkts=one(10.0))
        window_pkts = made.control(SLOTS, seen, np.zeros((1, 1), np.float32))[0, 0]
        assert bool(window_pkts > 10.0) is grows


def test_a_loss_that_stays_shrinks_the_window_and_one_that_is_over_does_not() -> None:
    made, up = signals(100.0), np.ones((1, 1), np.float32)
    lossy, window_pkts = interval(lost_pkts=one(3.0)), 100.0
    for _ in range(20):
        before = window_pkts
        window_pkts = made.control(SLOTS, replace(lossy, window_pkts=one(before)), up)[0, 0]
    assert window_pkts < before
    assert made.control(SLOTS, interval(window_pkts=one(window_pkts)), up)[0, 0] > window_pkts


def test_a_window_that_is_not_used_does_not_grow() -> None:
    made = signals(100.0)
    idle = interval(in_flight_pkts=one(10.0))
    assert made.control(SLOTS, idle, np.ones((1, 1), np.float32))[0, 0] == 100.0
    assert made.control(SLOTS, idle, -np.ones((1, 1), np.float32))[0, 0] < 100.0


def test_a_window_of_two_packets_is_left_again() -> None:
    """The kernel tells what is in flight at an ACK, before it answers it: of two packets none."""
    made, up, window = signals(100.0), np.ones((1, 1), np.float32), 2.0
    made.displace(SLOTS, one(window))
    for _ in range(60):
        seen = interval(window_pkts=one(window), in_flight_pkts=one(max(0.0, np.floor(window) - 2.0)))
        window = float(made.control(SLOTS, seen, up)[0, 0])
    assert window == pytest.approx(2.0 * (1.0 + ALPHA) ** 60)


def test_an_echo_counts_once_for_the_largest_throughput() -> None:
    """A flow that hears nothing new looks at its last echo again at every interval."""
    largest = LargestThroughput()
    largest.reset(SLOTS)
    largest.update(SLOTS, echo(1.0, 1000.0, 0.03, 0.0))
    once = largest.update(SLOTS, echo(2.0, 1150.0, 0.03, 0.0))
    assert once == pytest.approx(1037.5)
    for _ in range(7):
        assert largest.update(SLOTS, echo(2.0, 1150.0, 0.03, 0.0)) == once


def test_a_flow_that_has_siblings_now_has_a_part_of_its_largest_throughput() -> None:
    """Four flows had 1000 each; with a fifth, 800 is theirs. Old echoes do not raise it, later ones do."""
    largest = LargestThroughput()
    largest.reset(SLOTS)
    largest.crowd(SLOTS, one(4.0), 0)
    assert largest.update(SLOTS, echo(20.0, 1000.0, 0.03, 0.0)) == 1000.0
    largest.crowd(SLOTS, one(5.0), 21)
    assert largest.update(SLOTS, echo(21.0, 1000.0, 0.03, 0.0)) == 800.0
    largest.crowd(SLOTS, one(5.0), 22)
    assert largest.update(SLOTS, echo(30.0, 1000.0, 0.03, 0.0)) == 800.0
    largest.crowd(SLOTS, one(3.0), 32)
    assert largest.update(SLOTS, echo(32.0, 1000.0, 0.03, 0.0)) == 1000.0


def test_the_kernels_window_counts_where_it_is_much_smaller() -> None:
    made = signals(100.0)
    collapsed = interval(window_pkts=one(10.0), in_flight_pkts=one(10.0))
    assert made.control(SLOTS, collapsed, np.zeros((1, 1), np.float32))[0, 0] == 12.5


def test_the_probe_reward_is_eq_9_to_11() -> None:
    weights = Weights(offset=1.0)
    ranges = Ranges(
        np.array([[0.5, 1.0], [np.nan, np.nan]]), np.array([[0.2, 0.2]] * 2), np.array([[0.01, 0.03]] * 2)
    )
    expected = 1.0 - 10.0 * 0.02 - 0.2 * np.log(2.0)
    np.testing.assert_allclose(probe_reward(ranges, weights), [expected, 0.0])


def test_the_performance_reward_is_eq_12_and_13() -> None:
    def reward(use: float, loss: float, ratio: float, uneven: float) -> float:
        return float(performance_reward(one(use), one(loss), one(ratio), one(uneven), Weights())[0])

    assert reward(0.9, 0.0, 1.1, 0.0) == pytest.approx(0.9)
    assert reward(0.9, 0.01, 1.0, 0.0) == pytest.approx(0.85)
    assert reward(1.0, 0.0, 2.0, 0.0) == pytest.approx(0.5)
    assert reward(1.0, 0.0, 1.0, 0.3) == pytest.approx(0.7)  # unfairness costs


@given(st.lists(st.floats(0.0, 1e4), min_size=1, max_size=6), st.floats(0.1, 10.0))
def test_unfairness_is_0_among_equals_and_has_no_unit(rates: list[float], unit: float) -> None:
    column, present = np.array(rates)[:, None], np.ones((len(rates), 1), np.bool_)
    found = unfairness(column, present)
    assert 0.0 <= found[0] <= 0.5 + 1e-9
    if sum(rates) > 1.0:
        np.testing.assert_allclose(unfairness(unit * column, present), found, atol=1e-6)
    np.testing.assert_allclose(unfairness(np.full_like(column, 7.0), present), 0.0, atol=1e-12)


def test_absent_flows_do_not_count_for_fairness() -> None:
    present = np.array([[True], [True], [False]])
    np.testing.assert_allclose(unfairness(np.array([[3.0], [1.0], [9.0]]), present), [1.0 / 4.0])


def test_critics_see_the_ranges_that_the_probe_reward_is_of() -> None:
    task, weights = LtpTask(LtpSignals(), ROSTER.window, particles=20), Weights()
    region = replace(REGIONS["small"], flows=FLOWS)
    environment = Environment(task, region, ROSTER, environments=3, duration_s=1.5)
    seen = environment.reset(1)
    known = 0
    while not seen.over:
        seen = environment.step(np.zeros((environment.slots, 1), np.float32))
        low = seen.observations[:, -RANGES::2].astype(np.float64)
        high = seen.observations[:, 1 - RANGES :: 2].astype(np.float64)
        width = high - low
        at = seen.active & width.any(axis=1)
        probe = (
            weights.offset
            - weights.rate * width[:, 0]
            - weights.others * width[:, 1]
            - weights.delay * width[:, 2] / 20.0
        )
        rest = task.performance.reshape(-1)
        np.testing.assert_allclose(
            seen.rewards[at], (rest + weights.estimation * probe)[at], rtol=1e-4, atol=1e-5
        )
        known += np.count_nonzero(at)
    assert known > 20


def test_beside_cubic_training_gives_flows_about_their_share_back() -> None:
    task = LtpTask(LtpSignals(), 1, particles=0)
    region = replace(REGIONS["small"], flows=(2, 2), cubic_share=1.0, start_within=0.01)
    environment = Environment(task, region, Roster(window=1, cubic=1), environments=4, duration_s=9.0)
    seen, down = environment.reset(1), np.full((4, 1), -1.0, np.float32)
    largest = np.zeros(4)
    while not seen.over:
        seen = environment.step(down)
        if task.simulator.now_s > 3.0:
            largest = np.maximum(largest, task.simulator.window.window[0] / task.bdp_pkts)
    # Three seconds of "down" leave less than a tenth of any window.
    assert (largest > 0.2).sum() >= 3


def still() -> Network:
    """A network that leaves windows as they are."""
    weights = {"0.weight": np.zeros((1, LtpSignals.observation_size)), "0.bias": np.zeros(1)}
    return Network((Layer("dense", 1, "tanh"),), weights)


def test_slow_start_alone_fills_a_link() -> None:
    arm = NetworkArm(LtpSignals(), still())
    (found,) = links.run(arm, [links.Link("one")], seed=1, duration_s=4.0)
    assert found.utilisation > 0.75
    assert found.rtt_ratio < 1.3


def test_every_link_is_judged_over_a_hundred_round_trips() -> None:
    # Over 30 s, a satellite's start alone decides how much of it is used.
    for together, duration_s in links.RUNS:
        for link in together:
            assert duration_s >= 100 * link.rtt_ms / 1e3, link.name


def test_repeats_of_a_link_are_averaged() -> None:
    alone = links.LinkSummary(utilisation=0.8, rtt_ratio=1.0, loss=0.02, ratio_to_cubic=None)
    beside = links.LinkSummary(utilisation=0.4, rtt_ratio=2.0, loss=0.0, ratio_to_cubic=0.5)
    more = links.LinkSummary(utilisation=0.6, rtt_ratio=1.0, loss=0.1, ratio_to_cubic=1.0)
    assert links.LinkSummary.mean([alone, alone]) == alone
    found = links.LinkSummary.mean([beside, more])
    assert (found.utilisation, found.rtt_ratio, found.loss, found.ratio_to_cubic) == (0.5, 1.5, 0.05, 0.75)


def test_policies_are_judged_on_the_same_paths() -> None:
    policy = held_out.Policy("ltp", variants.VARIANTS["ltp"], still())
    original = held_out.DURATION_S
    held_out.DURATION_S = 0.6  # type: ignore[misc]
    try:
        first, second = (held_out.judge(policy, "small", particles=10) for _ in range(2))
    finally:
        held_out.DURATION_S = original  # type: ignore[misc]
    assert first == second
    assert first.reward <= 1.0
    kinds = (first.alone, first.among_themselves, first.beside_cubic)
    assert min(kinds) < first.reward < max(kinds)


def test_the_arm_is_the_committed_one() -> None:
    weights = ltp.ARM.variants[0].weights
    if weights is None or not weights.exists():
        with pytest.raises(ArtifactError, match="make train-ltp"):
            ltp.make_arm()
        return
    arm = ltp.make_arm()
    simulator = Simulator(Paths.uniform(2), Flows.forever(1, 2), Roster(window=1), seed=1)
    slots = np.arange(2)
    arm.begin(slots, np.full(2, 10.0))
    for _ in range(60):
        wanted = arm.decide(slots, simulator.step().flat(1))
        assert wanted.shape == (2, 1)
        simulator.set_window(wanted.T)
    assert simulator.window.window.min() > 100.0


class Counting:
    """A network that leaves windows as they are; its state counts its steps."""

    steps = np.zeros(0)

    def initial_state(self, n: int) -> np.ndarray:
        return np.zeros((n, 1), np.float32)

    def step(self, state: np.ndarray, inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        self.steps = state[:, 0] + 1.0
        return state + 1.0, 0.0 * state


def test_the_second_flow_of_a_pair_is_new_to_the_arm_when_it_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Counting()
    monkeypatch.setattr(evaluate, "_arm", lambda _: NetworkArm(LtpSignals(), network))
    monkeypatch.setattr(evaluate, "_TRACE_S", 5.4)
    evaluate.traces(Path())
    first, second = network.steps.reshape(2, -1)
    assert (first == 180).all()
    assert (second == 14).all()  # from the interval that ends at 5.01 s on


@pytest.mark.parametrize("command", ["links", "estimators", "paths"])
def test_evaluation_says_which_weights_are_missing(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = str(tmp_path / "none.npz")
    arguments = [command, missing] if command == "paths" else [command, "--weights", missing]
    assert evaluate.main(arguments) == 1
    assert missing in capsys.readouterr().err
