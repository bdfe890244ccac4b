# SPDX-License-Identifier: Apache-2.0
"""The schedule of a scenario's link, in the bytes that the link's kernel module takes, and the capacity of
the link over time.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats
from ltp_switcher.eval.lab.packages import say
from ltp_switcher.eval.run.scenario import MODEL_TRACE, PACKET_BYTES, Scenario
from ltp_switcher.eval.run.series import BIN_S
from ltp_switcher.eval.run.trace_files import locate_trace
from ltp_switcher.policies.simulator.delivery_traces import (
    TraceArray,
    mean_rate_mbps,
    model_trace,
    read_trace,
)

# The structures of link/lablink.h.
_MAGIC: Final = 0x6B6E6C6C
_HEADER: Final = struct.Struct("=IIIIIIQQQ")
_STEP: Final = struct.Struct("=QQQQ")
_DELAY: Final = struct.Struct("=Q")


def link_trace(scenario: Scenario) -> TraceArray | None:
    """Return the times at which the link may deliver a packet, in ms, shape (packets,), uint32; None if the
    link has a rate instead of a trace.

    Without the recorded traces, an LTE-like model takes the place of a trace, and a line on stderr says so.

    Raises:
        ConfigError: the trace is missing, or is not in mahimahi's form.
    """
    if scenario.link.trace is None:
        return None
    file = locate_trace(scenario.link.trace)
    if file is None:
        if scenario.link.trace != MODEL_TRACE:
            say(
                f"lab: no recorded traces here, so an LTE-like model replaces {scenario.link.trace}; "
                "`make traces` fetches them"
            )
        return from_offset(model_trace(), scenario.link.offset_s)
    return from_offset(read_trace(file), scenario.link.offset_s)


def from_offset(trace: TraceArray, offset_s: float) -> TraceArray:
    """Return the trace as it goes on `offset_s` seconds after its start.

    A trace has the times in ms at which a packet may leave, shape (packets,). The result has the same shape
    and repeats with the same period. It begins at the first such time after the offset.
    """
    period_ms = int(trace[-1])
    offset_ms = round(offset_s * 1e3) % period_ms
    if offset_ms == 0:
        return trace
    # The opportunity at the offset becomes the last one of a period, like the one at the end of the trace.
    offset_ms = int(trace[np.searchsorted(trace, offset_ms)])
    return np.sort((trace.astype(np.int64) - offset_ms - 1) % period_ms + 1).astype(np.uint32)


def queue_packets(scenario: Scenario, trace: TraceArray | None) -> int:
    """Return the largest number of packets that the bottleneck holds, including the packet in service.
    `trace` is the link's trace from `link_trace`.
    """
    rate_mbps = scenario.link.rate_mbps if trace is None else mean_rate_mbps(trace)
    # One packet more than the scenario's buffer is in service; with less than 2 no link works.
    return max(2, scenario.link.buffer_packets(rate_mbps or 0.0) + 1)


def encode(scenario: Scenario, trace: TraceArray | None, seed: int) -> bytes:
    """Return the link's schedule as the module `lablink` takes it through /dev/lablink.

    Args:
        scenario: the link and the flows.
        trace: the link's trace from `link_trace`; None if the link has a rate.
        seed: seed of the random losses.
    """
    steps = [
        _STEP.pack(
            round(state.at_s * 1e9),
            round((state.rate_mbps or 0.0) * 1e6),
            round(state.rtt_ms * 1e6),
            min(2**32 - 1, round(state.loss * 2**32)),
        )
        for state in scenario.link.states()
    ]
    # Entry 0 belongs to no flow: addresses count from 1.
    delays = [_DELAY.pack(0)] + [_DELAY.pack(round((flow.rtt_ms or 0.0) * 1e6)) for flow in scenario.flows]
    header = _HEADER.pack(
        _MAGIC,
        queue_packets(scenario, trace),
        len(steps),
        len(delays),
        0 if trace is None else len(trace),
        0 if trace is None else int(trace[-1]),
        seed,
        round((scenario.link.police_mbps or 0.0) * 1e6),
        scenario.link.police_burst_pkts * PACKET_BYTES,
    )
    opportunities = b"" if trace is None else trace.astype("=u4").tobytes()
    return header + b"".join(steps) + b"".join(delays) + opportunities


def capacity_mbps(scenario: Scenario, trace: TraceArray | None) -> Floats:
    """Return the rate that the link offers in each bin of `BIN_S` seconds, in Mbit/s, shape (bins,).
    `trace` is the link's trace from `link_trace`.
    """
    bins = int(np.ceil(scenario.duration_s / BIN_S - 1e-9))
    edges_s = np.arange(bins + 1) * BIN_S
    if trace is None:
        states = list(scenario.link.states())
        at_s = np.array([state.at_s for state in states])
        rate = np.array([state.rate_mbps or 0.0 for state in states])
        before = np.concatenate([[0.0], np.cumsum(rate[:-1] * np.diff(at_s))])
        which = np.searchsorted(at_s, edges_s, side="right") - 1
        offered_mbit = before[which] + rate[which] * (edges_s - at_s[which])
        return np.asarray(np.diff(offered_mbit) / BIN_S, np.float64)
    edges_ms = np.rint(edges_s * 1e3).astype(np.int64)
    cycles, rest_ms = np.divmod(edges_ms, int(trace[-1]))
    # Opportunities before an edge; those at the very end of a repetition are before the next one's start.
    before = cycles * len(trace) + np.searchsorted(trace, rest_ms, side="left")
    at_end = (rest_ms == 0) & (cycles > 0)
    before = before - np.where(at_end, np.count_nonzero(trace == trace[-1]), 0)
    return np.asarray(np.diff(before) * PACKET_BYTES * 8e-6 / BIN_S, np.float64)
