# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.measures import jain_index, loss_rate, reward

RATE = st.floats(0.0, 1e5)
POSITIVE = st.floats(1e-3, 1e5)
LOSS = st.floats(0.0, 1.0)


def eq1(throughput: float, loss: float, delay: float, zeta: float = 5.0, kappa: float = 2.0) -> float:
    return float(reward(throughput, loss, delay, zeta=zeta, kappa=kappa))


def test_equation_1_by_hand() -> None:
    # 48 Mbit/s, 2 % loss, 30 ms: (48 * (1 - 5 * 0.02))^2 / 30
    assert eq1(48.0, 0.02, 30.0) == pytest.approx(48**2 * 0.81 / 30)
    assert eq1(10.0, 0.1, 50.0, zeta=0.0, kappa=1.0) == pytest.approx(0.2)


def test_a_negative_base_is_zero_never_its_absolute_value() -> None:
    assert eq1(100.0, 0.2, 10.0) == eq1(100.0, 0.9, 10.0) == 0.0


def test_without_a_delay_there_is_no_reward() -> None:
    assert reward([6.0] * 2, [0.0] * 2, [0.0, np.nan], zeta=5.0, kappa=2.0).tolist() == [0.0, 0.0]
    assert reward([], [], [], zeta=5.0, kappa=2.0).size == 0


@given(RATE, LOSS, POSITIVE)
def test_reward_never_falls_with_throughput_nor_rises_with_delay_or_loss(
    rate: float, loss: float, delay: float
) -> None:
    here = eq1(rate, loss, delay)
    assert here >= 0.0
    assert eq1(rate * 2, loss, delay) >= here
    assert eq1(rate, loss, delay * 2) <= here
    assert eq1(rate, min(1.0, loss + 0.01), delay) <= here


def test_loss_rate() -> None:
    assert loss_rate([0, 1, 5], [0, 9, 0]).tolist() == [0.0, 0.1, 1.0]
    assert float(loss_rate(1, 3)) == 0.25


@given(st.lists(st.floats(0.0, 1e300), min_size=1, max_size=30))
def test_jain_lies_between_one_nth_and_one(throughputs: list[float]) -> None:
    assert 1 / len(throughputs) - 1e-9 <= jain_index(throughputs) <= 1 + 1e-9


@given(st.lists(POSITIVE, min_size=1, max_size=30), POSITIVE)
def test_jain_does_not_depend_on_the_unit(throughputs: list[float], factor: float) -> None:
    scaled = [x * factor for x in throughputs]
    assert jain_index(scaled) == pytest.approx(float(jain_index(throughputs)))


def test_jain_extremes() -> None:
    assert jain_index([3.0, 3.0, 3.0]) == pytest.approx(1.0)
    assert jain_index([3.0, 0.0, 0.0]) == pytest.approx(1 / 3)
    assert jain_index([0.0, 0.0]) == 1.0
    assert jain_index([]) == 1.0


def test_jain_is_taken_over_the_first_axis() -> None:
    """Two flows on three links."""
    np.testing.assert_allclose(jain_index([[1.0, 2.0, 0.0], [1.0, 0.0, 0.0]]), [1.0, 0.5, 1.0])
