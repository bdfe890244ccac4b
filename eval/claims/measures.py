# SPDX-License-Identifier: Apache-2.0
"""What the claims speak of, from one run each; of the first flow where they are of a flow."""

from __future__ import annotations

from typing import Final

from ltp_switcher.eval.results import Outcome
from ltp_switcher.eval.scenario import PACKET_BYTES


def utilisation(outcome: Outcome) -> float:
    """Goodput of all flows over the link's capacity."""
    return outcome.summary.utilisation


def rtt_over_base(outcome: Outcome) -> float:
    """Mean RTT over the path's own."""
    flow = outcome.summary.flows[0]
    return flow.rtt_mean_ms / flow.base_rtt_ms


def rtt_ms(outcome: Outcome) -> float:
    """Mean RTT."""
    return outcome.summary.flows[0].rtt_mean_ms


def goodput_mbps(outcome: Outcome) -> float:
    """Payload that arrived."""
    return outcome.summary.flows[0].throughput_mbps


def power(outcome: Outcome) -> float:
    """Throughput over delay, Mbit/s a second."""
    return goodput_mbps(outcome) / (rtt_ms(outcome) / 1e3)


def jain(outcome: Outcome) -> float:
    """Jain's index while all flows are open."""
    return outcome.summary.jain


def goodput_ratio(outcome: Outcome) -> float:
    """Goodput of the first flow over the second's."""
    first, second = outcome.summary.flows[:2]
    return first.throughput_mbps / second.throughput_mbps


def instructions_per_s(outcome: Outcome) -> float:
    """Guest instructions that were not idle, a second: both ends, the link and the daemon."""
    return float(outcome.guest()["busy_instructions"]) / outcome.job.scenario.duration_s


def sending_mbps(outcome: Outcome) -> list[float]:
    """What each flow put into the link, lost packets included, in Mbit/s of IP packets."""
    return [
        (total.delivered_pkts + total.lost_pkts) * PACKET_BYTES * _BITS * 1e-6 / (flow.stop_s - flow.start_s)
        for total, flow in zip(outcome.totals(), outcome.job.scenario.flows, strict=True)
    ]


_BITS: Final = 8
