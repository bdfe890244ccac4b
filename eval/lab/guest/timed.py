# SPDX-License-Identifier: Apache-2.0
"""The program `ltp-switcher`, with each step's own time written to a file: see ../delay.py."""

from __future__ import annotations

import atexit
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np

from ltp_switcher.daemon.cli.main import main
from ltp_switcher.daemon.datapath import Datapath, RecordArray
from ltp_switcher.daemon.steer import LEARNED
from ltp_switcher.daemon.step.engine import Engine

STEPS: Final = Path("/run/lab/steps.npy")
STEP, CLOSE_STEP = Engine.step, Datapath.close_step


class Stopwatch:
    """Measures the time that the daemon itself takes for each step, after it has read the flows' records.

    A row has the number of flows, the number of flows that want each learned arm, and the time in ns. The
    time of calls to the kernel does not count, because a daemon beside the guest waits for these calls just
    as long.
    """

    def __init__(self) -> None:
        self.rows: list[tuple[int, ...]] = []
        self._counts: tuple[int, ...] = ()
        self._began_ns = self._kernel_ns = 0

    def close_step(self, datapath: Datapath) -> RecordArray:
        """Do as `Datapath.close_step`, and start the clock when it returns."""
        records = CLOSE_STEP(datapath)
        wanted = np.bincount(records["want_arm"], minlength=256) if records.size else np.zeros(256, int)
        self._counts = (len(records), *(int(wanted[arm]) for arm in sorted(LEARNED)))
        self._began_ns, self._kernel_ns = time.monotonic_ns(), 0
        return records

    def step(self, engine: Engine) -> None:
        """Do as `Engine.step`. When it returns, add a row with the time that it took and the
        counts of flows.
        """
        STEP(engine)
        own_ns = time.monotonic_ns() - self._began_ns - self._kernel_ns
        self.rows.append((*self._counts, own_ns))

    def apart(self, call: Callable[..., object]) -> Callable[..., object]:
        """Wrap a function that calls the kernel, so that its time does not count."""

        def called(*arguments: object, **options: object) -> object:
            began_ns = time.monotonic_ns()
            try:
                return call(*arguments, **options)
            finally:
                self._kernel_ns += time.monotonic_ns() - began_ns

        return called

    def start(self) -> None:
        """Time all steps from now on, and write the rows at the program's end."""
        for name in ("select", "control", "flows", "set_starts"):
            setattr(Datapath, name, self.apart(getattr(Datapath, name)))
        setattr(Datapath, "close_step", lambda datapath: self.close_step(datapath))  # noqa: B010
        setattr(Engine, "step", lambda engine: self.step(engine))  # noqa: B010
        atexit.register(lambda: np.save(STEPS, np.array(self.rows, np.int64)))


if __name__ == "__main__":
    Stopwatch().start()
    sys.exit(main())
