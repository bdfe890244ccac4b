# SPDX-License-Identifier: Apache-2.0
"""The paired tournament on invented bandits, whose log ratios to arm 0 are known."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ltp_switcher.errors import InvalidValueError
from ltp_switcher.mpts import PairedTournament
from ltp_switcher.mpts.tournament import student_quantile


def run(truth: list[float], k: int, noise: float, seed: int) -> PairedTournament:
    """One tournament; the log ratios are normal around the truth, that of arm 0 being 0."""
    rng = np.random.default_rng(seed)
    search = PairedTournament(len(truth), k)
    while (arm := search.next_arm()) is not None:
        search.observe(arm, rng.normal(truth[arm] - truth[0], noise))
    return search


def teams(truth: list[float], k: int, noise: float, runs: int = 300) -> list[tuple[int, ...]]:
    found = [run(truth, k, noise, seed).result for seed in range(runs)]
    assert all(team is not None for team in found)
    return [team for team in found if team is not None]


@settings(max_examples=150, deadline=None)
@given(st.integers(2, 8), st.sampled_from([0.0, 0.05, 0.3, 2.5]), st.data())
def test_the_budget_is_never_exceeded(n: int, noise: float, data: st.DataObject) -> None:
    k = data.draw(st.integers(1, n))
    rounds = data.draw(st.integers(3, 12))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**31)))
    truth = rng.normal(0.0, 0.5, n)
    search = PairedTournament(n, k, rounds=rounds)
    asked = 0
    while (arm := search.next_arm()) is not None:
        assert search.result is None
        assert arm != 0
        search.observe(arm, rng.normal(truth[arm], noise), weight=float(rng.uniform(0.2, 1.0)))
        asked += 1
    assert asked == search.pulls.sum() <= search.budget <= (n - 1) * rounds
    assert search.pulls.max() <= rounds
    team = search.result
    assert team is not None
    assert len(team) == len(set(team)) == k
    assert sorted(search.ranking()) == list(range(n))


@pytest.mark.parametrize("best", [0, 1, 2])
@pytest.mark.parametrize("noise", [0.05, 0.15])
def test_the_best_arm_is_picked_with_the_stated_probability(best: int, noise: float) -> None:
    truth = [-0.8, -0.5, -0.9]
    truth[best] = 0.0
    found = teams(truth, 1, noise)
    assert np.mean([team == (best,) for team in found]) >= 0.9


def test_a_team_is_picked_with_the_stated_probability() -> None:
    found = teams([0.0, 0.6, -0.7, 0.5, -0.5], 2, 0.12)
    assert np.mean([set(team) == {1, 3} for team in found]) >= 0.9


@pytest.mark.parametrize("noise", [0.02, 0.2, 2.5])
def test_an_arm_that_is_as_good_seldom_passes_the_incumbent(noise: float) -> None:
    """Any wrong order counts, of all looks at both arms; `error` is 0.1."""
    wrong = np.mean([team != (0,) for team in teams([0.0, 0.0, 0.0], 1, noise)])
    print(f"noise {noise}: {wrong:.3f} of the tournaments end with a wrong order")
    assert wrong <= 0.1


def test_clear_arms_take_few_rounds() -> None:
    used = [int(run([0.0, -0.6, -1.2], 1, 0.1, seed).pulls.sum()) for seed in range(100)]
    assert np.mean(used) < 9


@pytest.mark.parametrize("gap", [0.0, 0.2])
def test_it_gives_up_under_noise(gap: float) -> None:
    """A log ratio of 2.3 from round to round is what LTE links show. 16 rounds would not tell 0.2."""
    searches = [run([0.0, gap, -gap], 1, 2.3, seed) for seed in range(200)]
    assert np.mean([search.pulls.sum() for search in searches]) < 11
    assert np.mean([search.decided for search in searches]) < 0.1
    assert np.mean([search.result == (0,) for search in searches]) > 0.9, "the order of before stands"


def test_aborted_rounds_count_less() -> None:
    whole, aborted = PairedTournament(2, 1), PairedTournament(2, 1)
    for value in (-0.5, -0.7, -0.9):
        whole.observe(1, value)
        aborted.observe(1, value, weight=0.3)
    assert whole.means[1] == pytest.approx(aborted.means[1])
    mixed = PairedTournament(2, 1)
    for value, weight in ((0.0, 1.0), (0.0, 1.0), (-1.0, 0.3)):
        mixed.observe(1, value, weight)
    assert mixed.means[1] == pytest.approx(-0.3 / 2.3)


def test_the_interval_is_students() -> None:
    search = PairedTournament(2, 1, rounds=8, error=0.1)
    values = np.array([0.3, -0.2, 0.9])
    for value in values:
        search.observe(1, value)
    tail = 0.1 / (2 * 6)
    expected = stats.t.ppf(1 - tail, 2) * values.std(ddof=1) / np.sqrt(3)
    np.testing.assert_allclose(search.half_widths, [0.0, expected])
    assert not search.decided


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 7, 14, 63])
@pytest.mark.parametrize("tail", [0.25, 0.02, 0.004, 1e-5])
def test_students_quantile(freedom: int, tail: float) -> None:
    assert student_quantile(freedom, tail) == pytest.approx(stats.t.ppf(1 - tail, freedom), rel=1e-6)


def test_an_arm_that_is_better_by_little_stays_behind() -> None:
    for better, team in ((0.09, (0,)), (0.11, (1,))):
        search = PairedTournament(2, 1)
        while search.next_arm() is not None:
            search.observe(1, better)
        assert (search.result, search.decided) == (team, True)


def test_an_arm_that_is_known_to_five_percent_needs_no_more_rounds() -> None:
    search = PairedTournament(2, 1)
    for value in (0.09, 0.07, 0.05, 0.07):
        assert search.next_arm() == 1
        search.observe(1, value)
    assert not search.decided
    assert (search.next_arm(), search.result) == (None, (0,))


def test_extreme_ratios_count_as_a_factor_of_twenty() -> None:
    search = PairedTournament(2, 1)
    for value in (-np.inf, -50.0, -3.0):
        search.observe(1, value)
    assert search.means[1] == pytest.approx(-3.0)
    assert (search.decided, search.result) == (True, (0,))


def test_nothing_to_choose_asks_for_nothing() -> None:
    search = PairedTournament(3, 3)
    assert (search.next_arm(), search.result, search.budget, search.decided) == (None, (0, 1, 2), 0, True)


@pytest.mark.parametrize(
    ("field", "args", "more"),
    [
        ("n_arms", (0, 1), {}),
        ("k", (3, 0), {}),
        ("k", (3, 4), {}),
        ("rounds", (3, 1), {"rounds": 2}),
        ("error", (3, 1), {"error": 1.0}),
    ],
)
def test_bad_settings_name_the_field(field: str, args: tuple[int, int], more: dict[str, float]) -> None:
    with pytest.raises(InvalidValueError, match=f"^{field}:"):
        PairedTournament(*args, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "args"),
    [("arm", (2, 0.0)), ("arm", (0, 0.0)), ("log_ratio", (1, float("nan"))), ("weight", (1, 0.0, 0.0)),
     ("weight", (1, 0.0, 1.1))],
)  # fmt: skip
def test_bad_rounds_name_the_field(field: str, args: tuple[int, float]) -> None:
    with pytest.raises(InvalidValueError, match=f"^{field}:"):
        PairedTournament(3, 1).observe(*args)
