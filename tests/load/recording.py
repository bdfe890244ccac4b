# SPDX-License-Identifier: Apache-2.0
"""A recorded kernel stream: the lab's kernel, 16 flows over one link, arms drawn at random."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from ltp_switcher.cache import cache_dir
from ltp_switcher.daemon.datapath.recording import read_recording
from ltp_switcher.eval.lab.run import boot_scenario
from ltp_switcher.eval.lab.script import GuestDaemon
from ltp_switcher.eval.run.scenario import Flow, Link, Scenario
from ltp_switcher.files import write_atomically

FLOWS: Final = 16
DURATION_S: Final = 15.0
KERNEL: Final = "6.1"
SEED: Final = 1
RTT_MS: Final = (10.0, 120.0)
_RECORDING: Final = "/run/lab/recording.npy"
_DAEMON: Final = GuestDaemon(
    "dwell-random",
    options=f"--record {_RECORDING}",
    after=('kill -TERM "$daemon"', 'wait "$daemon" || { cat /run/lab/daemon.log; exit 1; }'),
)


def recorded(step_ms: int) -> np.ndarray:
    """The rows (`ROW_DTYPE`, shape (rows,)) of the recording with such steps, made where it is not cached.

    Raises `LabError` where the guest failed, `ArtifactError` where the file is of another version.
    """
    path = cache_dir() / "load" / f"stream-{step_ms}ms.npy"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, _record(step_ms))
    return read_recording(path)


def _record(step_ms: int) -> bytes:
    rtts_ms = np.geomspace(*RTT_MS, FLOWS)
    flows = tuple(Flow("random", 0.0, DURATION_S, round(float(rtt_ms), 1)) for rtt_ms in rtts_ms)
    scenario = Scenario("load", DURATION_S, Link(rate_mbps=48.0, rtt_ms=RTT_MS[0], buffer_bdp=4.0), flows)
    result = boot_scenario(
        scenario.with_settings((("daemon.state_dir", ""), ("daemon.step_ms", step_ms))),
        seed=SEED,
        kernel=KERNEL,
        daemon=_DAEMON,
        collect=[_RECORDING],
    )
    return result.files[_RECORDING]


def make_recording(path: Path, step_ms: int) -> None:
    """Copy the aggregates alone (`RECORD_DTYPE`) and their steps to `path`, for a process to map."""
    rows = recorded(step_ms)
    np.save(path, rows["record"])
    np.save(path.with_suffix(".steps.npy"), rows["step"])
