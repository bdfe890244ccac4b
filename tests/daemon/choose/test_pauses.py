# SPDX-License-Identifier: Apache-2.0
"""The share of the time in which an application has nothing to send, against arithmetic."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.records import record

from ltp_switcher.daemon.choose.path.pauses import Pauses

SLOT = np.array([0])


def share_of(*records: tuple[float, int, float]) -> float:
    """The share after records of these intervals in ms, packets in flight, and smoothed RTTs in ms."""
    pauses = Pauses()
    pauses.reset(SLOT)
    for interval_ms, in_flight, srtt_ms in records:
        interval_ns, srtt_us = round(interval_ms * 1e6), round(srtt_ms * 1e3)
        pauses.step(SLOT, record(1, interval_ns=interval_ns, in_flight=in_flight, srtt_us=srtt_us))
    return float(pauses.share(SLOT)[0])


def test_a_pause_begins_with_nothing_in_flight_and_ends_a_round_trip_before_the_next_ack() -> None:
    # Half a second of 0.6 s, and a little of the first fades away.
    assert share_of((100, 0, 100), (500, 9, 100)) == pytest.approx(400 / 600, abs=0.01)


def test_a_path_that_stands_still_is_no_pause() -> None:
    assert share_of((100, 5, 40), (5000, 9, 40)) == 0.0


def test_what_is_shorter_than_a_step_is_no_pause() -> None:
    """A small window is all acknowledged at once, and a step ends some time after that."""
    assert share_of(*[(40, 0, 5)] * 100) == 0.0


@given(st.floats(0.2, 5.0), st.floats(0.2, 5.0))
def test_the_share_is_the_share_of_pauses(paused_s: float, busy_s: float) -> None:
    cycle = ((1e3 * busy_s, 0, 10.0), (1e3 * paused_s + 10.0, 7, 10.0))
    found = share_of(*cycle * 40)
    # The last pause has faded least.
    fades = 1 - np.exp(-(paused_s + busy_s) / 10.0)
    expected = paused_s / (paused_s + busy_s)
    assert found == pytest.approx(expected, abs=fades * 0.6)
    assert found >= expected - 0.02


def test_old_pauses_fade_away() -> None:
    assert share_of(*[(100, 0, 20), (900, 5, 20)] * 20, *[(30, 20, 20)] * 1000) < 0.06


def test_a_new_flow_has_no_past() -> None:
    pauses = Pauses()
    pauses.reset(SLOT)
    for _ in range(4):
        pauses.step(SLOT, record(1, interval_ns=10**9, in_flight=0, srtt_us=10_000))
    assert pauses.share(SLOT)[0] > 0.5
    pauses.reset(SLOT)
    assert pauses.share(SLOT)[0] == 0.0
