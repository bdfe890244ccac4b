# SPDX-License-Identifier: Apache-2.0
"""The sequential test: each bet is fair under every lot, and the bounds are on the right side."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ltp_switcher.daemon.gain.evidence import BETS, Evidence, Power, Round, log_bets

PROVEN = 40.0
"""1 over half of 5 %."""
numbers = st.floats(-30, 30, allow_nan=False, width=32)
holes = st.one_of(st.just(float("nan")), numbers)


@st.composite
def units(draw: st.DrawFn) -> tuple[np.ndarray, int]:
    """Values of some units by block, with holes and ties, and how many blocks each is treated in."""
    blocks = draw(st.integers(2, 6))
    count = draw(st.integers(1, 2))
    values = draw(st.lists(st.lists(holes, min_size=blocks, max_size=blocks), min_size=count, max_size=count))
    return np.array(values), draw(st.integers(1, blocks - 1))


def lots(count: int, blocks: int, treated: int) -> list[np.ndarray]:
    """All lots of so many units."""
    choices = list(combinations(range(blocks), treated))
    found = []
    for of_units in product(choices, repeat=count):
        lot = np.zeros((count, blocks), np.bool_)
        for unit, chosen in enumerate(of_units):
            lot[unit, list(chosen)] = True
        found.append(lot)
    return found


@given(units())
def test_over_all_lots_a_bet_pays_back_its_stake(given_units: tuple[np.ndarray, int]) -> None:
    """Whatever the values are: so no assumption about traffic is needed."""
    values, treated = given_units
    bets = np.concatenate([BETS, -BETS])
    every = [np.exp(log_bets(values, lot, bets)) for lot in lots(*values.shape, treated)]
    assert np.mean(every, axis=0) == pytest.approx(np.ones(bets.shape), abs=1e-9)


@given(units(), st.floats(0.01, 5), st.sampled_from([-1.0, 1.0]))
def test_lower_treated_blocks_pay_a_bet_on_them_more(
    given_units: tuple[np.ndarray, int], less: float, side: float
) -> None:
    values, treated = given_units
    lot = np.arange(values.shape[1])[None].repeat(len(values), axis=0) < treated
    before = log_bets(values, lot, side * BETS)
    after = log_bets(values - less * lot, lot, side * BETS)
    assert (side * (after - before) >= -1e-9).all()


@given(units(), st.floats(-10, 10), st.floats(0.1, 10))
def test_neither_level_nor_scale_matters(
    given_units: tuple[np.ndarray, int], level: float, scale: float
) -> None:
    """Ties may be broken by rounding, so there are none."""
    values, treated = given_units
    known = values[np.isfinite(values)]
    assume(np.unique(np.round(known, 3)).size == known.size)
    lot = np.arange(values.shape[1])[None].repeat(len(values), axis=0) < treated
    assert log_bets(values * scale + level, lot, BETS) == pytest.approx(log_bets(values, lot, BETS))


@given(st.integers(1, 4), st.integers(3, 6), st.booleans(), st.floats(-0.5, 1.0), st.integers(0, 99))
def test_an_effect_that_is_put_in_is_taken_out_again(
    prefixes: int, blocks: int, together: bool, effect: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    logs = rng.normal(0, 1, (prefixes, blocks))
    treated = np.zeros((prefixes, blocks), np.bool_)
    treated[:, rng.integers(blocks)] = True
    found = Round(logs, treated, together)
    assert found.redrawn(effect, treated).without(effect).logs == pytest.approx(logs)
    values, of = found.values()
    assert values.shape == of.shape == ((1 if together else prefixes), blocks)


def test_a_prefix_level_and_the_load_of_a_block_are_taken_out() -> None:
    rng = np.random.default_rng(1)
    logs = rng.normal(0, 0.1, (5, 6))
    treated = rng.permuted(np.tile(np.arange(6) < 1, (5, 1)), axis=1)
    levels, loads = rng.normal(0, 9, (5, 1)), rng.normal(0, 9, (1, 6))
    one, other = (
        Round(values, treated, together=False).values()[0] for values in (logs, logs + levels + loads)
    )
    assert other == pytest.approx(one)
    together = Round(logs + levels, treated, together=True).values()[0]
    assert together == pytest.approx(Round(logs, treated, together=True).values()[0])


def rounds(effect: float, count: int, spread: float, seed: int = 1) -> list[Round]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        treated = np.zeros((1, 5), np.bool_)
        treated[0, rng.integers(5)] = True
        logs = rng.standard_t(2, (1, 5)) * spread + np.log1p(effect) * treated
        found.append(Round(logs, treated, together=True))
    return found


@pytest.mark.parametrize("effect", [-0.2, 0.0, 0.2])
def test_the_bounds_close_in_on_the_effect(effect: float) -> None:
    evidence = Evidence([-0.5, -0.3, -0.2, -0.1, -0.05, 0.05, 0.1, 0.2, 0.3, 0.5])
    assert (evidence.lower, evidence.upper) == (None, None)
    for found in rounds(effect, 600, 0.1):
        for at in range(evidence.effects.size):
            evidence.take(found, at)
    assert evidence.lower is not None
    assert evidence.upper is not None
    assert effect - 0.11 < evidence.lower < effect < evidence.upper < effect + 0.11


def test_it_is_proven_once_the_mean_bet_has_paid_forty() -> None:
    """The treated one of two blocks is the lower one each time: all bets win, and pay at most twofold."""
    evidence = Evidence([0.0])
    sizes = np.array([1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2])
    told = []
    for number in range(1, 12):
        evidence.take(Round(np.array([[0.0, 1.0]]), np.array([[True, False]]), together=True), 0)
        paid = np.exp(sizes * number) / np.cosh(sizes) ** number
        assert (evidence.upper == 0.0) == (paid.mean() >= PROVEN)
        assert evidence.lower is None
        told.append(paid.mean())
    assert any(PROVEN / 2 <= paid < PROVEN for paid in told), "half as much is no proof"
    assert evidence.upper == 0.0


def test_what_was_proven_stays_so() -> None:
    evidence = Evidence([0.0])
    for found in rounds(-0.9, 20, 0.1):
        evidence.take(found, 0)
    assert evidence.upper == 0.0
    for found in rounds(9.0, 200, 0.1):
        evidence.take(found, 0)
    assert (evidence.upper, evidence.lower) == (0.0, 0.0)


def test_the_time_of_a_proof_is_told_from_the_noise() -> None:
    needed = {}
    for spread in (0.05, 0.2):
        power = Power(-0.1, 1)
        assert power.rounds is None
        for found in rounds(0.0, 60, spread):
            power.take(found, 32)
        assert power.rounds is not None
        taken = []
        for seed in range(40):
            evidence = Evidence([0.0])
            for number, found in enumerate(rounds(-0.1, 400, spread, seed), 1):
                evidence.take(found, 0)
                if evidence.upper == 0.0:
                    taken.append(number)
                    break
        needed[spread] = power.rounds
        assert len(taken) == 40
        assert 0.5 < power.rounds / np.median(taken) < 2
    assert needed[0.2] > 2 * needed[0.05]


@given(st.sampled_from(["effects", "logs", "most"]), st.sampled_from(["shape", "nan", "value"]))
def test_other_evidence_is_refused(name: str, damage: str) -> None:
    evidence = Evidence([-0.1, 0.0])
    arrays = {key: array.copy() for key, array in evidence.arrays().items()}
    if damage == "value":
        assume(name == "effects")
        arrays[name] = arrays[name] - 0.5
    else:
        arrays[name] = arrays[name][:-1] if damage == "shape" else np.full_like(arrays[name], np.nan)
    with pytest.raises(ValueError, match=r"not|other"):
        evidence.restore(arrays)
