# SPDX-License-Identifier: Apache-2.0
"""The measures by which claims are judged, each of one run. A measure of one flow takes the run's first
flow.
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
    """Return one figure over another; NaN, which meets no target, if the latter is 0."""
    return value / reference if reference else math.nan


def utilisation(outcome: RunResult) -> float:
    """Goodput of all flows over the link's capacity."""
    return outcome.summary.utilisation


def rtt_over_base(outcome: RunResult) -> float:
    """Mean RTT over the path's base RTT."""
    flow = outcome.summary.flows[0]
    return over(flow.rtt_mean_ms, flow.base_rtt_ms)


def queueing_over_one_way(outcome: RunResult) -> float:
    """Mean queueing delay over half the base RTT: Jury's "latency inflation of the base one-way delay"."""
    return 2.0 * (rtt_over_base(outcome) - 1.0)


def rtt_ms(outcome: RunResult) -> float:
    """Mean RTT."""
    return outcome.summary.flows[0].rtt_mean_ms


def goodput_mbps(outcome: RunResult) -> float:
    """Payload that arrived."""
    return outcome.summary.flows[0].throughput_mbps


def power(outcome: RunResult) -> float:
    """Throughput over delay, Mbit/s a second."""
    return over(goodput_mbps(outcome), rtt_ms(outcome) / 1e3)


def jain(outcome: RunResult) -> float:
    """Jain's index of the flows' goodput while all flows are open; NaN if there is no such time."""
    stalled = all(flow.throughput_mbps == 0.0 for flow in outcome.summary.flows)
    return math.nan if stalled else outcome.summary.jain


def jain_by_second(outcome: RunResult) -> float:
    """Mean of Jain's indices of each second in which two flows or more are open from begin to end.

    It counts how long flows take to become fair, which `jain` does not. A second without any goodput
    counts as unfair.
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
    """Goodput of the first flow over the second's."""
    first, second = outcome.summary.flows[:2]
    return over(first.throughput_mbps, second.throughput_mbps)


def instructions_per_s(outcome: RunResult) -> float:
    """Guest instructions that were not idle, a second: both ends, the link and the daemon."""
    return float(outcome.guest()["busy_instructions"]) / outcome.job.scenario.duration_s


def sending_mbps(outcome: RunResult) -> list[float]:
    """The rate of each flow into the link, lost packets included, in Mbit/s of IP packets."""
    return [
        (total.delivered_pkts + total.lost_pkts) * PACKET_BYTES * _BITS * 1e-6 / (flow.stop_s - flow.start_s)
        for total, flow in zip(outcome.totals(), outcome.job.scenario.flows, strict=True)
    ]
