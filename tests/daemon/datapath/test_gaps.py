# SPDX-License-Identifier: Apache-2.0
"""Quantiles of the gap between two ACKs, against the gaps from which the counts were made."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.datapath.gaps import gap_quantile_us

STARTS_US = [0, *(64 * 2**n for n in range(15))]
"""Where each range begins."""


def counted(gaps_us: list[float]) -> list[float]:
    """The number of gaps in each range, as the module counts them."""
    places = np.searchsorted(STARTS_US, gaps_us, side="right") - 1
    return np.bincount(places, minlength=len(STARTS_US)).astype(float).tolist()


def test_no_gap_has_no_quantile() -> None:
    assert gap_quantile_us([0.0] * 16, 0.5) is None


def test_turns_show_though_most_acks_are_close() -> None:
    # 80 ACKs every 25 ms: the mean gap is 0.3 ms.
    counts = counted([10.0] * 79 * 40 + [24_210.0] * 40)
    for q in (0.5, 0.9):
        found = gap_quantile_us(counts, q)
        assert found is not None
        assert 16_384 < found < 32_768


def test_even_acks_have_their_gap() -> None:
    found = gap_quantile_us(counted([500.0] * 1000), 0.5)
    assert found is not None
    assert 256 <= found < 512


def test_the_time_in_a_range_is_spread_evenly() -> None:
    counts = [0.0] * 16
    counts[2] = 10.0  # 128 to 256 µs
    assert gap_quantile_us(counts, 0.25) == pytest.approx(160.0)
    counts[3] = 5.0  # 256 to 512 µs, as much time as before
    assert gap_quantile_us(counts, 0.5) == pytest.approx(256.0)
    assert gap_quantile_us(counts, 0.75) == pytest.approx(384.0)


def test_the_last_range_counts_as_its_beginning() -> None:
    assert gap_quantile_us(counted([3e6]), 0.9) == 64 * 2**14


@given(st.lists(st.floats(100.0, 9e5), min_size=1, max_size=60), st.floats(0.01, 1.0))
def test_a_quantile_is_within_a_factor_of_the_true_one(gaps_us: list[float], q: float) -> None:
    found = gap_quantile_us(counted(gaps_us), q)
    assert found is not None
    ordered = np.sort(gaps_us)
    times = np.cumsum(ordered) / ordered.sum()
    # A gap counts for 0.75 to 1.5 times its time, so a share of the time is right to a factor of two.
    shares = np.array([q / 2.01, min(2.01 * q, 1.0)])
    low, high = ordered[np.minimum(np.searchsorted(times, shares), len(ordered) - 1)]
    assert low / 2.01 <= found <= 2.01 * high
