# SPDX-License-Identifier: Apache-2.0
"""Cellular traces: their first halves to train on, their second halves to judge by (Owl §VII-A)."""

from __future__ import annotations

from typing import Final

from ltp_switcher.policies.simulator.traces import (
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


def training_traces() -> dict[str, TraceArray]:
    """First halves by name, the LTE-like model's among them; the model's alone where there is no folder.

    Raises:
        ConfigError: a file of the folder is no trace.
    """
    return {name: section(trace, 0, int(trace[-1]) // 2) for name, trace in _traces().items()}


def held_out_traces() -> dict[str, TraceArray]:
    """Second halves, as `training_traces`."""
    return {name: section(trace, int(trace[-1]) // 2, int(trace[-1])) for name, trace in _traces().items()}


def _traces() -> dict[str, TraceArray]:
    folder = traces_folder()
    files = sorted(path for path in folder.glob("*.*") if path.suffix in (".up", ".down"))
    found = {path.name: read_trace(path) for path in files}
    fast = {name: trace for name, trace in found.items() if mean_rate_mbps(trace) >= SLOWEST_MBPS}
    return {MODEL: model_trace(), **fast}
