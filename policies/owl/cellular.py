# SPDX-License-Identifier: Apache-2.0
"""Cellular traces (Owl, Section VII-A). Training uses the trace of a model, and judging uses recorded traces,
too.
"""

from __future__ import annotations

from typing import Final

from ltp_switcher.policies.simulator.delivery_traces import (
    TraceArray,
    mean_rate_mbps,
    model_trace,
    read_trace,
    section,
    traces_folder,
)

SLOWEST_MBPS: Final = 3.0
"""Mean rate in Mbit/s below which a trace is not used, because it is no LTE link. Owl, Table II, has 6 Mbit/s
at least.
"""
MODEL: Final = "model"


def training_trace() -> TraceArray:
    """Return the first half of the LTE-like model's trace."""
    trace = model_trace()
    return section(trace, 0, int(trace[-1]) // 2)


def held_out_traces() -> dict[str, TraceArray]:
    """Return the second halves of the traces by name, the model's trace first. If there is no folder of
    traces, only the model's trace is returned.

    Raises:
        ConfigError: a file of the folder is not a trace.
    """
    return {name: section(trace, int(trace[-1]) // 2, int(trace[-1])) for name, trace in _traces().items()}


def _traces() -> dict[str, TraceArray]:
    folder = traces_folder()
    files = sorted(path for path in folder.glob("*.*") if path.suffix in (".up", ".down"))
    found = {path.name: read_trace(path) for path in files}
    fast = {name: trace for name, trace in found.items() if mean_rate_mbps(trace) >= SLOWEST_MBPS}
    return {MODEL: model_trace(), **fast}
