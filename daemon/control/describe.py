# SPDX-License-Identifier: Apache-2.0
"""Flows and arms as JSON, in words and units that people, the command line and the API read."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable, Mapping
from math import isnan
from typing import Final

from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.datapath import ArmInfo, protocol
from ltp_switcher.daemon.datapath.gaps import gap_quantile_us
from ltp_switcher.daemon.datapath.performance import known_rtt
from ltp_switcher.daemon.step.decision_log import endpoint
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.measures import BYTES_TO_MBIT

INFINITE_SSTHRESH: Final = 0x7FFFFFFF
UNLIMITED_PACING: Final = 2**64 - 1
UNLIMITED_PACING_32: Final = 2**32 - 1

Names = Mapping[int, str]


def arm_names(names: Names, arms: Iterable[int]) -> list[Json]:
    """The names of these arms, in their order. Raises `KeyError` if an arm has no name."""
    return [names[arm] for arm in arms]


def flow_json(table: FlowTable, slot: int, names: Names) -> dict[str, Json]:
    """Describe a flow as of its last step. Raises `KeyError` if no flow has the slot."""
    flow = table.info[slot]
    if flow is None:
        raise KeyError(slot)
    # All fields are read at once. One by one they take four times as long, which counts in a list of all
    # flows.
    now: dict[str, int] = dict(zip(_SCALARS, table.record[_SCALARS][slot].item(), strict=True))
    flags = now["flags"]
    reward = float(table.reward[slot])
    shares: list[int] = table.arm_time_ns()[slot].tolist()
    total_ns = max(sum(shares), 1)
    pacing_Bps = now["pacing_rate"]
    return {
        "cookie": str(flow.cookie),
        "netns": flow.netns,
        "local": endpoint(flow.local_address, flow.local_port),
        "remote": endpoint(flow.remote_address, flow.remote_port),
        "family": "ipv4" if flow.family == socket.AF_INET else "ipv6",
        "arm": names.get(now["arm"]),
        "want_arm": names.get(now["want_arm"]),
        "prev_arm": names.get(now["prev_arm"]),
        "pinned": bool(flags & _PINNED),
        "fallen_back": bool(flags & _FALLEN_BACK),
        "age_s": round((time.monotonic_ns() - int(table.born_ns[slot])) * 1e-9, 3),
        "cwnd_pkts": now["snd_cwnd"],
        "ssthresh_pkts": now["ssthresh"] if now["ssthresh"] < INFINITE_SSTHRESH else None,
        "srtt_ms": now["srtt_us"] / 1000,
        "rtt_ms": now["rtt_us"] / 1000,
        "min_rtt_ms": now["min_rtt_us"] / 1000 if known_rtt(now["min_rtt_us"]) else None,
        "delivery_rate_mbps": now["delivery_rate"] * BYTES_TO_MBIT,
        "pacing_rate_mbps": None
        if pacing_Bps in (UNLIMITED_PACING, UNLIMITED_PACING_32)
        else pacing_Bps * BYTES_TO_MBIT,
        "goodput_mbps": float(table.goodput_Bps[slot]) * BYTES_TO_MBIT,
        "in_flight_pkts": now["in_flight"],
        "lost_pkts": now["total_lost"],
        "retrans_pkts": now["total_retrans"],
        "delivered_pkts": now["total_delivered"],
        "acked_bytes": now["total_acked_bytes"],
        "ack_gap_ms": _gaps(table, slot),
        # The kernel's number is at least 1, so 0 comes from a module that does not report it.
        "reordered": now["reord_seen"] if now["reordering"] else None,
        "reordering_pkts": now["reordering"] or None,
        "queue_ms": _queues(now),
        "limited_s": _limits(now, int(table.born_ns[slot])),
        "switches": now["switches"],
        "reward": None if isnan(reward) else reward,
        "arm_share": {
            names.get(arm, str(arm)): round(share / total_ns, 6) for arm, share in enumerate(shares) if share
        },
    }


def _gaps(table: FlowTable, slot: int) -> Json:
    """Quantiles of the gap between two ACKs in ms; None if the module has told of no gap lately."""
    counts: list[float] = table.ack_gaps[slot].tolist()
    told = {name: gap_quantile_us(counts, q) for name, q in _QUANTILES.items()}
    return {name: round(us / 1000, 3) for name, us in told.items() if us is not None} or None


def _queues(now: Mapping[str, int]) -> Json:
    """The queues on the way to the receiver and on the way back in ms; None if the module does not know."""
    if not now["there_us"] and not now["back_us"]:
        return None
    return {"there": now["there_us"] / 1000, "back": now["back_us"] / 1000}


def _limits(now: Mapping[str, int], born_ns: int) -> Json:
    """The causes that limited a flow, and for how long in s; None if the module has not told of them.
    `born_ns` is the flow's start, CLOCK_MONOTONIC.
    """
    busy_us, receiver_us, buffer_us = now["busy_us"], now["receiver_us"], now["buffer_us"]
    if not busy_us:
        return None
    limits_us = {
        "window": busy_us - receiver_us - buffer_us,
        "receiver": receiver_us,
        "send_buffer": buffer_us,
        "application": max((now["time_ns"] - born_ns) // 1000 - busy_us, 0),
    }
    return {name: round(us * 1e-6, 3) for name, us in limits_us.items()}


def arm_json(arm: ArmInfo) -> dict[str, Json]:
    """Describe an arm, with the reason if it is not available."""
    return {
        "id": arm.id,
        "name": arm.name,
        "state": arm.state.name.lower(),
        "kind": arm.kind.name.lower(),
        "reason": arm.reason or None,
    }


_PINNED: Final = int(protocol.FlowFlags.PINNED)
_FALLEN_BACK: Final = int(protocol.FlowFlags.FALLEN_BACK)
_NAMES: Final = protocol.RECORD_DTYPE.names or ()
_SCALARS: Final = [
    *_NAMES[: _NAMES.index("rtt_stat")],
    *("busy_us", "receiver_us", "buffer_us", "reord_seen", "reordering", "there_us", "back_us"),
]
_QUANTILES: Final = {"p50": 0.5, "p90": 0.9}
