# SPDX-License-Identifier: Apache-2.0
"""PNC and PNA (Owl Eq. 4 and 5) from counters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.errors import InvalidValueError
from ltp_switcher.policies.runtime.path_knowledge import Counters, NetworkKnowledge, NodeMeter, NodeReport


def test_a_meter_needs_two_readings_and_scales_to_a_second() -> None:
    meter = NodeMeter()
    assert meter.update(Counters(10.0, 0, 0, 0, 10e6)) is None
    report = meter.update(Counters(12.0, 1000, 800, 1_000_000, 10e6))
    assert report == NodeReport(difference_pkts=100.0, spare=pytest.approx(0.6))


def test_counters_that_begin_anew_give_no_report() -> None:
    meter = NodeMeter()
    meter.update(Counters(1.0, 500, 500, 500, None))
    assert meter.update(Counters(2.0, 10, 10, 10, None)) is None
    assert meter.update(Counters(2.0, 20, 20, 20, None)) is None


def test_where_the_rate_is_unknown_the_largest_seen_stands_for_it() -> None:
    meter = NodeMeter()
    meter.update(Counters(0.0, 0, 0, 0, None))
    full = meter.update(Counters(1.0, 100, 100, 100_000, None))
    half = meter.update(Counters(2.0, 150, 150, 150_000, None))
    assert full is not None
    assert full.spare == 0.0
    assert half is not None
    assert half.spare == pytest.approx(1 - 0.5 / 0.98)


def test_a_path_is_as_congested_as_its_worst_node_and_as_free_as_its_tightest_link() -> None:
    known = NetworkKnowledge.of([NodeReport(5.0, 0.9), NodeReport(70.0, 0.3)], path_nodes=4)
    assert known == NetworkKnowledge(pnc_pkts=70.0, pna=0.3, known=0.5)
    assert NetworkKnowledge.of([], 4) is None
    other = NetworkKnowledge(pnc_pkts=1.0, pna=0.1, known=0.25)
    assert NetworkKnowledge.joined([known, other]) == NetworkKnowledge(70.0, 0.1, 0.75)
    assert NetworkKnowledge.joined([]) is None


@given(
    counts=st.lists(st.tuples(*[st.integers(0, 10**9)] * 3), min_size=2, max_size=6),
    capacity=st.one_of(st.none(), st.floats(1e3, 1e12)),
)
def test_whatever_counters_do_a_report_is_in_range(
    counts: list[tuple[int, int, int]], capacity: float | None
) -> None:
    meter = NodeMeter()
    for at, (received, sent, sent_bytes) in enumerate(counts):
        report = meter.update(Counters(float(at), received, sent, sent_bytes, capacity))
        if report is not None:
            NetworkKnowledge(report.difference_pkts, report.spare, 1.0)


@pytest.mark.parametrize("values", [(-1.0, 0.5, 0.5), (0.0, 1.5, 0.5), (0.0, 0.5, 0.0), (float("nan"), 0, 1)])
def test_impossible_knowledge_is_refused(values: tuple[float, float, float]) -> None:
    with pytest.raises(InvalidValueError):
        NetworkKnowledge(*values)
