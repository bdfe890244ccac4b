# SPDX-License-Identifier: Apache-2.0
"""What estimators are judged on: what senders saw of a path, and what was true of it meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ltp_switcher.policies.arrays import Floats
from ltp_switcher.policies.measurements import Interval
from ltp_switcher.policies.simulator.paths import PPS_PER_MBPS, Flows, Paths
from ltp_switcher.policies.simulator.simulator import Roster, Simulator

Control = Callable[[Simulator, Interval], None]
"""Sets windows of the simulated flows after an interval, shape (F, E)."""


@dataclass(frozen=True)
class Trace:
    """T intervals of n flows.

    Attributes:
        intervals: what the senders saw, arrays of shape (n,).
        rate: the truth of each *sending* interval, x / c, shape (T, n): row k belongs to echo k.
        others: x_o / c.
        delay_s: d, the queuing delay of the packets sent in it; NaN where none came back.
    """

    intervals: Sequence[Interval]
    rate: Floats
    others: Floats
    delay_s: Floats


def simulate(
    paths: Paths,
    flows: Flows,
    roster: Roster,
    *,
    duration_s: float,
    interval_s: float,
    seed: int,
    control: Control | None = None,
) -> Trace:
    """Record all flows of a simulator; they become n = F * E, row-major."""
    simulator = Simulator(paths, flows, roster, seed=seed, interval_s=interval_s)
    steps = round(duration_s / interval_s)
    intervals = []
    rate, others = np.zeros((2, steps, roster.count, paths.count))
    delay_s = np.full((steps, roster.count * paths.count), np.nan)
    rtt_ms = np.where(np.isnan(flows.rtt_ms), paths.rtt_ms, flows.rtt_ms)
    for step in range(steps):
        seen = simulator.step()
        if control is not None:
            control(simulator, seen)
        capacity_pkts = seen.capacity_pps * interval_s
        rate[step] = seen.sent_pkts / capacity_pkts
        others[step] = seen.sent_pkts.sum(axis=0) / capacity_pkts - rate[step]
        flat = seen.flat(roster.count)
        intervals.append(flat)
        for echo in (flat.previous_echo, flat.echo):
            at = np.flatnonzero(echo.index >= 0)
            # Propagation and the packet's own time on the wire are no queuing.
            base_s = (rtt_ms / 1e3 + 1.0 / (paths.rate_mbps * PPS_PER_MBPS)).reshape(-1)
            delay_s[echo.index[at].astype(np.int64), at] = (echo.rtt_s - base_s)[at]
    shape = (steps, -1)
    return Trace(intervals, rate.reshape(shape), others.reshape(shape), np.maximum(0.0, delay_s))
