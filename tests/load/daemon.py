# SPDX-License-Identifier: Apache-2.0
"""The program `ltp-switcher` over the stand-in for the module.

It writes down how long each step takes, and how long clients have to wait in it.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
import time
from pathlib import Path
from typing import Final

import numpy as np

from load.module import Module
from load.stream import Stream
from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.control.server import ControlServer
from ltp_switcher.daemon.datapath import netlink
from ltp_switcher.daemon.step.engine import Engine

SETTINGS: Final = "LTP_LOAD"
"""JSON: recording, flows, seed, churn, steps (the file to write)."""
STEP_DTYPE: Final = np.dtype([("began_ns", "=i8"), ("wall_ns", "=i8"), ("cpu_ns", "=i8")])


def write_down_steps(path: Path) -> None:
    """Append a `STEP_DTYPE` to the file for each step that moves data.

    Beside it, in `stretches`, is the processor time between the turns of clients within steps (=i8, ns).
    """
    file, stretches = path.open("ab"), path.with_name("stretches").open("ab")
    for opened in (file, stretches):
        atexit.register(opened.close)
    step, pump = Engine.step, ControlServer.pump
    turns_ns: list[int] = []

    def noted(server: ControlServer, until_s: float) -> bool:
        turns_ns.append(time.thread_time_ns())
        more = pump(server, until_s)
        turns_ns.append(time.thread_time_ns())
        return more

    def timed(engine: Engine) -> None:
        before, cpu_ns, began_ns = engine.statistics.steps, time.thread_time_ns(), time.monotonic_ns()
        turns_ns[:] = [cpu_ns]
        step(engine)
        ends_ns = np.array([*turns_ns, time.thread_time_ns()])
        # From the end of a turn to the beginning of the next one.
        stretches.write((ends_ns[1::2] - ends_ns[::2]).tobytes())
        wall_ns, cpu_ns = time.monotonic_ns() - began_ns, time.thread_time_ns() - cpu_ns
        if engine.statistics.steps > before:
            file.write(np.array([(began_ns, wall_ns, cpu_ns)], STEP_DTYPE).tobytes())

    Engine.step = timed  # type: ignore[method-assign]
    ControlServer.pump = noted  # type: ignore[method-assign]


if __name__ == "__main__":
    given = json.loads(os.environ[SETTINGS])
    stream = Stream(Path(given["recording"]), given["flows"], given["seed"])
    netlink.open_socket = Module(stream, given["churn"]).socket  # type: ignore[assignment]
    write_down_steps(Path(given["steps"]))
    sys.exit(main())
