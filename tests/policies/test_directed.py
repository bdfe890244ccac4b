# SPDX-License-Identifier: Apache-2.0
"""An arm at work in the simulator: the flows that it is asked about, and the effect of its answers."""

from __future__ import annotations

import numpy as np
import pytest

from ltp_switcher.arrays import Floats, Ints
from ltp_switcher.policies.runtime.arm import PARAMETERS, Law
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.policies.simulator import Flows, Paths, Roster, Simulator
from ltp_switcher.policies.simulator.directed import directed, impose

LATE_S = 0.35


class Recorder:
    """Sets every flow's window to its slot's number and ten, and keeps what it was asked."""

    law = Law.WINDOW
    interval_s = 0.1

    def __init__(self) -> None:
        self.begun: list[list[int]] = []

    def begin(self, slots: Ints, window_pkts: Floats) -> None:
        assert (window_pkts == 10.0).all()
        self.begun.append(slots.tolist())

    def decide(self, slots: Ints, interval: Interval) -> Floats:
        assert len(slots) == len(interval.active)
        return (slots[:, None] + 10.0).astype(np.float64)


def test_a_flow_is_new_when_it_starts_and_others_are_left_alone() -> None:
    roster = Roster(window=2, cubic=1)
    start_s = np.array([[0.0, 0.0], [LATE_S, np.inf], [0.0, 0.0]])
    flows = Flows(start_s, np.full(start_s.shape, np.inf), np.full(start_s.shape, np.nan))
    simulator = Simulator(Paths.uniform(2), flows, roster, seed=1, interval_s=0.1)
    arm = Recorder()
    intervals = [interval for interval, _ in directed(simulator, arm, duration_s=0.6)]
    assert [interval.index for interval in intervals] == list(range(6))
    assert arm.begun == [[0, 1, 2, 3], [0, 1], [], [], [2], [], []]
    np.testing.assert_array_equal(simulator.window.window, [[10.0, 11.0], [12.0, 13.0]])


@pytest.mark.parametrize("law", list(Law))
def test_what_is_nan_stays(law: Law) -> None:
    roster = {
        Law.WINDOW: Roster(window=1, cubic=1),
        Law.AIMD: Roster(aimd=1, cubic=1),
        Law.CUBIC: Roster(cubic=2, learned_cubic=1),
    }[law]
    simulator = Simulator(Paths.uniform(3), Flows.forever(2, 3), roster, seed=1)

    def current() -> Floats:
        if law is Law.WINDOW:
            return simulator.window.window.copy()
        rows = simulator.aimd.parameters if law is Law.AIMD else (simulator.cubic.beta, simulator.cubic.c)
        return np.concatenate([np.copy(row) for row in rows])

    before = current()
    parameters = np.full((3, PARAMETERS[law]), np.nan)
    impose(simulator, law, parameters)
    np.testing.assert_array_equal(current(), before)
    parameters[1] = 0.5 if law is not Law.WINDOW else 20.0
    impose(simulator, law, parameters)
    changed = current() != before
    assert changed[:, 1].any()
    assert not changed[:, [0, 2]].any()
    if law is Law.CUBIC:
        # The second row is a Cubic flow of the kernel's own constants.
        assert not changed[[1, 3]].any()


def test_without_an_arm_nothing_is_set() -> None:
    simulator = Simulator(Paths.uniform(2), Flows.forever(1, 2), Roster(cubic=1), seed=1)
    ran = list(directed(simulator, None, duration_s=0.3))
    assert len(ran) == 10
    assert all(parameters.size == 0 for _, parameters in ran)
