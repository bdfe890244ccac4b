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


def test_reward_is_equation_1() -> None:
    assert metrics.reward([10.0], [50.0], [0.0]) == pytest.approx([2.0])
    assert metrics.reward([10.0], [50.0], [0.1]) == pytest.approx([0.5])  # (10 - 5 * 0.1 * 10)^2 / 50
    assert metrics.reward([10.0], [50.0], [0.1], zeta=0.0, kappa=1.0) == pytest.approx([0.2])


@given(RATE, POSITIVE, LOSS)
def test_reward_never_falls_with_throughput_nor_rises_with_delay_or_loss(
    rate: float, rtt: float, loss: float
) -> None:
    (here,) = metrics.reward([rate], [rtt], [loss])
    assert here >= 0.0
    assert metrics.reward([rate * 2], [rtt], [loss])[0] >= here
    assert metrics.reward([rate], [rtt * 2], [loss])[0] <= here
    assert metrics.reward([rate], [rtt], [min(1.0, loss + 0.01)])[0] <= here


def test_heavy_loss_earns_nothing() -> None:
    assert metrics.reward([100.0, 100.0], [10.0, 10.0], [0.2, 1.0]).tolist() == [0.0, 0.0]


def test_bins_without_rtt_take_the_last_one_measured() -> None:
    nan = float("nan")
    rewards = metrics.reward([10.0, 10.0, 10.0, 10.0], [nan, 50.0, nan, 100.0], [0.0] * 4)
    assert rewards.tolist() == [0.0, 2.0, 2.0, 1.0]
    assert metrics.reward([], [], []).size == 0


def test_loss_rate() -> None:
    assert metrics.loss_rate([0, 1, 5], [0, 9, 0]).tolist() == [0.0, 0.1, 1.0]
    assert float(metrics.loss_rate(1, 3)) == 0.25


@given(st.lists(st.floats(0.0, 1e300), min_size=1, max_size=30))
def test_jain_lies_between_one_nth_and_one(throughputs: list[float]) -> None:
    index = metrics.jain_index(throughputs)
    assert 1 / len(throughputs) - 1e-9 <= index <= 1 + 1e-9


@given(st.lists(POSITIVE, min_size=1, max_size=30), POSITIVE)
def test_jain_does_not_depend_on_the_unit(throughputs: list[float], factor: float) -> None:
    scaled = [x * factor for x in throughputs]
    assert metrics.jain_index(scaled) == pytest.approx(metrics.jain_index(throughputs))


def test_jain_extremes() -> None:
    assert metrics.jain_index([3.0, 3.0, 3.0]) == pytest.approx(1.0)
    assert metrics.jain_index([3.0, 0.0, 0.0]) == pytest.approx(1 / 3)
    assert metrics.jain_index([0.0, 0.0]) == 1.0


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
