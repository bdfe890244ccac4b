# SPDX-License-Identifier: Apache-2.0
"""Traces of the times at which a link can deliver a packet: mahimahi's files, and a model for use without
files.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltp_switcher.cache import cache_dir
from ltp_switcher.errors import ConfigError, reason
from ltp_switcher.policies.simulator.paths import PACKET_BYTES

TraceArray = NDArray[np.uint32]
"""Times in ms since the trace's start at which the link can deliver one packet, in order, shape
(opportunities,). Equal times are several packets in one ms.

The trace repeats after the last time.
"""

MODEL_SEED: Final = 20260101
MODEL_DURATION_MS: Final = 120_000
_MODEL_STEP_MS: Final = 20
_MODEL_MEDIAN_MBPS: Final = 10.0
_MODEL_SIGMA: Final = 0.7
_MODEL_MEMORY_MS: Final = 2_000.0
_MODEL_OUTAGE_PER_STEP: Final = 0.0008
_MODEL_OUTAGE_STEPS: Final = 12.0
_OPPORTUNITIES_MAX: Final = 1 << 23
DURATION_MAX_MS: Final = 86_400_000
RATE_MIN_MBPS: Final = 0.04
"""Least mean rate of a valid trace in Mbit/s. It finds traces whose unit is µs by mistake, which seem a
thousand times slower.
"""
_DIGITS_MAX: Final = 12


def read_trace(path: Path) -> TraceArray:
    """Read a mahimahi trace. Each line is a whole number of ms. The numbers never fall, and the last one is
    above 0.

    Raises:
        ConfigError: the file cannot be read, breaks this form, or has other times than ms since its start;
            the error names the line.
    """
    try:
        lines = [line.strip() for line in path.read_text(encoding="ascii").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("link.trace", str(path), f"a readable mahimahi trace ({reason(error)})") from error
    if not 0 < len(lines) <= _OPPORTUNITIES_MAX:
        raise ConfigError("link.trace", str(path), f"1 to {_OPPORTUNITIES_MAX} lines, not {len(lines)}")
    last = 0
    for number, line in enumerate(lines, start=1):
        # Python refuses numbers with thousands of digits.
        if not line.isdecimal() or len(line) > _DIGITS_MAX or not last <= int(line) <= DURATION_MAX_MS:
            raise ConfigError(
                "link.trace",
                f"{path.name} line {number}: {line[:40]}",
                f"one whole number of ms since the trace's start, from {last} to {DURATION_MAX_MS} (a day); "
                "divide microseconds by 1000, and take the start from times since 1970",
            )
        last = int(line)
    if last == 0:
        raise ConfigError("link.trace", str(path), "a trace that lasts longer than 0 ms")
    trace = np.array(lines, dtype=np.uint32)
    rate_mbps = mean_rate_mbps(trace)
    if rate_mbps < RATE_MIN_MBPS:
        allowed = (
            f"a mean rate of at least {RATE_MIN_MBPS} Mbit/s, not {rate_mbps:.3g}: are these microseconds?"
        )
        raise ConfigError("link.trace", str(path), allowed)
    return trace


def model_trace() -> TraceArray:
    """Return the model's LTE-like trace. It is the same at every call.

    The logarithm of the rate is a first-order autoregression in steps of 20 ms. It has a memory of 2 s, a
    median of 10 Mbit/s, and a standard deviation of 0.7. Now and then the link is silent for a quarter of a
    second on average (handover). Opportunities fall into each ms as a Poisson process.

    The model's form is from the Sprout paper (Winstein et al., NSDI 2013, Section 3): a rate that wanders,
    outages, and Poisson deliveries. The numbers are this project's. They are of the size that the Sprout
    paper gives for LTE.
    """
    rng = np.random.default_rng(MODEL_SEED)
    steps = MODEL_DURATION_MS // _MODEL_STEP_MS
    keep = np.exp(-_MODEL_STEP_MS / _MODEL_MEMORY_MS)
    shocks = rng.normal(0.0, _MODEL_SIGMA * np.sqrt(1.0 - keep**2), steps)
    rate_mbps = np.empty(steps)
    log_rate, silent = 0.0, 0
    for i in range(steps):
        log_rate = keep * log_rate + shocks[i]
        if silent == 0 and rng.random() < _MODEL_OUTAGE_PER_STEP:
            silent = int(rng.geometric(1.0 / _MODEL_OUTAGE_STEPS))
        rate_mbps[i] = 0.0 if silent else _MODEL_MEDIAN_MBPS * np.exp(log_rate)
        silent = max(0, silent - 1)
    per_ms = np.repeat(rate_mbps, _MODEL_STEP_MS) * 1e3 / 8 / PACKET_BYTES
    counts = rng.poisson(per_ms)
    counts[-1] = max(1, counts[-1])
    return np.repeat(np.arange(1, MODEL_DURATION_MS + 1, dtype=np.uint32), counts)


def mean_rate_mbps(trace: TraceArray) -> float:
    """Return a trace's mean rate over one repetition, in Mbit/s."""
    return len(trace) * PACKET_BYTES * 8e-3 / float(trace[-1])


def traces_folder() -> Path:
    """Return the folder of recorded traces: `$LTP_TRACES`, or else the folder in the cache that `make traces`
    fills.
    """
    return Path(os.environ.get("LTP_TRACES") or cache_dir() / "traces")


def section(trace: TraceArray, begin_ms: int, end_ms: int) -> TraceArray:
    """Return the part of a trace after `begin_ms` and up to `end_ms`, as a trace of its own that repeats. Its
    last opportunity moves to `end_ms`, so that the part keeps its length.
    """
    part = trace[(trace > begin_ms) & (trace <= end_ms)] - np.uint32(begin_ms)
    part[-1] = end_ms - begin_ms
    return part
