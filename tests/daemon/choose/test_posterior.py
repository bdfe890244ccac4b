# SPDX-License-Identifier: Apache-2.0
"""The posterior of arms by prefix, against the joint Gaussian of all visits at once."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.choose.visits.posterior import Effects, Noise, Posteriors

ARMS = 4
STILL = Noise(level_per_s=0.0, effect_per_s=0.0, visits=1e12, far_share=1e-300)
"""Nothing moves by itself, the noise is the usual one, and no prefix is unlike the others."""
VISIT = st.tuples(st.integers(0, ARMS - 1), st.floats(-3, 3), st.floats(0.1, 5))


def nothing(variance: float = 0.0) -> Effects:
    """A prior of no effect for one prefix; `variance` is that of the wider level's mean."""
    made = np.full((1, ARMS), variance)
    made[0, 0] = 0.0
    return Effects(np.zeros((1, ARMS)), made)


def told(visits: list[tuple[int, float, float]], noise: Noise, gap_s: float = 0.0) -> Posteriors:
    found = Posteriors(ARMS, noise)
    for number, (arm, value, information) in enumerate(visits):
        found.observe(
            np.zeros(1, np.int64), np.array([arm]), np.array([value]), np.array([information]),
            np.array([number * gap_s]),
        )  # fmt: skip
    return found


