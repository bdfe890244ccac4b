# SPDX-License-Identifier: Apache-2.0
"""The purse of the trials: no more is spent than was earned, and on the best trials first."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.choose.visits.posterior import Effects, Mixture
from ltp_switcher.daemon.choose.visits.purse import Purse, expected, worth

PREFIXES = 6
ARMS = 4
MINUTES = 200
"""Enough for a trial: by then one in a hundred of all flows is more than a trial of any prefix may cost."""


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


@given(st.integers(0, 2**32 - 1))
def test_the_worst_trials_leave_both_ledgers_within_their_bounds(seed: int) -> None:
    """Whatever is drawn, and however bad it is: each flow of every trial earns nothing."""
    rng = np.random.default_rng(seed)
    purse, prefixes = Purse(), np.arange(PREFIXES)
    purse.grow(PREFIXES)
    most = rng.uniform(1, 20, PREFIXES)
    incumbents = rng.integers(0, ARMS, PREFIXES)
    tried = 0
    for minute in range(MINUTES):
        arms, chances = purse.chances(
            prefixes, incumbents, rng.uniform(0, 2, (PREFIXES, ARMS)), most, minute * 60.0
        )
        assert (arms != incumbents).all()
        assert ((chances >= 0) & (chances < 0.5)).all()
        flows = most * rng.uniform(0.5, 1.0, PREFIXES)
        at = np.flatnonzero(chances)
        purse.earn(prefixes, flows)
        purse.settle(at, flows[at], np.full(at.size, -30.0))
        tried += at.size
        assert purse.totals[1] <= 0.01 * purse.totals[0] + 1e-9
        assert (purse.spent <= 0.03 * purse.flows + 1e-9).all()
    assert tried


def test_what_is_set_aside_buys_no_second_trial_until_a_visit_has_passed() -> None:
    purse, none = Purse(), np.zeros(1, np.int64)
    purse.grow(2)
    purse.earn(np.arange(2), np.array([100.0, 100.0]))
    worths, flows = np.ones((1, ARMS)), np.array([1.5])
    at = [np.array([0]), np.array([1])]
    assert purse.chances(at[0], none, worths, flows, 0.0)[1][0] > 0
    # The server has 2 flows' rewards: 1.5 of them are for the first prefix, which may go on.
    assert purse.chances(at[1], none, worths, flows, 30.0)[1][0] == 0
    assert purse.chances(at[0], none, worths, flows, 30.0)[1][0] > 0
    assert purse.chances(at[1], none, worths, flows, 95.0)[1][0] > 0


def test_money_goes_where_it_promises_most() -> None:
    """Of two prefixes with the same flows, trials of the second are worth more. There is money for one."""
    purse = Purse()
    purse.grow(2)
    purse.earn(np.array([0, 1]), np.array([1000.0, 1000.0]))
    worths = np.array([[0.0, 0.2], [0.0, 0.5]])
    arms, chances = purse.chances(np.arange(2), np.zeros(2, np.int64), worths, np.full(2, 15.0), 0.0)
    assert arms.tolist() == [1, 1]
    assert chances[0] == 0
    assert chances[1] > 0


def test_a_trial_that_gains_pays_for_the_next() -> None:
    purse, none = Purse(), np.zeros(1, np.int64)
    purse.grow(1)
    purse.earn(none, np.array([90.0]))
    worths = np.array([[0.0, 0.3]])
    assert purse.chances(none, none, worths, np.ones(1), 0.0)[1][0] == 0
    purse.settle(none, np.ones(1), np.array([0.5]))
    assert purse.chances(none, none, worths, np.ones(1), 0.0)[1][0] > 0


def found(mean: float, near: float, far: float, share: float) -> Mixture:
    """One prefix with one arm beside the decision."""
    return Mixture(
        Effects(np.array([[0.0, mean]]), np.array([[0.0, near]])),
        Effects(np.array([[0.0, mean]]), np.array([[0.0, far]])),
        np.array([[0.0, share]]),
    )


def test_what_a_trial_cannot_teach_is_worth_nothing() -> None:
    none = np.zeros(1, np.int64)
    loud, quiet = (worth(found(-0.3, 0.2, 1.0, 0.2), none, np.array([noise]))[0, 1] for noise in (1e6, 0.1))
    assert quiet > 0.05
    assert loud < 0.01 * quiet


def test_a_bad_arm_may_be_worth_a_trial_where_a_prefix_may_be_unlike_the_others() -> None:
    none, noise = np.zeros(1, np.int64), np.array([0.3])
    worths = [worth(found(-0.6, 0.05, 1.5, share), none, noise)[0, 1] for share in (0.0, 0.1, 0.9)]
    assert worths[0] < 0.01 < worths[1] < worths[2]
