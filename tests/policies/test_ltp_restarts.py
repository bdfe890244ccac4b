# SPDX-License-Identifier: Apache-2.0
"""LTP's second slow start: a link that has become faster, and a link that is full."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.ltp_echoes import NOTHING_YET, interval

from ltp_switcher.policies import ltp
from ltp_switcher.policies.ltp.changes import Change, run
from ltp_switcher.policies.ltp.restarts import Restarts
from ltp_switcher.policies.runtime.measurements import Interval

SLOT = np.array([0])
WAY_S = 0.04
STEP = 1.025
"""The policy's largest change of the window in an interval."""


def seen(rtt_s: float, least_s: float) -> Interval:
    return replace(interval(NOTHING_YET, NOTHING_YET, rtt_min_s=least_s), rtt_s=np.array([rtt_s]))


def starts(
    changes: Iterable[float], rtt_s: Callable[[float], float], *, may: bool = True, least_s: float = WAY_S
) -> list[int]:
    """The intervals in which slow start begins anew. `rtt_s` gives the RTT by the window over the first
    window.
    """
    restarts = Restarts()
    restarts.grow(1)
    window, found = 1.0, []
    for index, change in enumerate(changes):
        window *= change
        if restarts.step(SLOT, seen(rtt_s(window), least_s), np.array([may]), np.array([change]))[0]:
            found.append(index)
    return found


@given(st.floats(1.0, 1.07), st.lists(st.floats(1.0, 1.07), min_size=40, max_size=40))
def test_a_link_with_more_rate_begins_slow_start_after_a_quarter(first: float, jitter: list[float]) -> None:
    noise = iter([first, *jitter])
    found = starts([STEP] * 15, lambda _: WAY_S * next(noise) ** 0.5)
    # log(1.25) / log(1.025) is 9.04, so the tenth interval has grown by a quarter.
    assert found == [9]


@given(st.floats(0.9, 1.0), st.lists(st.sampled_from([STEP, STEP, 1.0 / STEP]), max_size=200))
def test_a_full_link_begins_none(filled: float, changes: list[float]) -> None:
    """The RTT follows the window, from 0.9 of the link's product on."""
    assert not starts(changes, lambda window: WAY_S * max(1.0, filled * window))


def test_the_rtt_has_to_show_two_round_trips() -> None:
    """Behind 400 ms the effect of the larger window comes after 14 intervals."""
    assert starts([STEP] * 30, lambda _: 0.4, least_s=0.4)[0] == 26


def test_an_rtt_that_would_end_slow_start_begins_none() -> None:
    """HyStart ends slow start at 5 ms above a least RTT of 40 ms."""
    assert starts([STEP] * 30, lambda _: WAY_S + 0.004)
    assert not starts([STEP] * 30, lambda _: WAY_S + 0.006)


def test_a_flow_that_may_not_begins_none() -> None:
    assert not starts([STEP] * 50, lambda _: WAY_S, may=False)


@pytest.mark.parametrize("faster", [2.0, 4.0])
def test_the_arm_fills_a_link_that_becomes_faster_within_a_second(faster: float) -> None:
    (first,) = run(ltp.make_arm(), [Change(rate_mbps=36.0 * faster)], seeds=1, judged_s=(21.0, 22.0))
    assert first.share > 0.9
    assert first.rtt_ratio < 1.3
