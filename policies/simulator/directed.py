# SPDX-License-Identifier: Apache-2.0
"""Run an arm in the simulator as the daemon runs it on the kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ltp_switcher.arrays import Bools, Floats
from ltp_switcher.policies.runtime.arm import Arm, Law
from ltp_switcher.policies.simulator.controllers import INITIAL_WINDOW
from ltp_switcher.policies.simulator.simulator import SimulatedInterval, Simulator


def impose(simulator: Simulator, law: Law, parameters: Floats) -> None:
    """Set the parameters of the flows that a policy controls.

    Args:
        simulator: the simulator, whose first `agents` rows run this law.
        law: the control law to which the parameters belong.
        parameters: parameters of the law, shape (agents * E, parameters). NaN keeps the present value.
    """
    agents = simulator.agents
    if law is Law.WINDOW:
        wanted = parameters[:, 0].reshape(agents, -1)
        simulator.set_window(np.where(np.isnan(wanted), simulator.window.window, wanted))
        return
    executors = simulator.aimd.parameters if law is Law.AIMD else (simulator.cubic.beta, simulator.cubic.c)
    for now, wanted in zip(executors, parameters.T.reshape(-1, agents, simulator.paths.count), strict=True):
        np.copyto(now[:agents], wanted, where=~np.isnan(wanted))


def directed(
    simulator: Simulator,
    arm: Arm | None,
    *,
    duration_s: float,
    before: Callable[[SimulatedInterval], None] = lambda _: None,
) -> Iterator[tuple[SimulatedInterval, Floats]]:
    """Run a simulation in which an arm controls the first `agents` rows. If `arm` is None, these rows get no
    new parameters.

    A flow is new to the arm when it starts.

    Args:
        simulator: a new simulator, whose interval is the arm's.
        arm: arm that directs all links' flows in one batch.
        duration_s: length of the run in seconds, a whole number of intervals.
        before: function that takes each interval before the arm sees it.

    Yields:
        Each interval, and the parameters that the arm set after it, shape (agents * E, parameters). A
        parameter is NaN if the arm left it unchanged. Without an arm there are no parameters.
    """
    parameters: Floats = np.zeros((0, 0))
    slots = np.arange(simulator.agents * simulator.paths.count)
    sending: Bools = np.zeros(slots.size, np.bool_)
    if arm is not None:
        # The arm is asked about all slots at once, empty slots included.
        arm.begin(slots, np.full(slots.size, INITIAL_WINDOW))
    while simulator.now_s < duration_s - simulator.interval_s / 2:
        interval = simulator.step()
        before(interval)
        if arm is not None:
            seen = interval.flat(simulator.agents)
            new = np.flatnonzero(seen.active & ~sending)
            arm.begin(new, np.full(new.size, INITIAL_WINDOW))
            sending = seen.active
            parameters = arm.decide(slots, seen)
            impose(simulator, arm.law, parameters)
        yield interval, parameters
