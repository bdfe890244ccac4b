# SPDX-License-Identifier: Apache-2.0
"""Cellular traces (Owl §VII-A): a model's to train on, which everybody has, and recorded ones to judge by."""

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
"""Mean rate below which a trace is no LTE link, and far below Table II's 6 Mbit/s."""
MODEL: Final = "model"


def training_trace() -> TraceArray:
    """The first half of the LTE-like model's trace."""
    trace = model_trace()
    return section(trace, 0, int(trace[-1]) // 2)


def held_out_traces() -> dict[str, TraceArray]:
    """Second halves by name, the model's first; the model's alone where there is no folder of traces.

    Raises:
        ConfigError: a file of the folder is no trace.
    """
    return {name: section(trace, int(trace[-1]) // 2, int(trace[-1])) for name, trace in _traces().items()}


def _traces() -> dict[str, TraceArray]:
    folder = traces_folder()
    files = sorted(path for path in folder.glob("*.*") if path.suffix in (".up", ".down"))
    found = {path.name: read_trace(path) for path in files}
    fast = {name: trace for name, trace in found.items() if mean_rate_mbps(trace) >= SLOWEST_MBPS}
    return {MODEL: model_trace(), **fast}
