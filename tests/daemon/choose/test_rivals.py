# SPDX-License-Identifier: Apache-2.0
"""The rule beside other flows: it tells a rival from a slow link, and keeps its share."""

from itertools import pairwise

import numpy as np
import pytest
from support.rule_flows import BBR, LTP, STEP_S, run, times_s

from ltp_switcher.daemon.choose.rule.rivals import Rivals


def beside_a_rival(t: float, arm: int) -> tuple[float, float]:
    """From 5 s on another flow fills the queue: only BBR gets a share."""
    if t < 5.0:
        return 40.0, 1.0
    return (80.0, 0.5) if arm == BBR else (50.0, 0.1)


def on_a_link_that_slows_down(t: float, _arm: int) -> tuple[float, float]:
    return (40.0, 1.0) if t < 5.0 else (50.0, 0.1)


def test_a_flow_that_starves_beside_another_gets_bbr_and_keeps_it() -> None:
    changes = times_s(run(under=beside_a_rival, duration_s=25.0)[:, 0])
    assert [arm for _, arm in changes][:3] == [BBR, LTP, BBR]
    assert 8.0 < changes[2][0] < 9.5
    # The test lasts 2 s, and 15 s follow it.
    assert len(changes) == 3 or changes[3][0] > changes[2][0] + 16.0


def test_on_a_link_that_slows_down_the_tests_become_rare() -> None:
    arms = run(under=on_a_link_that_slows_down, duration_s=75.0)[:, 0]
    tests_s = [at for at, arm in times_s(arms)[1:] if arm == BBR]
    assert 2 <= len(tests_s) <= 3
    assert np.diff(tests_s).min() >= 15.0
    assert np.count_nonzero(arms == BBR) * STEP_S < 10.0


def test_the_time_of_a_rival_grows_and_the_test_begins_again() -> None:
    """After each rest the flow looks whether the rival has gone."""
    changes = times_s(run(under=beside_a_rival, duration_s=90.0)[:, 0])
    stays_s = [end - at for (at, arm), (end, _) in pairwise(changes[2:]) if arm == BBR]
    assert len(stays_s) >= 2
    assert stays_s[1] > 1.6 * stays_s[0]


def rivals(lows_us: list[float], rates: list[float]) -> Rivals:
    """One flow, in slot 0, after these looks."""
    made = Rivals(15.0)
    made.grow(1)
    for low_us, rate in zip(lows_us, rates, strict=True):
        made.look(np.array([0]), np.array([low_us]), np.array([rate]))
    return made


def is_suspected(made: Rivals, now_ns: float = 1e9) -> bool:
    one = np.ones(1)
    return bool(made.suspected(np.array([0]), 40e3 * one, 1e6 * one, now_ns * one)[0])


@pytest.mark.parametrize(
    ("lows_ms", "rates", "found"),
    [
        ([50.0] * 12, [1e5] * 12, True),
        ([50.0] * 11, [1e5] * 11, False),
        ([50.0] * 11 + [42.0], [1e5] * 12, False),
        ([50.0, 70.0] * 6, [1e5] * 12, False),
        ([50.0] * 12, [6e5] * 12, False),
        ([50.0] * 12, [1e5] * 11 + [np.nan], False),
    ],
)
def test_twelve_looks_with_a_constant_queue_and_a_low_rate_make_a_suspect(
    lows_ms: list[float], rates: list[float], found: bool
) -> None:
    assert is_suspected(rivals([1e3 * low for low in lows_ms], rates)) is found


def test_nobody_is_suspected_while_the_flow_waits_or_after_another_arm() -> None:
    made = rivals([50e3] * 12, [1e5] * 12)
    slot, now_ns = np.array([0]), np.array([1e9])
    assert made.wait(slot, now_ns) == pytest.approx(15e9)
    assert not is_suspected(made)
    assert is_suspected(made, 16.1e9)
    assert made.wait(slot, now_ns) == pytest.approx(30e9)
    made.other_arm(slot)
    assert not is_suspected(made, 1e12)


def test_the_gain_is_that_of_the_last_four_looks() -> None:
    made = rivals([50e3] * 12, [1e5] * 12)
    slot = np.array([0])
    made.test(slot)
    made.other_arm(slot)
    assert np.isnan(made.gain(slot)[0])
    for rate in (1e5, 1e5, np.nan, 3e5, 3e5, 3e5):
        made.look(slot, np.array([80e3]), np.array([rate]))
    assert made.gain(slot)[0] == pytest.approx(3.0)
    assert made.lowest_us(slot)[0] == 80e3
