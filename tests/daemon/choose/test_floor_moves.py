# SPDX-License-Identifier: Apache-2.0
"""A queue that stands, or comes and goes, is no step of the path's RTT."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rule_flows import BBR, LTP, RATE_PPS, STEP_S, run, step_at, times_s


@given(st.integers(0, 10**6), st.floats(10.0, 100.0))
@settings(max_examples=15, deadline=None)
def test_a_queue_that_comes_and_goes_is_no_step_of_the_rtt(seed: int, base_ms: float) -> None:
    rng = np.random.default_rng(seed)
    queue_ms = np.repeat(rng.uniform(0.0, 2.0 * base_ms, 200), 4)

    def rtt(t: float) -> float:
        # Empty once in a while, as the queue of every arm that gives way.
        return base_ms + (0.0 if t < 2.5 or t % 0.7 < 2 * STEP_S else float(queue_ms[int(t / STEP_S)]))

    assert [arm for _, arm in times_s(run(rtt, duration_s=20.0)[:, 0])] == [BBR, LTP]


def test_a_few_packets_of_standing_queue_are_no_step_of_the_rtt() -> None:
    few_ms, many_ms = 8 / RATE_PPS * 1e3, 30 / RATE_PPS * 1e3
    arms = run(step_at(3.0, 20.0, 20.0 + few_ms), step_at(3.0, 20.0, 20.0 + many_ms), duration_s=5.0)
    assert [arm for _, arm in times_s(arms[:, 0])] == [BBR, LTP]
    assert [arm for _, arm in times_s(arms[:, 1])][:3] == [BBR, LTP, BBR]


@pytest.mark.parametrize(("queue_ms", "then"), [(2.2, [BBR, LTP]), (4.0, [BBR, LTP, BBR])])
def test_the_queue_that_the_steady_arm_always_keeps_is_no_step_of_the_rtt(
    queue_ms: float, then: list[int]
) -> None:
    """Its 2.2 ms are 18 packets of a fast path, which loses packets of its own."""
    rtt = step_at(5.0, 3.0, 3.0 + queue_ms)
    arms = run(rtt, duration_s=9.0, rate_pps=8000.0, lost=lambda _: 0.02)
    assert [arm for _, arm in times_s(arms[:, 0])] == then
