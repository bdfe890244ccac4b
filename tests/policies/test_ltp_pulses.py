# SPDX-License-Identifier: Apache-2.0
"""LTP's pulses: a path that changes, and the queue of another flow."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.policies import ltp
from ltp_switcher.policies.ltp.changes import Change, Kept, arm, run
from ltp_switcher.policies.ltp.pulses import Pulses
from ltp_switcher.policies.runtime.measurements import Echo, Interval

SLOTS = np.array([0])
YES, NO = np.array([True]), np.array([False])
INTERVAL_S = 0.03
RTT_S = 0.06
RATE_PPS = 2000.0


WEIGHTS = Path(ltp.__file__).with_name("ltp.npz")


def kept(change: Change) -> tuple[Kept, Kept]:
    """The committed policy on a link after a change, with pulses and without."""
    with_pulses, without = (
        run(arm(WEIGHTS, pulses=pulses), [change], seeds=1)[0] for pulses in (True, False)
    )
    return with_pulses, without


def test_a_slower_link_s_queue_goes() -> None:
    with_pulses, without = kept(Change(rate_mbps=6.0))
    assert with_pulses.share > 0.85
    assert with_pulses.rtt_ratio < 1.3
    assert without.rtt_ratio > 2.0


@pytest.mark.parametrize("longer_ms", [2.0, 4.0])
def test_a_longer_way_is_filled(longer_ms: float) -> None:
    with_pulses, without = kept(Change(rtt_ms=40.0 + longer_ms))
    assert with_pulses.share > 0.93
    assert with_pulses.rtt_ratio < 1.2
    assert without.share < 0.7


def test_the_arm_that_runs_has_pulses() -> None:
    (known,) = run(ltp.make_arm(), [Change(rtt_ms=44.0)], seeds=1)
    assert known.share > 0.93


class Way:
    """A flow beside others on one queue; windows act within an interval.

    The others keep `others_pkts` in flight. The link's queue holds what is in flight beyond its way.
    """

    def __init__(self, pulses: Pulses, *, way_s: float, others_pkts: float) -> None:
        self.pulses = pulses
        self.way_s = way_s
        self.others_pkts = others_pkts
        self.sent: list[float] = []
        self.told_pps: list[float] = []

    def run(self, intervals: int, window_pkts: float, *, least_s: float, may: bool = True) -> None:
        """Let the policy want one window for all the time."""
        for index in range(intervals):
            sent = self.sent[index - 2] if index >= 2 else window_pkts
            rtt_s = max(self.way_s, (sent + self.others_pkts) / RATE_PPS)
            echo = Echo(*(np.array([value]) for value in (index - 2.0, sent, sent / rtt_s, rtt_s, 0.0)))
            seen = Interval(
                index=index, end_s=index * INTERVAL_S, length_s=INTERVAL_S, active=YES,
                sent_pkts=np.array([sent]), acked_pkts=np.array([sent]), lost_pkts=np.zeros(1),
                rtt_s=np.array([rtt_s]), rtt_min_s=np.array([least_s]), window_pkts=np.array([sent]),
                pacing_pps=np.array([sent / rtt_s]), in_flight_pkts=np.array([sent]), turn_pkts=np.zeros(1),
                echo=echo, previous_echo=echo,
            )  # fmt: skip
            told = float(self.pulses.hear(SLOTS, seen)[0])
            if not np.isnan(told):
                self.told_pps.append(told)
            known = replace(seen, rtt_min_s=self.pulses.least_s(SLOTS, seen))
            wanted = np.array([window_pkts])
            self.sent.append(float(self.pulses.step(SLOTS, known, YES if may else NO, NO, wanted)[0]))

    @property
    def least_s(self) -> float:
        seen = Interval(*([0, 0.0, 0.0, YES] + 4 * [SLOTS] + [np.zeros(1)] + 6 * [SLOTS]))  # type: ignore[arg-type, list-item]
        return float(self.pulses.least_s(SLOTS, seen)[0])


def way(**values: float) -> Way:
    pulses = Pulses()
    pulses.grow(1)
    return Way(pulses, **values)


@given(st.floats(0.002, 0.05), st.floats(20.0, 80.0))
def test_a_longer_way_becomes_the_least_rtt(longer_s: float, window_pkts: float) -> None:
    longer = way(way_s=RTT_S + longer_s, others_pkts=0.0)
    longer.run(120, min(window_pkts, 0.7 * RATE_PPS * RTT_S), least_s=RTT_S)
    assert longer.least_s == pytest.approx(RTT_S + longer_s)
    assert not longer.told_pps


@given(st.floats(1.7, 6.0))
def test_a_long_queue_of_its_own_tells_the_rate_of_the_path(queue: float) -> None:
    alone = way(way_s=RTT_S, others_pkts=0.0)
    alone.run(400, queue * RATE_PPS * RTT_S, least_s=RTT_S)
    np.testing.assert_allclose(alone.told_pps, RATE_PPS)
    assert alone.told_pps
    assert alone.least_s == 0.0


@given(st.floats(0.45, 0.55), st.floats(1.2, 3.0))
def test_half_of_a_shared_queue_tells_nothing(share: float, queue: float) -> None:
    all_pkts = queue * RATE_PPS * RTT_S
    beside = way(way_s=RTT_S, others_pkts=(1.0 - share) * all_pkts)
    beside.run(300, share * all_pkts, least_s=RTT_S)
    assert not beside.told_pps
    assert beside.least_s == 0.0


def test_pulses_that_find_nothing_become_rare() -> None:
    half = 0.75 * RATE_PPS * RTT_S
    beside = way(way_s=RTT_S, others_pkts=half)
    beside.run(2000, half, least_s=RTT_S)
    sent = np.array(beside.sent)
    begins = np.flatnonzero((sent[1:] > half) & (sent[:-1] <= half))
    assert begins.size >= 4
    assert (np.diff(begins)[1:] >= np.diff(begins)[:-1]).all()
    # A pulse of two round trips in at least 150.
    assert (sent[1000:] != half).mean() < 0.02


def test_no_pulse_where_there_is_no_doubt_or_none_is_allowed() -> None:
    full = way(way_s=RTT_S, others_pkts=0.0)
    full.run(300, RATE_PPS * RTT_S, least_s=RTT_S)
    assert set(full.sent) == {RATE_PPS * RTT_S}
    forbidden = way(way_s=RTT_S + 0.01, others_pkts=0.0)
    forbidden.run(300, 50.0, least_s=RTT_S, may=False)
    assert set(forbidden.sent) == {50.0}
