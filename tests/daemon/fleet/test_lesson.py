# SPDX-License-Identifier: Apache-2.0
"""Lessons as values of the store."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.datapath.protocol import ArmId
from ltp_switcher.daemon.fleet.lesson import ARMS, DTYPE, PLACES, Verdict, effects, pack, unpack
from ltp_switcher.daemon.gain.value import CLIP

NOW_S, AGE_S, MODEL = 1_800_000_000.0, 86_400.0, 7
MEANS = st.floats(-2 * CLIP, 2 * CLIP)
VARIANCES = st.one_of(st.just(np.inf), st.floats(1e-4, 100.0))


def told(means: dict[int, tuple[float, float]], visits: int = 12, model: int = MODEL) -> bytes:
    """A lesson with these means and variances by place."""
    mean, variance = np.zeros(ARMS), np.full(ARMS, np.inf)
    for place, (of, spread) in means.items():
        mean[place], variance[place] = of, spread
    return pack(model, NOW_S, visits, mean, variance)


def verdict(value: bytes, now_s: float = NOW_S) -> Verdict:
    return Verdict(int(unpack([value], MODEL, now_s, AGE_S)[1][0]))


@given(st.lists(st.tuples(MEANS, VARIANCES), min_size=ARMS - 1, max_size=ARMS - 1))
def test_what_is_packed_is_unpacked(arms: list[tuple[float, float]]) -> None:
    mean, variance = np.array([(0.0, np.inf), *arms]).T
    value = pack(MODEL, NOW_S, 3, mean, variance)
    assert len(value) <= 1024
    lessons, verdicts = unpack([value], MODEL, NOW_S, AGE_S)
    assert verdicts.tolist() == [Verdict.USABLE]
    found = effects(lessons, NOW_S)
    known = np.isfinite(variance)
    assert np.isfinite(found[1][0]).tolist() == known.tolist()
    assert found[0][0] == pytest.approx(np.where(known, mean, 0.0), abs=1e-5)
    assert found[1][0][known] == pytest.approx(variance[known], rel=1e-5)


@given(st.lists(st.floats(0.0, AGE_S), min_size=2, max_size=5))
def test_an_older_lesson_is_less_certain(ages_s: list[float]) -> None:
    def variance(age_s: float) -> float:
        lessons, _ = unpack([told({2: (0.5, 0.01)})], MODEL, NOW_S + age_s, AGE_S)
        return float(effects(lessons, NOW_S + age_s)[1][0, 2])

    found = [variance(age_s) for age_s in sorted(ages_s)]
    assert found == sorted(found)
    assert variance(0.0) == pytest.approx(0.01)
    assert variance(AGE_S) > 5 * variance(0.0)


def test_a_clock_that_is_ahead_makes_a_lesson_no_more_certain() -> None:
    lessons, _ = unpack([told({2: (0.5, 0.01)})], MODEL, NOW_S - 1800.0, AGE_S)
    assert effects(lessons, NOW_S - 1800.0)[1][0, 2] == pytest.approx(0.01)


@given(st.lists(st.binary(max_size=300), max_size=8))
def test_any_bytes_have_a_verdict_and_only_usable_ones_tell_anything(values: list[bytes]) -> None:
    lessons, verdicts = unpack(values, MODEL, NOW_S, AGE_S)
    assert lessons.shape == verdicts.shape == (len(values),)
    bad = verdicts != Verdict.USABLE
    assert not lessons["variance"][bad].any()


@given(st.integers(0, DTYPE.itemsize - 1), st.integers(1, 255))
def test_a_changed_byte_leads_to_no_impossible_number(place: int, change: int) -> None:
    value = bytearray(told({2: (0.5, 0.1), 12: (-0.2, 0.3)}))
    value[place] ^= change
    lessons, _ = unpack([bytes(value)], MODEL, NOW_S, AGE_S)
    mean, variance = effects(lessons, NOW_S)
    assert (np.abs(mean) <= 6.0).all()
    assert (variance >= 0.99e-4).all()


@pytest.mark.parametrize(
    ("mean", "variance"),
    [(6.1, 0.1), (-6.1, 0.1), (np.nan, 0.1), (np.inf, 0.1), (0.5, 1e-6), (0.5, -1.0), (0.5, 101.0),
     (0.5, np.nan), (0.5, 0.0)],
)  # fmt: skip
def test_numbers_that_no_rewards_lead_to_are_refused(mean: float, variance: float) -> None:
    made = np.frombuffer(told({2: (0.5, 0.1)}), DTYPE).copy()
    made["mean"][0, 2], made["variance"][0, 2] = mean, variance
    assert verdict(made.tobytes()) is Verdict.IMPOSSIBLE


def test_other_versions_models_and_times_do_not_count() -> None:
    good = told({2: (0.5, 0.1)})
    assert verdict(good) is Verdict.USABLE
    assert verdict(b"\x02\x00" + good[2:]) is Verdict.OTHER_VERSION
    assert verdict(b"\x02\x00" + good[2:] + b"more") is Verdict.OTHER_VERSION
    assert verdict(good[:-1]) is Verdict.DAMAGED
    assert verdict(b"") is Verdict.DAMAGED
    assert verdict(told({2: (0.5, 0.1)}, model=8)) is Verdict.OTHER_MODEL
    assert verdict(good, NOW_S + AGE_S + 1) is Verdict.STALE
    assert verdict(good, NOW_S - 2 * 3600) is Verdict.STALE
    assert verdict(told({2: (0.5, 0.1)}, visits=0)) is Verdict.IMPOSSIBLE


def test_a_lesson_says_nothing_of_the_decisions_own_choice() -> None:
    made = np.frombuffer(told({2: (0.5, 0.1)}), DTYPE).copy()
    made["mean"][0, 0], made["variance"][0, 0] = 0.5, 0.1
    assert verdict(made.tobytes()) is Verdict.IMPOSSIBLE


def test_places_of_arms_are_those_of_the_module() -> None:
    assert {arm.name.lower(): arm.value for arm in ArmId if arm.value} == PLACES
    assert max(PLACES.values()) < ARMS
