# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.eval.run import metrics

RATE = st.floats(0.0, 1e5)
POSITIVE = st.floats(1e-3, 1e5)
LOSS = st.floats(0.0, 1.0)


def test_the_reward_of_a_bin_is_equation_1_in_mbit_and_ms() -> None:
    assert metrics.rewards([10.0], [50.0], [0.1]) == pytest.approx([0.5])  # (10 - 5 * 0.1 * 10)^2 / 50


def test_bins_without_rtt_take_the_last_one_measured() -> None:
    nan = float("nan")
    rewards = metrics.rewards([10.0, 10.0, 10.0, 10.0], [nan, 50.0, nan, 100.0], [0.0] * 4)
    assert rewards.tolist() == [0.0, 2.0, 2.0, 1.0]
    assert metrics.rewards([], [], []).size == 0


def test_utilisation_follows_a_changing_capacity() -> None:
    assert metrics.utilisation([6.0, 12.0], [12.0, 24.0]) == 0.5
    assert metrics.utilisation([0.0, 10.0], [0.0, 20.0]) == 0.5
    assert metrics.utilisation([], []) == 0.0


@given(POSITIVE, RATE)
def test_harm_lies_between_zero_and_one(solo: float, shared: float) -> None:
    for harm in (metrics.harm_more_is_better(solo, shared), metrics.harm_less_is_better(solo, shared)):
        assert 0.0 <= harm <= 1.0


def test_harm_is_the_papers() -> None:
    assert metrics.harm_more_is_better(10.0, 4.0) == pytest.approx(0.6)
    assert metrics.harm_less_is_better(40.0, 160.0) == pytest.approx(0.75)
    assert metrics.harm_more_is_better(10.0, 11.0) == 0.0
    assert metrics.harm_more_is_better(0.0, 1.0) == metrics.harm_less_is_better(0.0, 0.0) == 0.0


@given(st.lists(st.floats(0.0, 100.0), min_size=1, max_size=200), st.floats(0.01, 1.0))
def test_histogram_quantile_is_within_one_bin_of_the_exact_one(samples: list[float], quantile: float) -> None:
    edges = np.arange(1.0, 102.0)
    counts, _ = np.histogram(samples, bins=np.concatenate(([0.0], edges)))
    exact = float(np.quantile(samples, quantile, method="inverted_cdf"))
    assert abs(metrics.histogram_quantile(edges, counts, quantile) - exact) <= 1.0 + 1e-9


def test_histogram_quantile_of_nothing_is_not_a_number() -> None:
    assert np.isnan(metrics.histogram_quantile([1.0, 2.0], [0, 0], 0.5))
    assert metrics.histogram_quantile([1.0, 2.0], [0, 4], 0.0) == 1.0


def test_arm_share_is_ordered_and_sums_to_one() -> None:
    share = metrics.arm_share(("bbr", "cubic", "cubic", "vegas"))
    assert list(share.items()) == [("cubic", 0.5), ("bbr", 0.25), ("vegas", 0.25)]
    assert metrics.arm_share(()) == {}
