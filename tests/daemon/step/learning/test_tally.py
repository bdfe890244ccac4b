# SPDX-License-Identifier: Apache-2.0
"""Outcomes become visits: one observation each, once it has ended."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.choose.visits.learner import Visits
from ltp_switcher.daemon.step.learning.tally import Tally
from ltp_switcher.errors import ArtifactError

FLOW = st.tuples(
    st.integers(0, 2),  # prefix
    st.integers(1, 3),  # visit
    st.integers(0, 1),  # generation
    st.floats(-3, 3) | st.just(float("nan")),  # value
    st.floats(0, 1),  # information
    st.integers(0, 5),  # time, s
    st.booleans(),  # ended
)
Flow = tuple[int, int, int, float, float, int, bool]


def take(tally: Tally, flows: list[Flow]) -> None:
    prefixes, numbers, generations, values, information, told_s, ended = (
        np.array([flow[place] for flow in flows], kind)
        for place, kind in enumerate((int, int, int, float, float, float, bool))
    )
    tally.take(
        prefixes, (prefixes + 1).astype(np.uint8), numbers, generations, told_s, ended, values, information
    )


def by_key(visits: Visits, generations: np.ndarray) -> dict[tuple[int, int], list[tuple[float, ...]]]:
    found: dict[tuple[int, int], list[tuple[float, ...]]] = {}
    for place in range(len(visits.prefixes)):
        key = int(visits.prefixes[place]), int(generations[place])
        numbers = (visits.values, visits.information, visits.flows, visits.ended_s)
        found.setdefault(key, []).append(tuple(float(part[place]) for part in numbers))
    return {key: sorted(rows) for key, rows in found.items()}


@given(st.lists(FLOW, max_size=30), st.integers(0, 30))
def test_a_visit_is_the_mean_of_its_flows_however_they_are_told(flows: list[Flow], cut: int) -> None:
    """The reference adds flow by flow."""
    whole, pieces = Tally(), Tally()
    for tally, parts in ((whole, [flows]), (pieces, [flows[:cut], flows[cut:]])):
        for part in parts:
            if part:
                take(tally, part)
    expected: dict[tuple[int, int], list[tuple[float, ...]]] = {}
    for prefix, number, generation in sorted({flow[:3] for flow in flows}):
        mine = [
            flow for flow in flows
            if flow[:3] == (prefix, number, generation) and flow[6] and flow[4] > 0 and flow[3] == flow[3]
        ]  # fmt: skip
        if mine:
            total = sum(flow[4] for flow in mine)
            mean = sum(flow[3] * flow[4] for flow in mine) / total
            row = (mean, total, float(len(mine)), float(max(flow[5] for flow in mine)))
            expected.setdefault((prefix, generation), []).append(row)
    for tally in (whole, pieces):
        visits, generations = tally.ended(1000.0)
        found = by_key(visits, generations)
        assert visits.arms.tolist() == (visits.prefixes + 1).tolist()
        assert visits.ended_s.tolist() == sorted(visits.ended_s.tolist())
        assert found.keys() == expected.keys()
        for key, rows in found.items():
            for row, other in zip(rows, sorted(expected[key]), strict=True):
                assert row == pytest.approx(other, abs=1e-9)
        assert len(tally) == 0
        assert tally.ended(2000.0)[0].prefixes.size == 0


def test_a_visit_that_is_open_is_no_observation() -> None:
    tally = Tally()
    take(tally, [(0, 1, 0, 1.0, 1.0, 0, True), (0, 1, 0, 0.0, 1.0, 10, False)])
    # Its last flow told of itself at 10 s, and would again at 20 s.
    assert tally.ended(21.0)[0].prefixes.size == 0
    take(tally, [(0, 1, 0, 3.0, 1.0, 20, False)])
    assert tally.ended(31.0)[0].prefixes.size == 0
    take(tally, [(0, 1, 0, 2.0, 1.0, 27, True)])
    visits, _ = tally.ended(40.0)
    assert (visits.values.tolist(), visits.flows.tolist(), visits.ended_s.tolist()) == ([1.5], [2.0], [27.0])


def test_without_room_outcomes_are_counted_and_left_out() -> None:
    tally = Tally(most=2)
    take(tally, [(prefix, 1, 0, 1.0, 1.0, 0, True) for prefix in (0, 1, 2, 2)])
    assert tally.left_out == 2
    assert sorted(tally.ended(1000.0)[0].prefixes.tolist()) == [0, 1]
    # There is room again.
    take(tally, [(2, 1, 0, 1.0, 1.0, 2000, True)])
    assert (tally.left_out, len(tally)) == (2, 1)


def test_a_forgotten_prefix_has_no_open_visit() -> None:
    tally = Tally()
    take(tally, [(0, 1, 0, 1.0, 1.0, 0, True), (1, 1, 0, 1.0, 1.0, 0, True)])
    tally.forget(np.array([0]))
    assert tally.ended(1000.0)[0].prefixes.tolist() == [1]


@given(st.lists(FLOW, min_size=1, max_size=20))
def test_open_visits_outlive_the_daemon(flows: list[Flow]) -> None:
    first, second = Tally(), Tally()
    take(first, flows)
    second.restore(first.state(), 3)
    assert by_key(*second.ended(1000.0)) == by_key(*first.ended(1000.0))


@pytest.mark.parametrize(
    ("name", "value"), [("open_values", np.array([np.nan])), ("open_flows", np.zeros(2))]
)
def test_damaged_visits_are_refused(name: str, value: np.ndarray) -> None:
    tally = Tally()
    take(tally, [(2, 1, 0, 1.0, 1.0, 0, True)])
    with pytest.raises(ArtifactError, match="open visits"):
        Tally().restore({**tally.state(), name: value}, 3)
    with pytest.raises(ArtifactError, match="no prefix"):
        Tally().restore(tally.state(), 2)


def test_the_prefixes_that_try_another_arm_are_those_whose_open_visits_drew_it() -> None:
    """A generation has the incumbent in its lowest five bits."""
    tally, one = Tally(), np.ones(4)
    prefixes, lots = np.array([4, 5, 6, 6]), np.array([2, 3, 0, 7], np.uint8)
    generations = np.array([2, 2, 0, 1 << 10 | 7], np.uint32) | np.uint32(9 << 5)
    told_s = np.array([0.0, 5.0, 5.0, 0.0])
    tally.take(prefixes, lots, np.arange(1, 5), generations, told_s, one > 0, 0 * one, one)
    assert tally.trying().tolist() == [5]
    tally.take(
        prefixes[:1],
        np.array([9], np.uint8),
        np.array([7]),
        generations[:1],
        told_s[:1] + 8,
        one[:1] < 0,
        one[:1],
        one[:1],
    )
    assert tally.trying().tolist() == [4, 5]
    tally.ended(18.0)
    assert tally.trying().tolist() == [4]
    tally.ended(30.0)
    assert tally.trying().tolist() == []