def joint(visits: list[tuple[int, float, float]], noise: Noise) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of level and effects by one Bayesian regression over all visits."""
    precision = np.diag([1 / 25, *[1 / noise.between] * (ARMS - 1)])
    vector = np.zeros(ARMS)
    for arm, value, information in visits:
        row = np.zeros(ARMS)
        row[0] = 1
        if arm:
            row[arm] = 1
        weight = 1 / (noise.visit + noise.flow / information)
        precision += weight * np.outer(row, row)
        vector += weight * value * row
    covariance = np.linalg.inv(precision)
    return covariance @ vector, covariance


@given(st.lists(VISIT, min_size=1, max_size=25))
def test_the_filter_is_the_regression_over_all_visits(visits: list[tuple[int, float, float]]) -> None:
    mean, covariance = joint(visits, STILL)
    found = told(visits, STILL).effects(np.zeros(1, np.int64), nothing(), 0.0)
    assert found.mean[0, 1:] == pytest.approx(mean[1:], abs=1e-4)
    assert found.variance[0, 1:] == pytest.approx(np.diag(covariance)[1:], rel=1e-3)
    assert (found.mean[0, 0], found.variance[0, 0]) == (0.0, 0.0)


@given(st.lists(VISIT, min_size=2, max_size=12), st.randoms())
def test_the_order_of_visits_at_one_time_says_nothing(
    visits: list[tuple[int, float, float]], random: random.Random
) -> None:
    shuffled = visits.copy()
    random.shuffle(shuffled)
    one, other = (
        told(each, STILL).effects(np.zeros(1, np.int64), nothing(), 0.0) for each in (visits, shuffled)
    )
    assert np.allclose(one.mean, other.mean, atol=1e-6)
    assert np.allclose(one.variance, other.variance, atol=1e-6)


@given(st.lists(VISIT, min_size=1, max_size=20), st.floats(-2, 2))
def test_only_differences_on_a_path_count(visits: list[tuple[int, float, float]], shift: float) -> None:
    """All values moved alike are another level, and the effects hardly move."""
    moved = [(arm, value + shift, information) for arm, value, information in [*visits, (0, 0.0, 5.0)]]
    before = told([*visits, (0, 0.0, 5.0)], STILL).effects(np.zeros(1, np.int64), nothing(), 0.0)
    after = told(moved, STILL).effects(np.zeros(1, np.int64), nothing(), 0.0)
    assert np.allclose(before.mean, after.mean, atol=0.05)


def test_a_path_that_moves_hides_no_difference() -> None:
    """The level falls by 3 in an hour; two arms in turn differ by 0.4 all the time."""
    found = Posteriors(ARMS)
    rng = np.random.default_rng(1)
    for number in range(120):
        arm = number % 2 * 2
        value = -3 * number / 120 + (0.4 if arm else 0.0) + rng.normal(0, 0.2)
        found.observe(*(np.array([each]) for each in (0, arm, value, 5.0, number * 30.0)))
    effects = found.effects(np.zeros(1, np.int64), nothing(), 3600.0)
    assert abs(effects.mean[0, 2] - 0.4) < 3 * np.sqrt(effects.variance[0, 2]) < 0.3


def test_what_is_old_is_known_less_and_less_well() -> None:
    found = told([(0, 0.0, 5.0), (1, 1.0, 5.0)] * 10, Noise())
    at = [
        found.effects(np.zeros(1, np.int64), nothing(), now_s).variance[0, 1]
        for now_s in (0.0, 3600.0, 86_400.0, 1e7, 1e12)
    ]
    assert at == sorted(at)
    without = Posteriors(ARMS)
    without.grow(1)
    nobody_knows = without.effects(np.zeros(1, np.int64), nothing(), 0.0).variance[0, 1]
    assert at[-1] == pytest.approx(nobody_knows, rel=0.1)


def test_a_prefix_without_visits_takes_the_wider_level() -> None:
    found = Posteriors(ARMS, STILL)
    found.grow(1)
    prior = Effects(np.array([[0.0, 0.5, -0.2, 0.0]]), np.array([[0.0, 0.1, 0.1, 0.1]]))
    effects = found.effects(np.zeros(1, np.int64), prior, 0.0)
    assert effects.mean[0] == pytest.approx(prior.mean[0])
    assert effects.variance[0, 1:] == pytest.approx(np.full(3, 0.1 + STILL.between))


def many(effects: np.ndarray, noise: Noise, visits: int = 20, spread: float = 0.3) -> Posteriors:
    """Prefixes whose arm 1 has these effects."""
    found, rng = Posteriors(ARMS, noise), np.random.default_rng(2)
    prefixes = np.arange(len(effects))
    for number in range(visits):
        arms = np.full(len(effects), number % 2)
        values = np.where(arms > 0, effects, 0.0) + rng.normal(0, spread, len(effects))
        found.observe(prefixes, arms, values, np.full(len(effects), 5.0), np.zeros(len(effects)))
    return found


def test_what_other_prefixes_tell_leaves_out_the_prefix_itself() -> None:
    """One of two prefixes has an effect of 2, the other one of 0. With its own visits counted twice, the
    first would be surer than they make it.
    """
    found = many([2.0, 0.0], STILL)
    wider = found.wider(0.0)
    assert 0.5 < wider.mean[0, 1] < 1.1
    others = wider.without(np.array([0, 1, 7]))
    assert others.mean[0, 1] == pytest.approx(0.0, abs=0.2), "the second prefix alone tells"
    assert others.mean[1, 1] > 0.5
    assert others.variance[0, 1] > wider.variance[0, 1]
    # A new prefix is told of by all.
    assert others.mean[2].tolist() == wider.mean[0].tolist()
    assert others.variance[2].tolist() == pytest.approx(wider.variance[0].tolist())
    only = many([2.0], STILL).wider(0.0).without(np.array([0]))
    assert only.mean[0].tolist() == pytest.approx([0.0] * ARMS, abs=1e-9), "nobody else tells anything"
    assert only.variance[0, 1] == pytest.approx(STILL.between)
    assert (others.mean[:, 0], others.variance[:, 0]) == (pytest.approx([0.0] * 3), pytest.approx([0.0] * 3))


def test_the_wider_level_is_the_mean_of_its_prefixes() -> None:
    effects = np.random.default_rng(3).normal(0.4, 0.3, 200)
    wider = many(effects, STILL).wider(0.0)
    assert wider.mean.shape == (1, ARMS)
    assert abs(wider.mean[0, 1] - 0.4) < 0.08
    assert wider.variance[0, 1] < 0.01
    # Of the others nothing is known.
    assert wider.mean[0, 2:].tolist() == [0.0, 0.0]
    assert wider.variance[0, 2] == pytest.approx(STILL.between)


@pytest.mark.parametrize("lie", [3.0, -3.0])
def test_liars_change_no_others_choice(lie: float) -> None:
    """Of 200 prefixes 5 % tell of an effect of 3, with a hundred times as many visits."""
    honest = np.random.default_rng(3).normal(-0.3, 0.3, 200)
    before = many(honest, STILL).wider(0.0).mean[0, 1]
    mixed = honest.copy()
    mixed[:10] = lie
    found = many(mixed, STILL)
    for number in range(2000):
        values = np.where(number % 2, lie, 0.0)
        found.observe(
            np.arange(10), np.full(10, number % 2), np.full(10, values), np.full(10, 5.0), np.zeros(10)
        )
    after = found.wider(0.0)
    assert abs(after.mean[0, 1] - before) < 0.06
    # A new prefix keeps the decision's own choice, as before.
    fresh = Posteriors(ARMS, STILL)
    fresh.grow(1)
    assert fresh.effects(np.zeros(1, np.int64), after, 0.0).mean[0, 1] < 0


def test_one_prefix_cannot_speak_for_the_others() -> None:
    """However much it tells, its weight is that of a prefix that is perfectly known."""
    alone = many(np.array([3.0]), STILL, visits=5000)
    wider = alone.wider(0.0)
    assert wider.mean[0, 1] <= 3.0 / 2 + 1e-6
    assert wider.variance[0, 1] >= STILL.between / 2 - 1e-6


def test_a_prefix_unlike_the_others_shows_it_and_its_other_arms_become_open() -> None:
    """All others have an effect of -0.5. One visit with an effect of 2 is believed, and opens another arm."""
    prior = Effects(np.array([[0.0, -0.5, -0.5, -0.5]]), np.array([[0.0, 0.01, 0.01, 0.01]]))
    one = np.zeros(1, np.int64)
    noise = Noise(level_per_s=0.0, effect_per_s=0.0, visits=1e12)
    likely = told([(0, 0.0, 5.0)] * 5 + [(1, -0.5, 5.0)], noise).mixture(one, prior, 0.0)
    unlike = told([(0, 0.0, 5.0)] * 5 + [(1, 2.0, 5.0)], noise).mixture(one, prior, 0.0)
    assert (likely.far_share[0, 1:] <= 0.2 + 1e-9).all()
    assert (unlike.far_share[0, 1:] > 0.8).all()
    assert unlike.effects.mean[0, 1] > 1.3
    assert unlike.effects.variance[0, 2] > 2 * likely.effects.variance[0, 2]


@given(st.integers(0, 2**16))
def test_the_level_fits_the_effects_that_are_believed(seed: int) -> None:
    """The incumbent's visits are at 1. Whatever is believed of its effect, level and effect sum to that."""
    rng = np.random.default_rng(seed)
    found, one = Posteriors(ARMS, STILL), np.zeros(1, np.int64)
    for number in range(60):
        value = 1.0 + rng.normal(0, 0.1)
        found.observe(one, np.array([2]), np.array([value]), np.array([5.0]), np.array([number * 1.0]))
    believed = Effects(rng.uniform(-1, 1, (1, ARMS)), np.full((1, ARMS), 0.1))
    level = found.levels(one, believed, 60.0)[0]
    assert level + believed.mean[0, 2] == pytest.approx(1.0, abs=0.15)


def test_the_chance_of_being_unlike_is_that_of_bayes() -> None:
    """One arm, whose effect the data tell to be 1.2 with a variance of 0.3: two normal densities decide."""
    found, one = Posteriors(2, Noise(visits=1e12)), np.zeros(1, np.int64)
    prior = Effects(np.array([[0.0, -0.2]]), np.array([[0.0, 0.05]]))
    site = Effects(np.array([[0.0, 1.2]]), np.array([[np.inf, 0.3]]))
    found.grow(1)
    made = found.mixture(one, prior, 0.0, site)

    def density(variance: float) -> float:
        return float(np.exp(-(1.4**2) / (2 * variance)) / np.sqrt(variance))

    noise = Noise()
    far = noise.far_share * density(0.3 + 0.05 + noise.far)
    near = (1 - noise.far_share) * density(0.3 + 0.05 + noise.between)
    assert made.far_share[0, 1] == pytest.approx(far / (far + near), rel=1e-6)
