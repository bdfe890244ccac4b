# SPDX-License-Identifier: Apache-2.0
"""The policy `mutant` over the rule: no worse than the rule, better where the rewards show it."""

import dataclasses

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from support.bandit_world import STEP_NS, World, random_encoder
from support.rule_flows import UNCHECKED

from ltp_switcher.arrays import ArmIds
from ltp_switcher.daemon.choose.bandit import ArmTable, MutantAgent
from ltp_switcher.daemon.choose.bandit.guard import Baseline, Guard
from ltp_switcher.daemon.choose.bandit.guarded import GuardedChooser
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.datapath.protocol import ArmId, FlowFlags
from ltp_switcher.daemon.settings.schema import LearningSection

STEP_MS = STEP_NS / 1e6
BBR, LTP, VEGAS = int(ArmId.BBR), int(ArmId.LTP), int(ArmId.VEGAS)
TABLE = ArmTable((BBR, VEGAS, LTP), ("bbr", "vegas", "ltp"))
RULE_IS_RIGHT = {BBR: (0.7, 1.6), LTP: (1.0, 1.05), VEGAS: (0.6, 1.05)}
RULE_IS_WRONG = {BBR: (0.7, 1.6), LTP: (0.6, 1.1), VEGAS: (1.0, 1.05)}


def chooser(seed: int = 1, **keys: float) -> GuardedChooser:
    config = LearningSection(**keys)  # type: ignore[arg-type]
    agent = MutantAgent(config, STEP_MS, TABLE, random_encoder(), seed)
    return GuardedChooser(RuleChooser([BBR, LTP, VEGAS], dataclasses.replace(UNCHECKED, prefix_s=0.0)), agent)


def run(policy: GuardedChooser, world: World, duration_s: float, given: ArmIds | None = None) -> np.ndarray:
    """The arms that each flow runs, shape (steps, n). `given`: those of team selection, shape (n,)."""
    slots = np.arange(len(world.active))
    told: np.ndarray | None = None
    out = []
    for _ in range(round(duration_s * 1e3 / STEP_MS)):
        records = world.step(told)
        records["total_delivered"] = int(world.time_ns * world.rate_Bps * 1e-9 / 1448)
        records["rtt_floor_us"] = int(world.rtt_us)
        records["round_trips"] = 1000
        told = policy.step(slots, records, given).arms
        out.append(told.copy())
    return np.array(out)


def world(n: int, arms: dict[int, tuple[float, float]]) -> World:
    return World(n, arms, 3e6, 4e4)


def test_where_the_rule_is_right_others_take_no_more_than_their_share() -> None:
    policy = chooser(explore_share=0.1)
    policy.open(np.arange(4), ["192.0.2.0/24"] * 4)
    arms = run(policy, world(4, RULE_IS_RIGHT), 40)
    elsewhere = float((arms[1000:] != LTP).mean())
    print(f"{elsewhere:.2%} of the time on other arms")
    assert 0 < elsewhere <= 0.12


def test_the_learned_arms_hear_of_siblings_under_this_policy_too() -> None:
    policy = chooser()
    policy.open(np.arange(3), ["192.0.2.0/24", "198.51.100.0/24", "192.0.2.0/24"])
    players = policy.together(np.arange(3))
    assert players is not None
    assert (players[0] == players[2], players[0] == players[1]) == (True, False)


def test_without_trials_the_rules_arm_runs_always() -> None:
    guarded, rule = (
        chooser(explore_share=0.0),
        RuleChooser([BBR, LTP, VEGAS], dataclasses.replace(UNCHECKED, prefix_s=0.0)),
    )
    guarded.open(np.arange(3), ["192.0.2.0/24"] * 3)
    rule.open(np.arange(3), ["192.0.2.0/24"] * 3)
    here = run(guarded, world(3, RULE_IS_WRONG), 8)
    assert set(here[-1]) == {LTP}
    assert (here[:100] == BBR).all()


def test_where_the_rule_is_wrong_the_rewards_show_it() -> None:
    policy = chooser(explore_share=0.2)
    policy.open(np.arange(4), [f"192.0.{i}.0/24" for i in range(4)])
    arms = run(policy, world(4, RULE_IS_WRONG), 40)
    last = float((arms[-1000:] == VEGAS).mean())
    print(f"the better arm runs for {last:.0%} of the last 10 s")
    assert last > 0.7
    reason = policy.reason(np.arange(4))
    sentences = {policy.reasons[code] for code in reason.code}
    assert any("earned" in sentence for sentence in sentences)


