# SPDX-License-Identifier: Apache-2.0
"""Flows through the whole daemon whose starts overfill the buffer of their path.

As a program it is a daemon that saves the findings of one flow, and hangs in the middle of its second save:
`python -m support.overfilling DIRECTORY`.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from ltp_switcher.daemon.datapath import EventBatch, FlowEvent
from ltp_switcher.daemon.datapath.protocol import Cmd, FlowFlags
from ltp_switcher.daemon.service.daemon import Daemon
from ltp_switcher.daemon.settings.schema import Config, DaemonSection, MptsSection
from support.fake_kernel import CUBIC, Kernel
from support.records import flow, record
from support.running_daemon import make_daemon

FIRST, SECOND = "198.51.100.7", "203.0.113.9"
"""Remote addresses of the two flows that the program shows to its daemon."""
WRITES = "in the middle of a save"
_STEP_NS = 30_000_000
_COOKIES = itertools.count(1)


def config(folder: Path, policy: str = "rule") -> Config:
    """A daemon that keeps its state in this folder."""
    section = DaemonSection(
        mode="active", policy=policy, state_dir=str(folder), control_socket=str(folder / "socket")
    )
    return Config(daemon=section, mpts=MptsSection(enabled=False))


def commanded(daemon: Daemon, kernel: Kernel, remote: str, lost: float = 0.0) -> set[int]:
    """The arms that the daemon gives to a flow of 0.6 s which began on Cubic, and which loses this share."""
    cookie = next(_COOKIES)
    steered = int(FlowFlags.STEERED)
    kernel.table[cookie] = flow(cookie, remote, arm=CUBIC, want_arm=CUBIC, flags=steered)
    _tell(daemon, kernel, Cmd.FLOW_BIRTH, cookie)
    kernel.sent.clear()
    began_ns = time.monotonic_ns()
    for step in range(1, 21):
        arm = int(kernel.table[cookie].record["arm"][0])
        made = record(
            cookie, time_ns=began_ns + step * _STEP_NS, interval_ns=_STEP_NS, samples=5, rtt_samples=5,
            delivered=60, total_delivered=60 * step, total_lost=int(60 * step * lost / (1 - lost)),
            srtt_us=40_000, mss=1448, arm=arm, want_arm=arm, rtt_floor_us=40_000, bdp=80, flags=steered,
        )  # fmt: skip
        made["rtt_stat"] = made["srtt_stat"] = (40_000, 40_000, 200_000)
        kernel.steps = [made]
        daemon.engine.step()
    _tell(daemon, kernel, Cmd.FLOW_DEATH, cookie)
    del kernel.table[cookie]
    return {int(command["arm"]) for batch in kernel.sent for command in batch}


def save(daemon: Daemon) -> None:
    """Save as a daemon does at its end."""
    assert daemon._saver is not None
    daemon._saver.finish(daemon._state())


def _tell(daemon: Daemon, kernel: Kernel, kind: Cmd, cookie: int) -> None:
    kernel.pending.append(EventBatch([FlowEvent(kind, kernel.table[cookie])], lost=False))
    daemon.engine.read_events()


def main(folder: Path) -> None:
    """Save once, show the daemon another flow, and hang before the second file is whole."""
    kernel = Kernel(steps=[])
    daemon = make_daemon(kernel, config(folder), pytest.MonkeyPatch())
    commanded(daemon, kernel, FIRST, lost=0.15)
    save(daemon)
    commanded(daemon, kernel, SECOND, lost=0.15)

    def hang(_: int) -> None:
        print(WRITES, flush=True)
        threading.Event().wait()

    setattr(os, "fsync", hang)  # noqa: B010
    save(daemon)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
