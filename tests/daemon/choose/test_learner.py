# SPDX-License-Identifier: Apache-2.0
"""The learner from flow to flow, on made worlds that it does not know."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltp_switcher.daemon.choose.visits.learner import Learner, Visits
from ltp_switcher.daemon.choose.visits.posterior import Posteriors
from ltp_switcher.daemon.choose.visits.replay import Pool, Replayed, replay
from ltp_switcher.daemon.service.bench import aborts
from ltp_switcher.daemon.service.bench import learner as bench

ARMS = 5


def world(effects: np.ndarray, spread: float, seed: int = 7, draws: int = 200) -> list[list[Pool]]:
    """Pools of visits with these effects, shape (prefixes, ARMS), about levels of their own."""
    rng = np.random.default_rng(seed)
    made = []
    for of_prefix in effects:
        level = rng.normal(0, 1)
        made.append(
            [
                Pool(level + effect + _centred(rng, spread, draws), np.full(draws, 3.0), np.full(draws, 4.0))
                for effect in of_prefix
            ]
        )
    return made


def _centred(rng: np.random.Generator, spread: float, draws: int) -> np.ndarray:
    noise = rng.normal(0, spread, draws)
    return noise - noise.mean()


def off_model(prefixes: int, seed: int) -> np.ndarray:
    """The decision is wrong: on each path one arm earns 2 to 7 times as much, on most paths the same one."""
    rng = np.random.default_rng(seed)
    effects = rng.uniform(-1.0, 0.0, (prefixes, ARMS))
    effects[:, 0] = 0.0
    best = np.where(rng.random(prefixes) < 0.7, 1, rng.integers(2, ARMS, prefixes))
    effects[np.arange(prefixes), best] = rng.uniform(0.7, 2.0, prefixes)
    return effects


def on_model(prefixes: int, seed: int) -> np.ndarray:
    """The decision is right: all other arms earn less."""
    effects = -np.abs(np.random.default_rng(seed).normal(0, 0.5, (prefixes, ARMS)))
    effects[:, 0] = 0.0
    return effects


def run(effects: np.ndarray, spread: float, visits: int = 400, seed: int = 1) -> Replayed:
    return replay(world(effects, spread), visits, Learner(ARMS), seed)


def test_where_the_decision_is_wrong_the_gap_is_closed() -> None:
    found = run(off_model(40, 1), spread=0.4)
    early, late = found.windows[2:]
    assert (early.first, late.last) == (31, 400)
    assert early.closed > 0.5
    assert late.closed > 0.8
    # False alarms: one in 1,000 visits at most, while the effects of arms are learned.
    assert found.changes <= 40 * 400 / 1000


@pytest.mark.parametrize("spread", [0.2, 0.6, 1.5])
def test_where_the_decision_is_right_it_stays(spread: float) -> None:
    found = run(on_model(40, 2), spread)
    assert np.exp(sum(w.gain * (w.last - w.first + 1) for w in found.windows) / 400) > 0.97
    assert found.ledger <= 0.01
    assert found.worst_prefix <= 0.03


def test_a_path_unlike_all_others_is_found() -> None:
    """On 37 paths the decision is right. On three, arm 3 earns e^1.5 times as much; elsewhere it is bad."""
    effects, unlike = on_model(40, 2), np.array([7, 19, 31])
    effects[:, 3] -= 0.3
    effects[unlike, 3] = 1.5
    found = replay(world(effects, 0.4), 400, Learner(ARMS), 1, [unlike])
    assert found.parts[0][3].closed > 0.5
    assert found.ledger <= 0.01


def test_figures_come_from_other_kinds_than_constants() -> None:
    """No kind is in both sets, and no kind of the one draws the same effects as one of the other."""
    assert not bench.TUNING.keys() & bench.SHOWN.keys()

    def drawn(kinds: Mapping[str, bench.Kind]) -> set[bytes]:
        return {
            kind.effects(np.random.default_rng(seed), 40).tobytes()
            for kind in kinds.values()
            for seed in range(3)
        }

    assert len(drawn(bench.TUNING)) == 3 * len(bench.TUNING)
    assert not drawn(bench.TUNING) & drawn(bench.SHOWN)


def test_visits_that_tell_nothing_new_change_no_plan() -> None:
    learner = Learner(ARMS)
    one = np.zeros(1, np.int64)
    for number in range(50):
        learner.observe(Visits(one, one, np.zeros(1), np.ones(1), np.ones(1), np.array([number * 60.0])))
    plan = learner.plan(one, np.ones(1), 3000.0)
    assert plan.incumbents.tolist() == [0]
    assert plan.trials[0] != 0


def test_what_is_a_trial_is_said_by_the_plan_that_was_drawn_from() -> None:
    """Visits of the arm that was the incumbent then cost nothing, though another one is now."""
    one = np.zeros(1, np.int64)

    def visit(arm: int, value: float, number: int, incumbent: int | None) -> Visits:
        of = None if incumbent is None else np.array([incumbent])
        return Visits(
            one, np.array([arm]), np.array([value]), np.ones(1), np.ones(1), np.array([number * 60.0]), of
        )

    learner = Learner(ARMS)
    for number in range(60):
        learner.observe(visit(number % 2, 2.0 * (number % 2), number, 0))
    assert learner.plan(one, np.ones(1), 3600.0).incumbents.tolist() == [1]
    before = learner.purse.spent[0]
    learner.observe(visit(0, 0.0, 61, 0))
    assert learner.purse.spent[0] == before
    learner.observe(visit(0, 0.0, 62, 1))
    assert learner.purse.spent[0] == before + 1


@settings(max_examples=20)
@given(st.permutations(range(6)), st.integers(0, 2**16))
def test_visits_of_different_prefixes_may_come_in_any_order(order: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    visits = Visits(
        np.array([0, 0, 1, 1, 2, 2]), rng.integers(0, ARMS, 6), rng.normal(0, 1, 6), rng.uniform(0.1, 3, 6),
        np.ones(6), np.array([0.0, 60.0] * 3),
    )  # fmt: skip
    # Those of one prefix stay in their order.
    first = sorted(order, key=lambda place: (place % 2, order.index(place)))
    plans = []
    for places in (np.arange(6), np.array(first)):
        learner = Learner(ARMS)
        learner.observe(visits.take(places))
        plans.append(learner.plan(np.arange(3), np.ones(3), 120.0))
    assert plans[0].incumbents.tolist() == plans[1].incumbents.tolist()
    assert np.allclose(plans[0].chances, plans[1].chances)


def test_a_replay_is_the_same_again() -> None:
    effects = off_model(5, 3)
    assert run(effects, 0.4, visits=60) == run(effects, 0.4, visits=60)
    assert run(effects, 0.4, visits=60) != run(effects, 0.4, visits=60, seed=2)


@pytest.mark.parametrize("lie", [3.0, -3.0])
def test_one_liar_in_twenty_changes_no_others_arm(lie: float) -> None:
    """Of 100 prefixes five claim of arm 1 all that a value can, and have five times as many visits."""
    rng = np.random.default_rng(4)
    honest = np.where(np.arange(100) < 50, -0.4, 0.8)
    draws = rng.normal(0, 0.3, (40, 100))

    def incumbents(liars: int) -> list[int]:
        learner, prefixes = Learner(ARMS), np.arange(100)
        effects = np.where(prefixes % 20 < (liars > 0), lie, honest)
        for number in range(200):
            told = prefixes if number % 5 == 0 else prefixes[prefixes % 20 < (liars > 0)]
            arms = np.full(told.size, number // 5 % 2 if number % 5 == 0 else number % 2)
            values = np.where(arms == 1, effects[told], 0.0) + draws[number // 5, told]
            one = np.ones(told.size)
            incumbent = np.zeros(told.size, np.int64)
            learner.observe(Visits(told, arms, values, one, one, one * number * 12.0, incumbent))
        # The last one is new.
        plan = learner.plan(np.arange(101), np.ones(101), 2400.0)
        return [int(arm) for place, arm in enumerate(plan.incumbents) if place == 100 or place % 20]

    without = incumbents(0)
    assert set(without) == {0, 1}
    assert incumbents(5) == without


@pytest.mark.parametrize(("fold", "share", "most"), [(2.0, 0.8, 120), (10.0, 0.95, 20)])
def test_a_fall_of_the_path_is_found(fold: float, share: float, most: int) -> None:
    _, after = bench.detected(fold, 1, 40, seed=1)
    assert np.mean(after <= most) >= share


def test_a_steady_path_has_one_false_alarm_in_a_thousand_visits_at_most() -> None:
    false, _ = bench.detected(1.0, 1, 40, seed=2)
    assert false.sum() <= 40 * bench.STEADY / 1000


def test_another_arm_is_no_change_of_the_path() -> None:
    """Arms differ 20-fold. Half of the visits run the other one at first, then all of them do."""
    learner, each = Learner(ARMS), np.arange(10)
    rng = np.random.default_rng(5)
    for number in range(300):
        arms = rng.integers(0, 2, 10) if number < 200 else np.ones(10, np.int64)
        values = np.where(arms == 1, -3.0, 0.0) + rng.normal(0.0, 0.3, 10)
        one = np.ones(10)
        assert learner.observe(Visits(each, arms, values, one, one, one * number * 60.0)).size == 0


def test_an_arm_that_became_bad_is_left_sooner_with_detectors() -> None:
    gain, stayed = bench.left(10, 3, detects=True)
    without_gain, without = bench.left(10, 3, detects=False)
    assert stayed.size == without.size == 10
    assert np.median(stayed) < np.median(without) / 4
    assert gain.mean() > without_gain.mean() + 0.5


def surprised(*times_s: float, incumbent: int = 0) -> tuple[Learner, int]:
    """A learner that knows two arms of a prefix well, and how often these surprises opened it."""
    learner, zero, one = Learner(ARMS), np.zeros(1, np.int64), np.ones(1)
    for number in range(60):
        arm = zero + (number % 3 == 0)
        value = one * (2.0 if incumbent else -0.6) * arm
        learner.observe(Visits(zero, arm, value, 3 * one, one, one * 60.0 * number, zero))
    assert learner.plan(zero, one, 3600.0).incumbents[0] == incumbent
    return learner, sum(learner.surprise(zero, 3600.0 + at_s).size for at_s in times_s)


@pytest.mark.parametrize(
    ("times_s", "opens"),
    [((), 0), ((0.0,), 1), ((0.0, 599.0), 1), ((0.0, 600.0), 2), ((0.0, 300.0, 600.0, 900.0), 1)],
)
def test_a_surprise_after_a_calm_time_opens_a_prefix(times_s: tuple[float, ...], opens: int) -> None:
    learner, opened = surprised(*times_s)
    assert opened == opens
    known, _ = surprised()
    zero = np.zeros(1, np.int64)
    variances = [one.effects(zero, 4300.0).variance[0] for one in (known, learner)]
    assert (variances[1][1] > variances[0][1] + 0.1) == bool(opens)
    # Of what was never tried, no less is known than before.
    assert variances[1][2:] == pytest.approx(variances[0][2:])


def test_after_a_surprise_a_fall_is_the_decision_s_own() -> None:
    """The decision earns less. Without surprises, the path takes the blame, which all arms share."""
    zero, one = np.zeros(1, np.int64), np.ones(1)
    effects = []
    for times_s in ((), (0.0,)):
        learner, _ = surprised(*times_s)
        for number in range(3):
            learner.observe(Visits(zero, zero, -1.5 * one, 3 * one, one, 3700.0 + 60 * number * one))
        effects.append(learner.effects(zero, 3900.0).mean[0, 1])
    assert effects[0] < -0.3
    assert effects[1] > 0.0


def test_the_decision_s_surprises_are_no_matter_where_another_arm_runs() -> None:
    learner, opened = surprised(0.0, incumbent=1)
    assert opened == 0
    assert learner.plan(np.zeros(1, np.int64), np.ones(1), 3800.0).incumbents[0] == 1


@given(st.lists(st.integers(0, ARMS - 1), min_size=1, max_size=30), st.integers(0, 99))
def test_doubts_make_no_arm_less_known_than_a_new_one(arms: list[int], seed: int) -> None:
    posteriors, zero, one = Posteriors(ARMS), np.zeros(1, np.int64), np.ones(1)
    rng = np.random.default_rng(seed)
    begin = Posteriors(ARMS)
    begin.grow(1)
    most = np.diagonal(begin.state()["covariance"][0])
    for number, arm in enumerate(arms):
        posteriors.observe(zero, zero + rng.integers(0, ARMS), rng.normal(size=1), one, one * number)
        before = posteriors.state()["covariance"][0]
        posteriors.doubt(zero, zero + arm)
        after = posteriors.state()["covariance"][0]
        assert np.linalg.eigvalsh(after - before).min() > -1e-9
        assert (np.diagonal(after) <= most + 1e-9).all()


@pytest.mark.parametrize("detects", [True, False])
def test_where_the_decision_becomes_bad_surprises_earn_more(detects: bool) -> None:
    gain, stayed = bench.fell(10, 3, 10.0, detects=detects, shows=bench.SHOWS)
    without, _ = bench.fell(10, 3, 10.0, detects=detects, shows=0.0)
    assert gain.size == without.size == 10
    assert gain.mean() > without.mean() + 0.1
    assert stayed.max() < 30


@given(st.floats(-6.0, -0.01), st.floats(0.01, 10.0), st.integers(0, 99))
def test_an_abort_loses_no_more_than_the_trial_would(effect: float, after_s: float, seed: int) -> None:
    effects = np.full((20, ARMS), effect)

    def left(after: float) -> np.ndarray:
        return aborts.Aborting(effects, after, 0.0, clear=False, seed=seed)._cut(effects[:, 0])[0]

    assert (effect - 1e-9 <= left(after_s)).all()
    assert (left(after_s) <= left(after_s / 2) + 1e-9).all()
    assert left(1e-9) == pytest.approx(0.0, abs=1e-6)


def test_an_abort_makes_trials_cheaper() -> None:
    kind = bench.Kind(bench.SHOWN["falling"].effects, 8, bench.SHOWN["falling"].noise)
    without, at_once = (aborts.measure(kind, (1,), after_s, 0.0, clear=False)[2] for after_s in (0.0, 0.1))
    assert 0.0 < at_once < without


def test_a_forgotten_prefix_and_a_restart_begin_detectors_anew() -> None:
    def steady(learner: Learner, visits: int, value: float) -> int:
        one = np.ones(1)
        zero = np.zeros(1, np.int64)
        return sum(
            learner.observe(Visits(zero, zero, one * value, one, one, one * number * 60.0)).size
            for number in range(visits)
        )

    kept, forgot, restarted = Learner(ARMS), Learner(ARMS), Learner(ARMS)
    for learner in (kept, forgot):
        assert steady(learner, 60, 0.0) == 0
    forgot.forget(np.zeros(1, np.int64))
    restarted.restore(kept.state())
    assert steady(kept, 40, -2.0) > 0
    assert steady(forgot, 40, -2.0) == 0
    assert steady(restarted, 40, -2.0) == 0
