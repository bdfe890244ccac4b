# SPDX-License-Identifier: Apache-2.0
"""Spine as a learning problem: reward, episodes, links where a policy tunes Cubic."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ltp_switcher.errors import InvalidValueError
from ltp_switcher.policies.runtime.arm import Law
from ltp_switcher.policies.simulator import Flows, Paths, Roster, SimulatedInterval, Simulator
from ltp_switcher.policies.simulator.regions import SPINE, draw, draw_mixed
from ltp_switcher.policies.simulator.tasks import Array, Environment
from ltp_switcher.policies.spine.reward import LOSS_WEIGHT, PIT_STOP_PENALTY, rewards
from ltp_switcher.policies.spine.signals import SpineSignals
from ltp_switcher.policies.spine.task import MixedEpisodes, SpineTask

ALONE = replace(SPINE, flows=(1, 1))
BESIDE = replace(SPINE, flows=(2, 3), cubic_share=1.0, loss=(0.0, 0.0))
TUNED = Roster(cubic=3, learned_cubic=1)


def interval(acked: list[float], **changes: object) -> SimulatedInterval:
    """100 packets of capacity in 0.1 s; flows with these acknowledged, 40 ms at least."""
    flows = len(acked)
    made = Simulator(
        Paths.uniform(1), Flows.forever(flows, 1), Roster(aimd=1, cubic=flows - 1), seed=1, interval_s=0.1
    ).step()
    column = np.ones((flows, 1))
    return replace(
        made,
        active=column > 0.0,
        acked_pkts=np.array(acked)[:, None],
        lost_pkts=0.0 * column,
        rtt_s=0.04 * column,
        rtt_min_s=0.04 * column,
        capacity_pps=np.array([1000.0]),
        **changes,
    )


def reward(seen: SimulatedInterval, *, triggered: bool = False) -> float:
    return float(rewards(seen, 1, np.full((1, 1), triggered))[0, 0])


def test_a_full_link_without_queue_or_loss_earns_1_and_a_pit_stop_costs() -> None:
    assert reward(interval([100.0])) == pytest.approx(1.0)
    assert reward(interval([100.0]), triggered=True) == pytest.approx(1.0 - PIT_STOP_PENALTY)


def test_delay_counts_beyond_the_tolerance_and_loss_by_its_weight() -> None:
    full = interval([100.0])
    assert reward(replace(full, rtt_s=np.array([[0.048]]))) == pytest.approx(1.0)
    assert reward(replace(full, rtt_s=np.array([[0.080]]))) == pytest.approx(0.5)
    assert reward(replace(full, lost_pkts=np.array([[2.0]]))) == pytest.approx(1.0 - LOSS_WEIGHT * 0.02)


def test_beside_others_the_fair_share_is_best() -> None:
    earned = [reward(interval([mine, 100.0 - mine])) for mine in (20.0, 40.0, 50.0, 60.0, 80.0)]
    assert max(earned) == earned[2] == pytest.approx(1.0)
    assert earned[0] == pytest.approx(earned[4])


def make(law: Law, interval_s: float) -> Environment:
    roster = Roster(aimd=1, cubic=2) if law is Law.AIMD else TUNED
    task = SpineTask(SpineSignals(law, interval_s), roster.agents)
    return Environment(task, (ALONE, BESIDE), roster, environments=4, duration_s=1.5, interval_s=interval_s)


def play(environment: Environment | MixedEpisodes, seed: int, actions: int) -> list[Array]:
    seen = environment.reset(seed)
    rows = [seen.observations]
    rng = np.random.default_rng(seed)
    while not seen.over:
        seen = environment.step(rng.uniform(-1.0, 1.0, (environment.slots, actions)).astype(np.float32))
        rows.append(np.concatenate((seen.observations, seen.rewards[:, None]), axis=1))
    return rows


@pytest.mark.parametrize("law", [Law.AIMD, Law.CUBIC])
def test_episodes_repeat_over_either_law(law: Law) -> None:
    signals = SpineSignals(law, 0.1)
    environment = make(law, 0.1)
    first, again = (play(environment, 5, signals.action_size) for _ in range(2))
    assert len(first) == 15
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
        assert np.isfinite(one).all()


def test_a_sub_policy_reaches_its_own_cubic_flow_alone() -> None:
    environment = make(Law.CUBIC, 0.1)
    environment.reset(1)
    environment.step(np.array([[1.0, -1.0, 1.0], [0.0, 0.0, -1.0]] * 2, np.float32))
    task = environment.task
    assert isinstance(task, SpineTask)
    cubic = task.simulator.cubic
    np.testing.assert_allclose(cubic.beta, [[0.9, 0.7, 0.9, 0.7], [0.7] * 4, [0.7] * 4])
    np.testing.assert_allclose(cubic.c, [[0.01, 0.4, 0.01, 0.4], [0.4] * 4, [0.4] * 4])


def test_half_of_the_flows_begin_in_the_midst_of_their_lives() -> None:
    """A flow that is switched to Spine has a window, and no slow start in which no sub-policy would show."""
    environment = make(Law.AIMD, 0.1)
    seen = environment.reset(3)
    task = environment.task
    assert isinstance(task, SpineTask)
    still = np.tile(np.array([-1.0, -1.0, 1.0, 1.0, 1.0], np.float32), (environment.slots, 1))
    windows = [task.simulator.aimd.window.copy()]
    while not seen.over:
        seen = environment.step(still)
        windows.append(task.simulator.aimd.window.copy())
    grown = windows[-1] / windows[0]
    settled = np.abs(windows[0] - 10.0) > 3.0
    assert 0 < settled.sum() < settled.size
    assert (grown[settled] < grown[~settled].min()).all()


def test_the_seed_says_which_interval_plays() -> None:
    episodes = MixedEpisodes([make(Law.AIMD, 0.1), make(Law.AIMD, 0.3)])
    assert [len(play(episodes, seed, 5)) for seed in (2, 3, 4)] == [15, 5, 15]


def test_mixed_links_come_from_each_region_in_turn() -> None:
    paths, flows = draw_mixed((ALONE, BESIDE), TUNED, 40, 30.0, np.random.default_rng(1))
    count = np.isfinite(flows.start_s).sum(axis=0)
    assert (count[:20] == 1).all()
    assert set(count[20:]) == {2, 3}
    assert (paths.loss[:20] > 0.0).all()
    assert (paths.loss[20:] == 0.0).all()


def test_mixed_links_play_the_traces_of_their_region() -> None:
    slow, fast = np.arange(0, 1000, 12), np.arange(1000)
    regions = [replace(ALONE, traces=(trace,), trace_share=0.5) for trace in (slow, fast)]
    paths, _ = draw_mixed((regions[0], ALONE, regions[1]), TUNED, 60, 30.0, np.random.default_rng(1))
    assert [set(part) for part in paths.trace.reshape(3, 20)] == [{-1, 0}, {-1}, {-1, 1}]
    assert paths.traces == (slow, fast)
    assert (paths.rate_mbps[paths.trace == 1] > 11.0).all()
    assert paths.trace_start_ms.any()


def test_regions_that_do_not_divide_the_links_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="environments"):
        draw_mixed((ALONE, BESIDE), TUNED, 3, 30.0, np.random.default_rng(1))


def test_tuned_cubic_flows_are_the_first_rows_and_always_there() -> None:
    _, flows = draw(BESIDE, TUNED, 200, 30.0, np.random.default_rng(2))
    assert (flows.start_s[0] == 0.0).all()
    with pytest.raises(InvalidValueError, match="learned_cubic"):
        Roster(aimd=1, cubic=2, learned_cubic=1)
    with pytest.raises(InvalidValueError, match="learned_cubic"):
        Roster(cubic=1, learned_cubic=2)
