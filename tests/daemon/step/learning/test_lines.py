# SPDX-License-Identifier: Apache-2.0
"""A flow's value counts relative to the line of its prefix and size class."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.gain import value
from ltp_switcher.daemon.step.learning.lines import SizeLines
from ltp_switcher.errors import ArtifactError

SIZES = st.integers(1_000, 29_999)


def lines(places: int = 4) -> SizeLines:
    made = SizeLines()
    made.grow(places)
    return made


def at(number: int, count: int) -> np.ndarray:
    return np.full(count, number, np.int64)


def test_size_alone_says_nothing_once_a_line_is_known() -> None:
    """The values rise with the size, and nothing else differs."""
    made, rng = lines(), np.random.default_rng(1)
    sizes = rng.integers(1_000, 30_000, 400)
    told = made.take(at(0, 400), sizes, 1.5 * np.log(sizes))
    assert np.abs(told).max() < 0.05
    later = rng.integers(1_000, 30_000, 50)
    assert np.abs(made.take(at(0, 50), later, 1.5 * np.log(later) + 0.5) - 0.5).max() < 0.05


def test_lines_of_other_prefixes_and_classes_are_others() -> None:
    made = lines()
    made.take(at(0, 3), np.array([2_000, 10_000, 25_000]), np.array([1.0, 2.0, 3.0]))
    assert np.isnan(made.expected(at(1, 1), np.array([10_000]))).all()
    assert np.isnan(made.expected(at(0, 1), np.array([100_000]))).all()
    assert np.isfinite(made.expected(at(0, 1), np.array([10_000]))).all()


def test_the_first_flow_of_a_line_is_worth_nothing_and_the_second_is_compared_with_it() -> None:
    made = lines()
    assert made.take(at(2, 1), np.array([5_000]), np.array([7.0])).tolist() == [0.0]
    assert made.take(at(2, 1), np.array([5_000]), np.array([8.5])) == pytest.approx([1.5])


def test_a_line_does_not_follow_the_arms_whose_gains_are_known() -> None:
    """After 300 flows on an arm that earns more, the same flow without it still has the value 0."""
    made, rng = lines(), np.random.default_rng(3)
    for gain, flows in ((0.0, 100), (1.5, 300)):
        noise = rng.normal(0.0, 0.2, flows)
        told = made.take(at(0, flows), np.full(flows, 5_000), 7.0 + gain + noise, np.full(flows, gain))
        assert told[50:].mean() == pytest.approx(gain, abs=0.08)
    assert made.expected(at(0, 1), np.array([5_000])) == pytest.approx([7.0], abs=0.1)


def test_values_that_say_nothing_leave_the_line_as_it_is() -> None:
    made = lines()
    assert np.isnan(made.take(at(0, 2), np.array([5_000, 6_000]), np.array([-math.inf, math.nan]))).all()
    made.take(at(0, 1), np.array([5_000]), np.array([1.0]))
    told = made.take(at(0, 2), np.array([5_000, 6_000]), np.array([-math.inf, math.nan]))
    assert told[0] == -3
    assert np.isnan(told[1])
    assert made.take(at(0, 1), np.array([5_000]), np.array([2.0])) == pytest.approx([1.0])


@given(st.lists(st.tuples(SIZES, st.floats(-20, 20)), min_size=2, max_size=40), st.integers(1, 39))
def test_a_line_is_the_same_whether_its_flows_come_together_or_one_after_another(
    flows: list[tuple[int, float]], cut: int
) -> None:
    sizes, raw = np.array([one[0] for one in flows]), np.array([one[1] for one in flows])
    whole, parts = lines(), lines()
    whole.take(at(0, len(flows)), sizes, raw)
    for part in (slice(0, cut), slice(cut, None)):
        parts.take(at(0, len(flows))[part], sizes[part], raw[part])
    probe = np.array([1_000, 5_000, 29_000])
    assert parts.expected(at(0, 3), probe) == pytest.approx(whole.expected(at(0, 3), probe), abs=1e-6)


@given(st.lists(st.tuples(SIZES, st.floats(-2, 2)), min_size=1, max_size=40))
def test_the_report_and_the_daemon_fit_the_same_line(flows: list[tuple[int, float]]) -> None:
    sizes, raw = np.array([one[0] for one in flows]), np.array([one[1] for one in flows])
    told = lines().take(at(0, len(flows)), sizes, raw)
    assert told == pytest.approx(value.about_lines(raw, at(0, len(flows)), sizes), abs=1e-6)


def test_old_flows_fade() -> None:
    """After a thousand flows at another level the line is there."""
    made, rng = lines(), np.random.default_rng(2)
    for level in (0.0, 5.0):
        for _ in range(1000):
            size = rng.integers(1_000, 30_000, 1)
            made.take(at(0, 1), size, np.array([level]))
    assert made.expected(at(0, 1), np.array([10_000])) == pytest.approx([5.0], abs=0.1)


def test_the_state_comes_back_and_an_old_one_has_no_lines() -> None:
    made, sizes = lines(), np.array([2_000, 10_000, 25_000])
    made.take(at(1, 3), sizes, np.array([1.0, 2.0, 3.5]))
    state, again, old = made.state(2), SizeLines(), SizeLines()
    again.restore(state, 2)
    assert again.expected(at(1, 3), sizes) == pytest.approx(made.expected(at(1, 3), sizes))
    old.restore({}, 2)
    assert np.isnan(old.expected(at(1, 3), sizes)).all()
    for broken in (np.full((2, 4), np.nan), np.zeros((3, 4))):
        with pytest.raises(ArtifactError, match="lines do not fit 2"):
            SizeLines().restore(state | {"line_value": broken}, 2)
