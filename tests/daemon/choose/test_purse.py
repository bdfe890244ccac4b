# SPDX-License-Identifier: Apache-2.0
"""The purse of the trials: no more is spent than was earned, and on the best trials first."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.choose.visits.posterior import Effects
from ltp_switcher.daemon.choose.visits.purse import Purse, expected

PREFIXES = 6
ARMS = 4


def effects(rng: np.random.Generator) -> Effects:
    mean, variance = rng.normal(-0.2, 0.6, (PREFIXES, ARMS)), rng.uniform(0.01, 0.6, (PREFIXES, ARMS))
    mean[:, 0] = variance[:, 0] = 0.0
    return Effects(mean, variance)


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


@given(st.integers(0, 2**32 - 1))
def test_expected_costs_stay_within_both_purses(seed: int) -> None:
    rng = np.random.default_rng(seed)
    purse, prefixes = Purse(), np.arange(PREFIXES)
    purse.grow(PREFIXES)
    purse.earn(prefixes, rng.uniform(0, 1000, PREFIXES))
    purse.settle(prefixes, rng.uniform(0, 10, PREFIXES), rng.normal(-0.3, 1, PREFIXES))
    found, flows = effects(rng), rng.uniform(0, 500, PREFIXES)
    incumbents = rng.integers(0, ARMS, PREFIXES)
    arms, chances = purse.chances(prefixes, incumbents, found, flows)
    assert (arms != incumbents).all()
    assert ((chances >= 0) & (chances <= 0.25)).all()
    rows = np.arange(PREFIXES)
    mean = found.mean[rows, arms] - found.mean[rows, incumbents]
    spread = np.sqrt(found.variance[rows, arms] + found.variance[rows, incumbents])
    costs = chances * flows * expected(mean, spread)[1]
    assert costs.sum() <= max(purse.balance, 0) + 1e-9
    assert (costs <= np.maximum(purse.balances(prefixes), 0) + 1e-9).all()


def test_money_goes_where_it_promises_most() -> None:
    """Of two prefixes with the same flows, the second may gain much more. There is money for one."""
    purse = Purse()
    purse.grow(2)
    purse.earn(np.array([0, 1]), np.array([1000.0, 1000.0]))
    purse.settle(np.array([0, 1]), np.ones(2), np.array([-19.0, 0.0]))
    mean = np.array([[0.0, -0.5], [0.0, 0.2]])
    variance = np.array([[0.0, 0.1], [0.0, 0.5]])
    arms, chances = purse.chances(
        np.arange(2), np.zeros(2, np.int64), Effects(mean, variance), np.full(2, 1e4)
    )
    assert arms.tolist() == [1, 1]
    assert chances[0] == 0
    assert chances[1] > 0


def test_a_trial_that_gains_pays_for_the_next() -> None:
    purse = Purse()
    purse.grow(1)
    purse.earn(np.zeros(1, np.int64), np.array([10.0]))
    purse.settle(np.zeros(1, np.int64), np.array([1.0]), np.array([-1.0]))
    known = Effects(np.array([[0.0, -0.1]]), np.array([[0.0, 0.3]]))
    assert purse.chances(np.zeros(1, np.int64), np.zeros(1, np.int64), known, np.ones(1))[1][0] == 0
    purse.settle(np.zeros(1, np.int64), np.array([1.0]), np.array([2.0]))
    assert purse.chances(np.zeros(1, np.int64), np.zeros(1, np.int64), known, np.ones(1))[1][0] == 0.25
