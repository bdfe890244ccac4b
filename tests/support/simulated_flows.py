# SPDX-License-Identifier: Apache-2.0
"""Intervals of flows on different links of the simulator, as a policy's `Signals` take them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import cache

import numpy as np

from ltp_switcher.arrays import Floats, Indices
from ltp_switcher.policies.runtime.measurements import Echo, Interval
from ltp_switcher.policies.simulator import Flows, Paths, Roster, Simulator

FLOWS = 6
"""An idle link, full ones, one with random loss, and a flow that has not begun."""


@cache
def intervals(interval_s: float, count: int = 40) -> tuple[Interval, ...]:
    """Intervals of `FLOWS` flows, each alone on its link; windows go up and down by a quarter."""
    paths = replace(
        Paths.uniform(FLOWS),
        rate_mbps=np.array([100.0, 20.0, 50.0, 12.0, 200.0, 40.0]),
        rtt_ms=np.array([40.0, 20.0, 90.0, 30.0, 10.0, 60.0]),
        buffer_pkts=np.array([500.0, 30.0, 200.0, 20.0, 50.0, 100.0]),
        loss=np.array([0.0, 0.0, 0.01, 0.0, 0.05, 0.0]),
    )
    flows = replace(Flows.forever(1, FLOWS), start_s=np.array([[0.0, 0.0, 0.0, 0.0, 0.0, interval_s * 10.5]]))
    simulator = Simulator(paths, flows, Roster(window=1), seed=3, interval_s=interval_s)
    middle_pkts = np.array([100.0, 60.0, 450.0, 40.0, 200.0, 150.0])
    found = []
    for index in range(count):
        simulator.set_window((middle_pkts * (1.0 + 0.25 * np.sin(index / 3.0)))[None])
        found.append(frozen(simulator.step().flat(1)))
    return tuple(found)


def silent(interval: Interval) -> Interval:
    """The interval of flows from which nothing was ever heard."""
    nothing = np.zeros_like(interval.acked_pkts)
    unheard = Echo(nothing - 1.0, *(np.full_like(nothing, np.nan) for _ in range(4)))
    return frozen(
        replace(
            interval, sent_pkts=nothing, acked_pkts=nothing, lost_pkts=nothing, rtt_s=nothing,
            rtt_min_s=np.full_like(nothing, np.inf), in_flight_pkts=nothing, echo=unheard,
            previous_echo=unheard,
        )
    )  # fmt: skip


def of(rows: Indices) -> Callable[[Interval], Interval]:
    """A function that gives these flows' rows of an interval, in this order."""
    return lambda interval: frozen(interval.rows(rows))


def frozen(interval: Interval) -> Interval:
    """The interval itself, whose arrays can no longer be written to."""
    for part in (interval, interval.echo, interval.previous_echo):
        for field in fields(part):
            value: Floats | float = getattr(part, field.name)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
    return interval
