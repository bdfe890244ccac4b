# SPDX-License-Identifier: Apache-2.0
"""Traces for judging estimators: the senders' view of a path, and the truth about the path."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ltp_switcher.arrays import Floats
from ltp_switcher.policies.runtime.arm import Arm
from ltp_switcher.policies.runtime.measurements import Echo, Interval
from ltp_switcher.policies.simulator.directed import directed
from ltp_switcher.policies.simulator.paths import PPS_PER_MBPS, Flows, Paths
from ltp_switcher.policies.simulator.simulator import Roster, Simulator


@dataclass(frozen=True)
class Trace:
    """A trace of n flows over T intervals.

    Attributes:
        intervals: the senders' view, T intervals with arrays of shape (n,).
        rate: the flow's true sending rate over the link's capacity (x / c) in each *sending* interval, shape
            (T, n). Row k belongs to echo k.
        others: the other flows' true sending rate over the link's capacity (x_o / c) in each sending
            interval, shape (T, n).
        delay_s: true mean queuing delay (d) of the packets sent in the interval, shape (T, n); NaN if no
            packet came back.
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
    arm: Arm | None = None,
) -> Trace:
    """Simulate F flows on each of E links, and return the trace of all n = F * E flows in row-major order.

    The arm directs the roster's agents, the rows that a policy controls.
    """
    simulator = Simulator(paths, flows, roster, seed=seed, interval_s=interval_s)
    steps = round(duration_s / interval_s)
    intervals = []
    rate, others = np.zeros((2, steps, roster.count, paths.count))
    delay_s = np.full((steps, roster.count * paths.count), np.nan)
    rtt_ms = np.where(np.isnan(flows.rtt_ms), paths.rtt_ms, flows.rtt_ms)
    for step, (seen, _) in enumerate(directed(simulator, arm, duration_s=duration_s)):
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


def from_counters(
    delivered_pkts: Floats,
    lost_pkts: Floats,
    rtt_s: Floats,
    base_rtt_s: Floats,
    queue_pkts: Floats,
    capacity_pps: Floats,
    interval_s: float,
) -> Trace:
    """Make a trace from the lab's counts at senders and bottleneck in each interval, and the flows' RTTs.

    Each flow's part of the queue is its share of the departures in the next interval. The RTT of an
    interval's packets comes with the ACKs one RTT later. Still, an echo counts as known at the end of its
    interval, because the estimators judged here do not care when they learn it.

    Args:
        delivered_pkts: packets acknowledged to the senders, shape (T, n).
        lost_pkts: packets that the senders took for lost, shape (T, n).
        rtt_s: mean RTT of the ACKs that came in the interval, shape (T, n); NaN if there were none.
        base_rtt_s: RTT without queuing, shape (n,).
        queue_pkts: length of the queue at the end of the interval, shape (T,).
        capacity_pps: capacity of the link, packets a second, shape (T,).
        interval_s: length of the intervals in seconds.
    """
    next_pkts = np.concatenate((delivered_pkts[1:], delivered_pkts[-1:]))
    total = np.maximum(1.0, next_pkts.sum(axis=1, keepdims=True))
    queued = queue_pkts[:, None] * next_pkts / total
    arrived = delivered_pkts + lost_pkts + np.diff(queued, axis=0, prepend=0.0)
    np.maximum(arrived, 0.0, out=arrived)
    rate = arrived / (capacity_pps[:, None] * interval_s)
    heard = (delivered_pkts > 0.0) & np.isfinite(rtt_s)
    resolved = np.maximum(1.0, delivered_pkts + lost_pkts)
    rtt_min_s = np.fmin.accumulate(np.where(heard, rtt_s, np.inf), axis=0)
    rtt_s = _of_sent(rtt_s, interval_s)
    echo = np.stack(
        (
            np.where(heard, np.arange(len(rate), dtype=np.float64)[:, None], -1.0),
            arrived / interval_s,
            delivered_pkts / interval_s,
            rtt_s,
            lost_pkts / resolved,
        )
    )
    nothing = np.full((5, rate.shape[1]), np.nan)
    nothing[0] = -1.0
    intervals = [
        Interval(
            index=k,
            end_s=(k + 1) * interval_s,
            length_s=interval_s,
            active=heard[k],
            sent_pkts=arrived[k],
            acked_pkts=delivered_pkts[k],
            lost_pkts=lost_pkts[k],
            rtt_s=rtt_s[k],
            rtt_min_s=rtt_min_s[k],
            window_pkts=np.full(rate.shape[1], np.nan),
            pacing_pps=np.full(rate.shape[1], np.nan),
            in_flight_pkts=np.full(rate.shape[1], np.nan),
            turn_pkts=np.zeros(rate.shape[1]),
            echo=Echo(*echo[:, k]),
            previous_echo=Echo(*(echo[:, k - 1] if k else nothing)),
        )
        for k in range(len(rate))
    ]
    wire_s = 1.0 / capacity_pps[:, None]
    delay_s = np.where(heard, np.maximum(0.0, rtt_s - base_rtt_s - wire_s), np.nan)
    return Trace(intervals, rate, rate.sum(axis=1, keepdims=True) - rate, delay_s)


def _of_sent(rtt_s: Floats, interval_s: float) -> Floats:
    """Return the RTT in seconds of the packets *sent* in each interval, shape (T, n). `rtt_s` has the RTT of
    the ACKs that came in each interval, in the same shape.
    """
    sent = rtt_s.copy()
    for flow in range(rtt_s.shape[1]):
        (known,) = np.isfinite(rtt_s[:, flow]).nonzero()
        if known.size:
            came = rtt_s[known, flow]
            sent[known, flow] = np.interp(known + came / interval_s, known, came)
    return sent
