# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.records import record
from support.rule_flows import UNCHECKED

from ltp_switcher.daemon.choose.path import looks
from ltp_switcher.daemon.choose.path.looks import Looks
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.datapath.protocol import FlowFlags


@pytest.mark.parametrize("known", range(looks.GAINS + 1))
def test_the_swing_is_the_lesser_of_the_outer_quarters(known: int) -> None:
    rng = np.random.default_rng(known)
    found = Looks(zeta=5.0, kappa=2.0)
    found.grow(20)
    gains = rng.normal(0.0, 0.3, (20, looks.GAINS))
    for row in gains:
        row[rng.permutation(looks.GAINS)[known:]] = np.nan
    found._gains[:20] = gains
    low, high = np.nanquantile(gains, (0.25, 0.75), axis=1) if known else (np.zeros(20), np.zeros(20))
    wanted = np.maximum(np.minimum(-low, high), 0.0) if known >= looks.GAINS_LEAST else np.zeros(20)
    np.testing.assert_allclose(found.swing(np.arange(20)), wanted, rtol=1e-12)


def test_a_flow_without_an_rtt_is_no_error() -> None:
    rule = RuleChooser([2, 12, 3], UNCHECKED)
    slots = np.array([0])
    rule.open(slots, ["192.0.2.0/24"])
    for step in range(1, 100):
        rule.step(slots, record(1, time_ns=step * 50_000_000, interval_ns=50_000_000, arm=2, want_arm=2))


def batches(seed: int, jitter_ms: float) -> tuple[list[float], list[int]]:
    """Ends of batches, ms, and packets of 0.5 ms delivered by then, over 8 s."""
    rng = np.random.default_rng(seed)
    ends_ms = np.cumsum(rng.uniform(0.0, jitter_ms, 2000))
    ends_ms = ends_ms[ends_ms < 8000]
    return ends_ms.tolist(), (ends_ms // 0.5).astype(int).tolist()


def swing_of(
    ends_ms: list[float],
    packets: list[int],
    *,
    timed: bool = True,
    rtt_ms: Callable[[float], float] = lambda _: 20.0,
) -> float:
    """The highest swing that looks find where these ACKs come, in steps of 30 ms."""
    found, slots, heard_ms, total, closed_ms = Looks(zeta=5.0, kappa=2.0), np.array([0]), 0.0, 0, 0
    found.grow(1)
    swings = []
    for now_ms in range(30, 8000, 30):
        came = [i for i, end in enumerate(ends_ms) if heard_ms < end <= now_ms]
        if not came:
            continue
        step = record(1, time_ns=10**9 + now_ms * 10**6, interval_ns=(now_ms - closed_ms) * 10**6, mss=1448)
        rtt_us = round(1e3 * rtt_ms(now_ms))
        step["srtt_us"], step["rtt_samples"], step["rtt_stat"] = rtt_us, 1, (rtt_us, rtt_us, rtt_us)
        step["total_delivered"] = packets[came[-1]]
        heard_ns = round((ends_ms[came[-1]] - heard_ms) * 5e5)
        # Half of it in another arm's epoch. The kernel times nothing before the first ACK.
        step["credit"]["time_ns"][0, [0, 2]] = heard_ns if total and timed else 0
        total, heard_ms, closed_ms = packets[came[-1]], ends_ms[came[-1]], now_ms
        seen, idle, draining = looks.read(step)
        if found.take(slots, seen, idle, draining)[0]:
            found.measure(slots, seen)
            swings.append(float(found.swing(slots)[0]))
            found.begin(slots, seen)
    return max(swings)


def slower(ends_ms: list[float], packets: list[int]) -> list[int]:
    """The same where each 0.6 s the rate is lower by a quarter for 0.3 s."""
    slow_ms = [sum(min(max(end - at, 0.0), 300.0) for at in range(0, 8000, 600)) for end in ends_ms]
    return [packet - int(2 * slow / 4) for packet, slow in zip(packets, slow_ms, strict=True)]


@given(st.integers(0, 10**6), st.floats(5.0, 40.0))
@settings(max_examples=10, deadline=None)
def test_acks_in_batches_are_no_swing_of_the_rate(seed: int, jitter_ms: float) -> None:
    assert swing_of(*batches(seed, jitter_ms)) < 0.01


def test_acks_that_the_kernel_has_not_timed_are_measured_by_the_steps() -> None:
    assert 0.02 < swing_of(*batches(1, 30.0), timed=False) < 0.2


@pytest.mark.parametrize(("high_ms", "swings"), [(25.0, True), (20.0, True), (15.0, False)])
def test_a_rate_that_follows_the_window_does_not_swing(high_ms: float, swings: bool) -> None:
    """In the slower halves the RTT is higher if the path is slower, and lower if the window is smaller."""
    ends_ms, packets = batches(1, 30.0)
    found = swing_of(
        ends_ms,
        slower(ends_ms, packets),
        rtt_ms=lambda now_ms: high_ms if 0 < now_ms % 600 <= 300 else 20.0,
    )
    assert found > 0.1 if swings else found == 0.0


def emptied_looks(drains_ms: range) -> list[float]:
    """The lowest RTT, ms, of each look behind an empty queue of a flow's own, where an arm drains so long.

    The path has 40 ms. The arm's queue adds 90 ms from 200 ms on, and another flow's then stands for 20 ms.
    """
    found, slots = Looks(zeta=5.0, kappa=2.0), np.array([0])
    found.grow(1)
    lowest_ms = []
    for now_ms in range(10, 3000, 10):
        queued = 200 < now_ms <= drains_ms.stop + 40
        rtt_us = 1000 * (40 if now_ms <= 200 else 150 if queued else 60)
        step = record(1, time_ns=10**9 + now_ms * 10**6, mss=1448, srtt_us=rtt_us, rtt_samples=1)
        step["rtt_stat"], step["total_delivered"] = (rtt_us, rtt_us, rtt_us), now_ms
        step["flags"] = FlowFlags.DRAINING if now_ms in drains_ms else 0
        seen, idle, draining = looks.read(step)
        if found.take(slots, seen, idle, draining)[0]:
            look = found.measure(slots, seen)
            lowest_ms += [look.least_us[0] / 1e3] if look.drained[0] else []
            found.begin(slots, seen)
    return lowest_ms


@pytest.mark.parametrize("begin_ms", range(500, 1000, 50))
def test_a_look_in_which_the_queue_is_still_drained_shows_no_queue_of_others(begin_ms: int) -> None:
    """A drain of 150 ms may outlast a look, or end in its last round trip. Then that look has its queue."""
    assert set(emptied_looks(range(begin_ms, begin_ms + 150, 10))) <= {60.0}


def test_a_look_that_saw_the_rtt_after_a_drain_shows_the_queue_of_others() -> None:
    seen = [emptied_looks(range(begin_ms, begin_ms + 100, 10)) for begin_ms in range(500, 1000, 50)]
    assert sum(len(looks_ms) for looks_ms in seen) >= len(seen) / 3
