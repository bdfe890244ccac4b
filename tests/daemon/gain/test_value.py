# SPDX-License-Identifier: Apache-2.0
"""The value of a flow, against arithmetic."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.datapath.protocol import OUTCOME_DTYPE
from ltp_switcher.daemon.gain.value import clipped, information, raw_values, size_classes


def outcome(**fields: int) -> np.ndarray:
    """One outcome: 1 MB in 2 s at an RTT of 50 ms, and 1,000 packets."""
    made = np.zeros(1, OUTCOME_DTYPE)
    usual = {"acked_bytes": 1_000_000, "busy_us": 2_000_000, "rtt_us_sum": 500_000, "rtt_samples": 10}
    for name, value in {**usual, "delivered": 1000, **fields}.items():
        made[name] = value
    return made


@pytest.mark.parametrize(
    ("fields", "value"),
    [
        # 4 Mbit/s, squared, by 50 ms.
        ({}, math.log(16 / 50)),
        # Of 1,000 packets 100 are lost: half of the throughput is left.
        ({"delivered": 900, "lost": 100}, math.log(4 / 50)),
        ({"delivered": 800, "lost": 200}, -math.inf),
        ({"delivered": 100, "lost": 900}, -math.inf),
        ({"rtt_us_sum": 1_000_000}, math.log(16 / 100)),
        ({"busy_us": 1_000_000}, math.log(64 / 50)),
    ],
)
def test_a_value_is_eq_1(fields: dict[str, int], value: float) -> None:
    assert raw_values(outcome(**fields)) == pytest.approx([value])


@pytest.mark.parametrize("missing", ["acked_bytes", "busy_us", "rtt_samples", "rtt_us_sum"])
def test_what_says_nothing_has_no_value(missing: str) -> None:
    assert np.isnan(raw_values(outcome(**{missing: 0}))).all()


def test_a_fin_alone_is_no_data() -> None:
    assert np.isnan(raw_values(outcome(acked_bytes=1))).all()


@pytest.mark.parametrize(
    ("size", "number"),
    [
        (0, 0),
        (29_999, 0),
        (30_000, 1),
        (299_999, 1),
        (300_000, 2),
        (2_999_999, 2),
        (3_000_000, 3),
        (2**40, 3),
    ],
)
def test_size_classes(size: int, number: int) -> None:
    assert size_classes(outcome(acked_bytes=size)).tolist() == [number]


def test_values_are_clipped_about_their_group() -> None:
    values = np.array([1.0, 2.0, 3.0, -math.inf, math.nan, 100.0, -math.inf, math.nan])
    groups = np.array([0, 0, 0, 0, 0, 2, 1, 1])
    found = clipped(values, groups)
    assert found[:4].tolist() == [-1.0, 0.0, 1.0, -3.0]
    assert found[5] == 0.0
    assert np.isnan(found[[4, 6, 7]]).all()


@given(st.lists(st.floats(-50, 50), min_size=1, max_size=30), st.floats(-20, 20))
def test_clipping_is_relative_and_bounded(values: list[float], shift: float) -> None:
    """What all flows of a group share says nothing. The order stays, and all are within the bound."""
    groups = np.zeros(len(values), np.int64)
    found = clipped(np.array(values), groups)
    assert np.allclose(found, clipped(np.array(values) + shift, groups), atol=1e-6)
    assert np.abs(found).max() <= 3
    order = np.argsort(values, kind="stable")
    assert (np.diff(found[order]) >= 0).all()


@given(st.integers(1, 10**9), st.integers(1, 10**6))
def test_information_grows_with_the_round_trips_and_stays_below_one(busy_us: int, rtt_us: int) -> None:
    (one,) = information(outcome(busy_us=busy_us, rtt_us_sum=rtt_us, rtt_samples=1))
    (longer,) = information(outcome(busy_us=2 * busy_us, rtt_us_sum=rtt_us, rtt_samples=1))
    assert 0 < one < longer < 1
    assert one == pytest.approx(busy_us / (busy_us + 10 * rtt_us))