def test_pulls_of_team_selection_teach_as_other_rewards_do() -> None:
    policy, given = chooser(explore_share=0.0), np.zeros(2, np.uint8)
    policy.open(np.arange(2), ["192.0.2.0/24"] * 2)
    path = world(2, RULE_IS_WRONG)
    assert set(run(policy, path, 5)[-1]) == {LTP}
    for _ in range(5):
        given[:] = VEGAS
        assert (run(policy, path, 1.5, given) == VEGAS).all(), "the decision is the pull's"
        given[:] = 0
        run(policy, path, 1.5, given)
    assert set(run(policy, path, 1)[-1]) == {VEGAS}


def test_the_flow_goes_back_to_the_rule_as_soon_as_a_pull_ends() -> None:
    policy, given = chooser(explore_share=0.0), np.zeros(1, np.uint8)
    policy.open(np.arange(1), ["192.0.2.0/24"])
    path = world(1, RULE_IS_RIGHT)
    run(policy, path, 5)
    given[:] = VEGAS
    run(policy, path, 1.0, given)
    given[:] = 0
    assert run(policy, path, STEP_MS / 1e3, given).tolist() == [[LTP]]


def test_what_a_prefix_has_taught_outlasts_its_flows() -> None:
    policy = chooser(explore_share=0.2)
    policy.open(np.arange(4), ["192.0.2.0/24"] * 4)
    run(policy, world(4, RULE_IS_WRONG), 40)
    policy.close(np.arange(4))
    second = chooser(explore_share=0.0)
    second.restore(policy.state())
    second.open(np.arange(2), ["192.0.2.0/24", "198.51.100.0/24"])
    arms = run(second, world(2, RULE_IS_WRONG), 8)
    assert arms[-1].tolist() == [VEGAS, LTP]


def test_a_pinned_flow_keeps_its_arm() -> None:
    policy = chooser()
    policy.open(np.arange(1), [""])
    world_ = world(1, RULE_IS_RIGHT)
    records = world_.step(None)
    records["flags"] = int(FlowFlags.PINNED)
    records["arm"] = records["want_arm"] = int(ArmId.CUBIC)
    assert policy.step(np.arange(1), records).arms.tolist() == [int(ArmId.CUBIC)]


@settings(max_examples=20)
@given(seed=st.integers(0, 1000), share=st.floats(0.0, 0.2))
def test_trials_of_a_prefix_never_take_more_than_their_share(seed: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    guard, n = Guard(0.5, share), 6
    guard.reset(np.arange(n))
    prefixes = np.array([1, 1, 1, 2, 2, 3])
    hold_ns, tried, total = 2e8, np.zeros(4), np.zeros(4)
    for step in range(1, 400):
        free = rng.random(n) < 0.9
        choice = guard.choose(
            np.arange(n), prefixes, rng.random((n, 3)), rng.random((n, 3)), np.ones((n, 3), np.bool_),
            rng.integers(0, 3, n), free, np.full(n, step * int(hold_ns)), np.full(n, hold_ns),
        )  # fmt: skip
        assert not (choice.tried & ~free).any()
        np.add.at(tried, prefixes, choice.tried)
        np.add.at(total, prefixes, 1)
    assert (tried <= share * total + 1e-9).all()


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=3), st.integers(0, 2))
def test_a_flow_departs_only_where_the_intervals_are_apart(
    arms: list[tuple[float, float]], baseline: int
) -> None:
    guard = Guard(0.5, 0.0)
    guard.reset(np.arange(1))
    mean, width = (np.array([[arm[i] for arm in arms]]) for i in (0, 1))
    choice = guard.choose(
        np.arange(1), np.array([1]), mean, width, np.ones((1, 3), np.bool_), np.array([baseline]),
        np.array([True]), np.array([1]), np.array([1e8]),
    )  # fmt: skip
    above = [i for i in range(3) if mean[0, i] - width[0, i] / 2 > mean[0, baseline] + width[0, baseline] / 2]
    assert (int(choice.columns[0]) in above) if above else (int(choice.columns[0]) == baseline)


def test_a_baseline_that_does_not_leave_the_choice_free_is_obeyed() -> None:
    agent = MutantAgent(LearningSection(), STEP_MS, TABLE, random_encoder(), 1)
    agent.open(np.arange(2), ["", ""])
    records = world(2, RULE_IS_RIGHT).step(None)
    said = Baseline(np.array([BBR, VEGAS], np.uint8), np.zeros(2, np.bool_))
    assert agent.step(np.arange(2), records, baseline=said).arms.tolist() == [BBR, VEGAS]
