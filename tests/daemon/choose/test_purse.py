# SPDX-License-Identifier: Apache-2.0
"""The purse of the trials: no more is spent than was earned, and on the best trials first."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltp_switcher.daemon.choose.visits.posterior import Effects, Mixture
from ltp_switcher.daemon.choose.visits.purse import Purse, best_trials, expected

PREFIXES = 6
MINUTES = 450
"""Enough for both shares: by then one in a hundred of all flows is more than two visits of any prefix."""


@given(st.floats(-2, 2), st.floats(0.01, 2))
def test_expectations_are_those_of_the_normal_distribution(mean: float, spread: float) -> None:
    x = mean + spread * np.linspace(-9, 9, 20_001)
    weights = np.exp(-((x - mean) ** 2) / (2 * spread**2))
    weights /= weights.sum()
    gain, cost = expected(np.array([mean]), np.array([spread]))
    assert gain == pytest.approx([(np.maximum(x, 0) * weights).sum()], abs=1e-4)
    assert cost == pytest.approx([(np.maximum(-x, 0) * weights).sum()], abs=1e-4)


def test_the_ledger_is_arithmetic() -> None:
    purse = Purse()
    purse.grow(2)
    purse.earn(np.array([0, 1, 0]), np.array([100.0, 50.0, 100.0]))
    assert purse.balance == pytest.approx(2.5)
    assert purse.balances(np.array([0, 1])) == pytest.approx([6.0, 1.5])
    # Two flows at half of the incumbent's reward, and one at twice of it.
    purse.settle(np.array([0, 1]), np.array([2.0, 1.0]), np.array([-math.log(2), math.log(2)]))
    assert purse.spent == pytest.approx([2 * math.log(2), -math.log(2)])
    assert purse.balance == pytest.approx(2.5 - math.log(2))
    assert purse.share == pytest.approx(math.log(2) / 250)


@given(st.floats(-20, 20))
def test_a_trial_is_charged_no_less_than_it_lost(effect: float) -> None:
    purse = Purse()
    purse.grow(1)
    purse.settle(np.array([0]), np.array([1.0]), np.array([effect]))
    assert purse.spent[0] >= 1 - math.exp(effect) - 1e-12


@given(st.floats(-20, 20))
def test_noise_pays_in_no_more_than_it_costs(effect: float) -> None:
    purse = Purse()
    purse.grow(2)
    purse.settle(np.array([0, 1]), np.ones(2), np.array([effect, -effect]))
    assert purse.spent.sum() == 0
    assert abs(purse.spent[0]) <= 1


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1), st.integers(1, PREFIXES))
def test_the_worst_trials_leave_both_ledgers_within_their_bounds(seed: int, size: int) -> None:
    """Whatever is drawn, and however bad it is: each flow of every trial earns nothing."""
    rng = np.random.default_rng(seed)
    purse, prefixes = Purse(), np.arange(size)
    purse.grow(size)
    most = rng.uniform(1, 20, size)
    first, excess, excess_all = MINUTES, np.zeros(size), 0.0
    for minute in range(MINUTES):
        mean = purse.mean_visits(prefixes)
        chances = purse.chances(prefixes, rng.uniform(0.1, 2, size), mean, minute * 60.0)
        assert ((chances >= 0) & (chances < 0.5)).all()
        flows = most * rng.uniform(0.5, 1.0, size)
        at = np.flatnonzero(chances)
        purse.earn(prefixes, flows)
        purse.settle(at, flows[at], np.full(at.size, -30.0))
        first = min(first, minute) if at.size else first
        # A trial may be larger than the mean visit for which there was money.
        larger = np.where(chances > 0, np.maximum(flows - mean, 0.0), 0.0)
        excess, excess_all = np.maximum(excess, larger), max(excess_all, larger.sum())
        earned, spent = purse.totals
        assert spent <= max(0.01 * earned, 2 * most.max()) + excess_all + 1e-9
        assert (purse.spent <= np.maximum(0.03 * purse.flows, 2 * most) + excess + 1e-9).all()
    # The first visits tell how large a trial is, and the second ones may try.
    assert first == 1
    # In the end the shares alone count.
    assert spent <= 0.01 * earned + excess_all
    assert (purse.spent <= 0.03 * purse.flows + excess + 1e-9).all()


def test_what_is_set_aside_buys_no_further_trial_until_its_visits_have_ended() -> None:
    """A plan lasts for 10 s, and the last flow that drew by it reports within 12 s."""
    purse = Purse()
    purse.grow(3)
    purse.earn(np.arange(3), np.full(3, 100.0))
    worth, flows = np.ones(1), np.array([1.5])
    first, second, third = np.array([0]), np.array([1]), np.array([2])
    assert purse.chances(first, worth, flows, 0.0)[0] > 0
    assert purse.chances(second, worth, flows, 0.0)[0] > 0
    # The server has 3 flows' rewards, all for the first two prefixes, which may go on.
    assert purse.chances(third, worth, flows, 10.0)[0] == 0
    assert purse.chances(first, worth, flows, 10.0)[0] > 0
    assert purse.chances(third, worth, flows, 21.0)[0] == 0
    # A visit that tries the second prefix's arm lasts on.
    assert purse.chances(third, worth, flows, 60.0, np.array([0, 1]))[0] == 0
    assert purse.chances(third, worth, flows, 60.0, second)[0] > 0


def test_money_goes_where_it_promises_most() -> None:
    """Of two prefixes with the same flows, trials of the second are worth more. There is money for one."""
    purse = Purse()
    purse.grow(3)
    purse.earn(np.array([0, 1]), np.array([1000.0, 1000.0]))
    purse.settle(np.array([2]), np.array([15.0]), np.array([-1.0]))
    chances = purse.chances(np.arange(2), np.array([0.2, 0.5]), np.full(2, 15.0), 0.0)
    assert chances[0] == 0
    assert chances[1] > 0


def test_money_waits_for_the_trial_that_promises_most_whichever_is_planned_first() -> None:
    """The plans of three prefixes are made in turns. There is money for one trial at a time."""
    purse, flows = Purse(), np.ones(1)
    purse.grow(3)
    purse.earn(np.arange(3), np.full(3, 50.0))
    purse.settle(np.zeros(1, np.int64), flows, -flows)
    worths = {0: 0.1, 1: 0.3, 2: 0.5}

    def tries(prefix: int, now_s: float) -> bool:
        return bool(purse.chances(np.array([prefix]), np.array([worths[prefix]]), flows, now_s)[0] > 0)

    assert tries(0, 0.0)
    # A running trial goes on unless another one promises four times as much.
    assert [tries(1, 1.0), tries(0, 10.0), tries(1, 11.0), tries(0, 20.0)] == [False, True, False, True]
    assert [tries(2, 25.0), tries(0, 30.0), tries(2, 35.0), tries(1, 36.0)] == [False] * 4
    # The visits of the first prefix have ended. The second one is planned first, and the third one gets it.
    assert [tries(1, 43.0), tries(2, 45.0), tries(1, 46.0)] == [False, True, False]
    # A bid that is not renewed counts no more, and the money comes back.
    assert [tries(1, 66.0), tries(1, 68.0)] == [False, True]


def test_a_trial_that_gains_pays_for_the_next() -> None:
    purse, none = Purse(), np.zeros(1, np.int64)
    purse.grow(1)
    purse.earn(none, np.array([90.0]))
    worth = np.array([0.3])
    purse.settle(none, np.array([1.2]), np.array([-1.0]))
    assert purse.chances(none, worth, np.ones(1), 0.0)[0] == 0
    purse.settle(none, np.ones(1), np.array([0.5]))
    assert purse.chances(none, worth, np.ones(1), 0.0)[0] > 0


def found(mean: float, near: float, far: float, share: float) -> Mixture:
    """One prefix with one arm beside the decision."""
    return Mixture(
        Effects(np.array([[0.0, mean]]), np.array([[0.0, near]])),
        Effects(np.array([[0.0, mean]]), np.array([[0.0, far]])),
        np.array([[0.0, share]]),
    )


def test_what_a_trial_cannot_teach_is_worth_nothing() -> None:
    none = np.zeros(1, np.int64)
    loud, quiet = (
        best_trials(found(-0.3, 0.2, 1.0, 0.2), none, np.array([noise]))[1][0] for noise in (1e6, 0.1)
    )
    assert quiet > 0.05
    assert loud < 0.01 * quiet


def test_a_bad_arm_may_be_worth_a_trial_where_a_prefix_may_be_unlike_the_others() -> None:
    none, noise = np.zeros(1, np.int64), np.array([0.3])
    worths = [best_trials(found(-0.6, 0.05, 1.5, share), none, noise)[1][0] for share in (0.0, 0.1, 0.9)]
    assert worths[0] < 0.01 < worths[1] < worths[2]


def test_an_arm_a_little_better_does_not_keep_another_from_its_trials() -> None:
    """It costs nothing and gains nearly nothing. The other arm may be much better."""
    mean, variance = np.array([[0.0, 0.1, -0.3]]), np.array([[0.0, 0.002, 1.0]])
    unsure = Effects(mean, variance)
    arms, worths = best_trials(
        Mixture(unsure, unsure, np.full((1, 3), 0.2)), np.zeros(1, np.int64), np.array([0.3])
    )
    assert arms.tolist() == [2]
    assert worths[0] > 0.1


def test_the_incumbent_has_no_trial() -> None:
    alike = Effects(np.array([[0.0, 0.5]]), np.array([[0.0, 0.1]]))
    arms, _ = best_trials(Mixture(alike, alike, np.zeros((1, 2))), np.array([1]), np.array([0.3]))
    assert arms.tolist() == [0]
