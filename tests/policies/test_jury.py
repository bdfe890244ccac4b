# SPDX-License-Identifier: Apache-2.0
"""Jury: occupancy by Eq. 5, reward by Eq. 9, signals that hide the bandwidth, actions by Eq. 6 and 7."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.jury_intervals import echo, interval

from ltp_switcher.arrays import Floats
from ltp_switcher.errors import ArtifactError
from ltp_switcher.policies.jury import ARM, evaluate, make_arm
from ltp_switcher.policies.jury.occupancy import PRIOR, Occupancy
from ltp_switcher.policies.jury.reward import reward
from ltp_switcher.policies.jury.signals import (
    ALPHA,
    BOUND,
    HISTORY,
    INTERVAL_S,
    RADIUS_MIN,
    WINDOW_LIMITS,
    JurySignals,
)
from ltp_switcher.policies.jury.task import TRUTHS, JuryTask
from ltp_switcher.policies.simulator import Roster
from ltp_switcher.policies.simulator.paths import Paths
from ltp_switcher.policies.simulator.regions import JURY
from ltp_switcher.policies.simulator.tasks import Environment

FLOWS = np.arange(3)
RATES = np.array([500.0, 2000.0, 8000.0])


def rival_shares(shares: Floats, seed: int, *, together: float) -> Floats:
    """Estimates after 2500 intervals in which flows of these shares probe, and move `together` besides."""
    rng = np.random.default_rng(seed)
    occupancy = Occupancy()
    slots = np.arange(shares.size)
    occupancy.reset(slots)
    before = echo(0, shares * 1e4)
    estimates = []
    for index in range(1, 2501):
        probe = rng.choice([-1.0, 1.0], shares.size)
        moved = shares * (1.0 + ALPHA * probe) * (1.0 + together * rng.uniform(-1.0, 1.0))
        last = echo(index, moved * 1e4, delivered_pps=moved / moved.sum() * 1e4)
        occupancy.update(slots, last, before, probe, INTERVAL_S)
        # The next probe starts from where the shares were, so that they stay what is to be found.
        before = echo(index, shares * 1e4)
        estimates.append(occupancy.ratio(slots))
    return np.mean(estimates[1500:], axis=0)


@settings(max_examples=5, deadline=None)
@given(
    st.lists(st.floats(0.05, 1.0), min_size=1, max_size=5), st.integers(0, 1000), st.sampled_from([0.0, 0.05])
)
def test_occupancy_is_the_share_of_a_full_link(parts: list[float], seed: int, together: float) -> None:
    shares = np.array(parts) / sum(parts)
    np.testing.assert_allclose(rival_shares(shares, seed, together=together), shares, atol=0.12)


def test_a_flow_whose_throughput_follows_its_rate_holds_nothing() -> None:
    occupancy = Occupancy()
    occupancy.reset(np.array([0]))
    assert occupancy.ratio(np.array([0])) == pytest.approx(PRIOR)
    for index in range(300):
        probe = np.array([(-1.0) ** index])
        last = echo(index + 1, 1e3 * (1.0 + ALPHA * probe))
        occupancy.update(np.array([0]), last, echo(index, np.array([1e3])), probe, INTERVAL_S)
    assert occupancy.ratio(np.array([0])) < 0.1


def test_flows_that_converge_do_not_swing_about_the_fair_share() -> None:
    links = 6
    start_s = np.repeat([[0.0], [15.0]], links, axis=1)
    paths = evaluate.uniform(np.full(links, 50.0), np.linspace(30.0, 120.0, links))
    run = evaluate.play(make_arm(), paths, start_s, 45.0)
    # From 10 s after the second flow on; 0.95 with an average over 12 s.
    assert run.since(25.0).jain_by_second.mean() > 0.96


unit = st.floats(0.0, 1.0)


@given(unit, st.floats(0.0, 0.5), st.floats(0.0, 0.5), st.floats(0.0, 0.4))
def test_reward_is_equation_9(ratio: float, queueing_s: float, loss: float, least: float) -> None:
    least = min(loss, least)
    value = reward(*(np.array([x]) for x in (ratio, queueing_s, loss, least)))[0]
    lost = (loss - least) / (1.0 - least)
    # Table 2: β1 = 1e-5 a µs, β2 = 5. ζ is Vivace's 0.9.
    assert value == pytest.approx(ratio**0.9 - ratio * (10.0 * queueing_s + 5.0 * lost))
    worse = reward(*(np.array([x]) for x in (ratio, queueing_s + 0.01, min(1.0, loss + 0.01), least)))[0]
    assert worse <= value


def signals(window_pkts: float = 100.0, seed: int = 1) -> JurySignals:
    made = JurySignals(seed)
    made.begin(FLOWS, np.full(FLOWS.size, window_pkts))
    return made


def test_observations_do_not_tell_the_bandwidth() -> None:
    made, rng = signals(), np.random.default_rng(2)
    before = echo(0, RATES)
    for index in range(1, 2 * HISTORY):
        factor = rng.uniform(0.9, 1.1)
        last = echo(index, RATES * factor, rtt_s=rng.uniform(0.04, 0.05), loss=rng.uniform(0.0, 0.02))
        seen = made.observe(FLOWS, interval(index, last, before))
        before = last
    assert seen.shape == (3, made.observation_size)
    assert np.abs(seen).max() > 0.0
    np.testing.assert_array_equal(seen, seen[[0, 0, 0]])


def test_signals_are_the_changes_from_echo_to_echo_and_bounded() -> None:
    made = signals()
    first, second = echo(1, RATES, rtt_s=0.040), echo(2, RATES, rtt_s=0.043, loss=0.02)
    made.observe(FLOWS, interval(3, first, echo(0, RATES)))
    seen = made.observe(FLOWS, interval(4, second, first)).reshape(3, HISTORY, 2)
    np.testing.assert_allclose(seen[:, -1], [[20 * 0.003 / 0.03, -10 * 0.02]] * 3, rtol=1e-5)
    # An echo that was heard before is not news, and one after a gap says nothing of a change.
    np.testing.assert_array_equal(made.observe(FLOWS, interval(5, second, first))[0], seen[0].ravel())
    gap = interval(6, echo(5, RATES), second)
    np.testing.assert_array_equal(made.observe(FLOWS, gap)[0], seen[0].ravel())
    wild = interval(7, echo(6, RATES, rtt_s=3.0), echo(5, RATES))
    assert made.observe(FLOWS, wild).reshape(3, HISTORY, 2)[0, -1, 0] == BOUND


@given(st.floats(-1.0, 1.0), st.floats(-1.0, 1.0), st.floats(2.0, 1e6), st.integers(0, 99))
def test_windows_move_by_alpha_and_stay_within_bounds(
    mean: float, radius: float, window_pkts: float, seed: int
) -> None:
    made = signals(window_pkts, seed)
    actions = np.full((3, 2), (mean, radius), np.float32)
    after = made.control(
        FLOWS, interval(2, echo(1, RATES * 10), echo(0, RATES * 10), in_flight_pkts=1e6), actions
    )
    assert after.shape == (3, 1)
    possible = np.clip(window_pkts * np.array([1.0 / (1.0 + ALPHA), 1.0, 1.0 + ALPHA]), *WINDOW_LIMITS)
    assert np.isclose(after, possible).any(axis=1).all()


@pytest.mark.parametrize("wanted", [-0.4, -0.1, 0.0, 0.3])
def test_exploration_leaves_the_mean(wanted: float) -> None:
    made = signals()
    made.occupancy.assume(FLOWS, np.full(3, 0.5))
    actions = np.full((3, 2), (wanted / (1.0 - RADIUS_MIN), -1.0), np.float32)
    moves = []
    before = np.full((3, 1), 100.0)
    for index in range(200):
        # The occupancy stays at a half, where Eq. 6 gives μ, as nothing is heard of.
        seen = interval(index, echo(0, RATES * 10), echo(-1, RATES * 10))
        after = made.control(FLOWS, seen, actions)
        moves.append(np.log(after / before).ravel())
        before = after
    steps = np.array(moves) / np.log1p(ALPHA)
    np.testing.assert_allclose(np.abs(steps), 1.0)
    np.testing.assert_allclose(steps.sum(axis=0), 200 * wanted, atol=4.0)
    assert not np.array_equal(steps[:, 0], steps[:, 1])


def test_small_flows_grow_large_ones_shrink() -> None:
    made, rng = signals(), np.random.default_rng(5)
    shares = np.array([0.1, 0.3, 0.6])
    before = echo(0, shares * 1e4)
    window_pkts = np.full(3, 100.0)
    total = np.zeros(3)
    for index in range(1, 600):
        after = made.control(
            FLOWS, interval(index - 1, before, before), np.full((3, 2), -1.0, np.float32) * [0, 1]
        )
        pushed = after.ravel() / window_pkts
        total += np.log(pushed)
        window_pkts = after.ravel()
        moved = shares * pushed * (1.0 + rng.normal(0.0, 0.01))
        last = echo(index, moved * 1e4, delivered_pps=moved / moved.sum() * 1e4)
        made.observe(FLOWS, interval(index, last, echo(index - 1, shares * 1e4)))
    assert total[0] > total[1] > total[2]
    assert total[0] > 0.0 > total[2]


def test_flows_that_are_young_blind_idle_or_unheard() -> None:
    down = np.full((3, 2), (-1.0, -1.0), np.float32)
    up = -down * [1.0, -1.0]
    few = echo(1, np.full(3, 100.0))

    def moved(made: JurySignals, actions: Floats, **changes: object) -> Floats:
        seen = interval(2, few, few, **changes)  # type: ignore[arg-type]
        return made.control(FLOWS, seen, actions.astype(np.float32)) / 100.0

    np.testing.assert_allclose(moved(signals(), down), 1.0 + ALPHA)
    np.testing.assert_allclose(moved(signals(), down, in_flight_pkts=47.0), 1.0)
    # A round trip of 40 ms may bring nothing in one interval of 30, but not in two.
    unheard = signals()
    assert (np.abs(moved(unheard, up, silent=True) - 1.0) > 0.01).all()
    assert (moved(unheard, up, silent=True) <= 1.0 + ALPHA).all()
    before = unheard.control(FLOWS, interval(2, few, few, silent=True), up.astype(np.float32))
    np.testing.assert_allclose(
        unheard.control(FLOWS, interval(2, few, few, silent=True), up.astype(np.float32)), before
    )
    overrun = signals()
    before = echo(0, RATES * 10)
    for index in range(1, 40):
        last = echo(index, RATES * 10, loss=0.3)
        overrun.observe(FLOWS, interval(index, last, before))
        before = last
    np.testing.assert_allclose(moved(overrun, up), 1.0 / (1.0 + ALPHA))


def test_a_window_of_two_packets_is_left_again() -> None:
    """The kernel tells of it when its ACK has come and nothing is in flight."""
    made = signals()
    made.begin(FLOWS, np.full(3, 2.0))
    few, up = echo(1, np.full(3, 20.0)), np.ones((3, 2), np.float32)
    for index in range(2, 30):
        seen = interval(index, few, few, in_flight_pkts=0.0, silent=index % 2 == 0)
        window_pkts = made.control(FLOWS, seen, up)
    assert (window_pkts > 3.5).all()


@pytest.mark.parametrize("flows", [1, 2, 3, 5, 50])
def test_any_number_of_equal_flows_can_stand_still(flows: int) -> None:
    made = signals()
    made.occupancy.assume(FLOWS, np.full(3, 1.0 / flows))
    last = echo(1, RATES * 10)
    after = [
        made.control(FLOWS, interval(index, last, last), np.array([[mean, -1.0]] * 3, np.float32)).ravel()
        for mean in (-1.0, 1.0)
        for index in range(2, 202)
    ]
    # Down all the time with the one, up with the other.
    assert (after[199] < 100.0).all()
    assert (after[399] > after[199]).all()


def test_slots_are_forgotten_when_flows_begin_and_kept_when_more_come() -> None:
    made = signals()
    before, last = echo(0, RATES), echo(1, RATES, rtt_s=0.045)
    known = made.observe(FLOWS, interval(2, last, before))
    np.testing.assert_array_equal(made.observe(FLOWS, interval(3, last, before)), known)
    made.begin(FLOWS, np.full(3, 10.0))
    assert not made.observe(FLOWS, interval(4, echo(-1, RATES), echo(-1, RATES))).any()


def test_task_shows_the_critics_what_the_actor_does_not_see() -> None:
    roster = Roster(window=2, cubic=1)
    task = JuryTask(roster.window)
    environment = Environment(task, replace(JURY, flows=(1, 3)), roster, environments=3, duration_s=0.3)
    runs = []
    for _ in range(2):
        seen = environment.reset(4)
        while not seen.over:
            seen = environment.step(np.zeros((6, 2), np.float32))
        runs.append(seen.observations)
        # All agents of a link have the link's reward.
        rewards = seen.rewards.reshape(2, 3)
        np.testing.assert_array_equal(rewards[0], rewards[1])
    assert runs[0].shape == (6, 2 * HISTORY + TRUTHS)
    np.testing.assert_array_equal(*runs)


def test_weights_that_are_missing_are_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match=r"jury\.npz"):
        make_arm(replace(ARM.variants[0], weights=tmp_path / "jury.npz"))


def test_two_flows_share_a_link() -> None:
    paths = Paths.uniform(2, rate_mbps=40.0, rtt_ms=30.0)
    start_s = np.array([[0.0, 0.0], [2.0, 2.0]])
    run = evaluate.play(make_arm(), paths, start_s, 24.0).since(14.0)
    assert run.utilisation.min() > 0.95
    assert run.jain.min() > 0.9
