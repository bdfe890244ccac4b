# SPDX-License-Identifier: Apache-2.0
"""The measures by which claims are judged. Each is a function of one run, and of the run's first flow if it
is about a single flow.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ltp_switcher.eval.run.results import RunResult
from ltp_switcher.eval.run.scenario import PACKET_BYTES
from ltp_switcher.eval.run.series import BIN_S
from ltp_switcher.measures import jain_index

_BITS: Final = 8


def over(value: float, reference: float) -> float:
    """Return one figure divided by another; NaN, which meets no target, if the divisor is 0."""
    return value / reference if reference else math.nan


def utilisation(outcome: RunResult) -> float:
    """Goodput of all flows as a share of the link's capacity."""
    return outcome.summary.utilisation


def rtt_over_base(outcome: RunResult) -> float:
    """Mean RTT as a multiple of the path's base RTT."""
    flow = outcome.summary.flows[0]
    return over(flow.rtt_mean_ms, flow.base_rtt_ms)


def queueing_over_one_way(outcome: RunResult) -> float:
    """Mean queueing delay as a multiple of half the base RTT. Jury calls it the "latency inflation of the
    base one-way delay".
    """
    return 2.0 * (rtt_over_base(outcome) - 1.0)


def rtt_ms(outcome: RunResult) -> float:
    """Mean RTT in ms."""
    return outcome.summary.flows[0].rtt_mean_ms


def goodput_mbps(outcome: RunResult) -> float:
    """Rate of the payload that arrived, in Mbit/s."""
    return outcome.summary.flows[0].throughput_mbps


def power(outcome: RunResult) -> float:
    """Throughput divided by delay, in Mbit/s per second."""
    return over(goodput_mbps(outcome), rtt_ms(outcome) / 1e3)


def jain(outcome: RunResult) -> float:
    """Jain's index of the flows' goodput while all flows are open; NaN if there is no such time."""
    stalled = all(flow.throughput_mbps == 0.0 for flow in outcome.summary.flows)
    return math.nan if stalled else outcome.summary.jain


def jain_by_second(outcome: RunResult) -> float:
    """Mean of Jain's index over the seconds throughout which two flows or more are open.

    Unlike `jain`, it also counts the time that flows take to become fair. A second without any goodput counts
    as unfair.
    """
    scenario = outcome.job.scenario
    per_second = round(1.0 / BIN_S)
    seconds = int(scenario.duration_s)
    goodput_mbps = np.zeros((len(scenario.flows), seconds * per_second))
    for row, series in zip(goodput_mbps, outcome.series, strict=True):
        at = np.rint(series.t_s / BIN_S).astype(np.int64)
        inside = at < row.size
        row[at[inside]] = np.nan_to_num(series.goodput_mbps[inside])
    by_second = goodput_mbps.reshape(len(scenario.flows), seconds, per_second).sum(axis=2)
    indices = []
    for second in range(seconds):
        is_open = [flow.start_s <= second and second + 1 <= flow.stop_s for flow in scenario.flows]
        got = by_second[is_open, second]
        if len(got) > 1:
            indices.append(float(jain_index(got)) if got.any() else 1.0 / len(got))
    return float(np.mean(indices)) if indices else math.nan


def goodput_ratio(outcome: RunResult) -> float:
    """Goodput of the first flow divided by the second flow's."""
    first, second = outcome.summary.flows[:2]
    return over(first.throughput_mbps, second.throughput_mbps)


def instructions_per_s(outcome: RunResult) -> float:
    """Guest instructions per second, without idle time. Both ends, the link and the daemon count."""
    return float(outcome.guest()["busy_instructions"]) / outcome.job.scenario.duration_s


def sending_mbps(outcome: RunResult) -> list[float]:
    """The rate at which each flow sends into the link, including lost packets, in Mbit/s of IP packets."""
    return [
        (total.delivered_pkts + total.lost_pkts) * PACKET_BYTES * _BITS * 1e-6 / (flow.stop_s - flow.start_s)
        for total, flow in zip(outcome.totals(), outcome.job.scenario.flows, strict=True)
    ]
