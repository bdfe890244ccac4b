# SPDX-License-Identifier: Apache-2.0
from itertools import combinations
from math import comb, exp, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltp_switcher.errors import InvalidValueError
from ltp_switcher.mpts import SuccessiveAcceptsRejects, phase_pulls


def run(means: np.ndarray, k: int, budget: int, seed: int, noise: float | None = None) -> tuple[int, ...]:
    """One search on a Bernoulli bandit, or a Gaussian one where `noise` is its deviation."""
    rng = np.random.default_rng(seed)
    search = SuccessiveAcceptsRejects(len(means), k, budget, rng)
    while (arm := search.next_arm()) is not None:
        mean = means[arm]
        search.observe(float(rng.random() < mean) if noise is None else rng.normal(mean, noise))
    assert search.result is not None
    return search.result


@settings(max_examples=150, deadline=None)
@given(st.integers(2, 20), st.data())
def test_budget_is_met_to_the_pull(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, n - 1))
    budget = data.draw(st.integers(n, 300))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    search = SuccessiveAcceptsRejects(n, k, budget, rng)
    asked = 0
    while (arm := search.next_arm()) is not None:
        assert search.result is None
        search.observe(float(rng.random() < (arm + 1) / (n + 1)))
        asked += 1
    assert asked == search.pulls.sum() == budget
    assert search.pulls.min() >= 1
    team = search.result
    assert team is not None
    assert len(team) == len(set(team)) == k


@settings(max_examples=200, deadline=None)
@given(st.integers(2, 20), st.integers(0, 400))
def test_every_phase_pulls_at_least_what_algorithm_2_asks(n: int, extra: int) -> None:
    budget = n + extra
    pulls, spare = phase_pulls(n, budget)
    log_bar = 0.5 + sum(1 / i for i in range(2, n + 1))
    for j in range(1, n):
        n_j = int(extra / (log_bar * (n + 1 - j)))
        assert pulls[:j].sum() >= n_j
    assert int(pulls @ np.arange(n, 1, -1)) + spare == budget
    assert spare in (0, 1)


def test_sums_are_kept_across_phases() -> None:
    search = SuccessiveAcceptsRejects(3, 1, 30, np.random.default_rng(1))
    total = np.zeros(3)
    while (arm := search.next_arm()) is not None:
        total[arm] += arm
        search.observe(float(arm))
    assert search.result == (2,)
    np.testing.assert_allclose(search.sums, total)


@pytest.mark.parametrize(
    ("means", "k", "budget"),
    [([0.9, 0.85, 0.15, 0.1], 2, 2000), ([0.95, 0.2, 0.1], 1, 1200), ([0.9, 0.9, 0.1, 0.05, 0.0], 2, 3000)],
)
def test_error_stays_under_theorem_5_1(means: list[float], k: int, budget: int) -> None:
    n, mu = len(means), np.array(means)
    gaps = np.sort(np.where(np.arange(n) < k, mu - mu[k], mu[k - 1] - mu))
    h2 = float(np.max(np.arange(1, n + 1) / gaps**2))
    bound = 2 * n**2 * exp(-(budget - n) / (8 * log(budget) * h2))
    runs = 60
    error = sum(set(run(mu, k, budget, seed)) != set(range(k)) for seed in range(runs)) / runs
    print(f"n={n} k={k} T={budget}: empirical error {error:.3f}, bound {bound:.3f}")
    assert bound < 1
    assert error <= bound


def test_repeated_runs_agree_far_better_than_chance(capsys: pytest.CaptureFixture[str]) -> None:
    means = np.array([0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.45, 0.4, 0.35, 0.3, 0.2])
    n, k = len(means), 6
    teams = [frozenset(run(means, k, 100, seed, noise=0.15)) for seed in range(40)]
    pairs = list(combinations(teams, 2))
    same = float(np.mean([a == b for a, b in pairs]))
    overlap = float(np.mean([len(a & b) / k for a, b in pairs]))
    with capsys.disabled():
        print(
            f"\nMPTS, T=100, n=11, k=6: same team in {same:.1%} of pairs of runs (chance "
            f"{1 / comb(n, k):.1%}), shared members {overlap:.1%} (chance {k / n:.1%})"
        )
    assert same > 20 / comb(n, k)
    assert overlap > 0.85


def test_edges() -> None:
    everyone = SuccessiveAcceptsRejects(4, 4, 10)
    assert everyone.next_arm() is None
    assert everyone.result == (0, 1, 2, 3)
    assert run(np.array([0.0, 1.0]), 1, 2, 0) == (1,)
    assert run(np.array([0.0, 1.0]), 1, 3, 0) == (1,)
    assert run(np.array([0.0, 0.0, 1.0]), 1, 30, 0) == (2,)
    assert SuccessiveAcceptsRejects(1, 1, 1).result == (0,)
    with pytest.raises(InvalidValueError, match="spent"):
        everyone.observe(1.0)


@pytest.mark.parametrize(
    ("field", "args"), [("n_arms", (0, 1, 1)), ("k", (3, 4, 9)), ("k", (3, 0, 9)), ("budget", (3, 1, 2))]
)
def test_bad_input_names_the_field(field: str, args: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidValueError, match=f"^{field}:"):
        SuccessiveAcceptsRejects(*args)


def test_not_finite_reward_is_refused() -> None:
    with pytest.raises(InvalidValueError, match="finite"):
        SuccessiveAcceptsRejects(3, 1, 9).observe(float("nan"))
