# SPDX-License-Identifier: Apache-2.0
"""A run whose files are known: it waits at a gate, and takes no lab."""

from __future__ import annotations

import os
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab.run import RunFiles
from ltp_switcher.eval.run import kept
from ltp_switcher.eval.run.live import Sample
from ltp_switcher.eval.run.results import Job
from ltp_switcher.eval.suite.plan import plan

OTHER = "QUICK_RUN_IS_OTHER"
"""Where this variable is set, the fingerprint is another one."""


@dataclass(frozen=True, slots=True)
class QuickRun(Job):
    """A run that the repository keeps. Each begin is a line in `folder`/begun: its fingerprint and process.

    It ends when there is a file `folder`/gate, and fails where `fails` is set.
    """

    folder: str = ""
    fails: bool = False

    def fingerprint(self) -> str:
        """A name for it."""
        return f"{self.scheme}-{self.seed}{os.environ.get(OTHER, '')}"

    def make(self, on_sample: Callable[[Sample], None] | None) -> RunFiles:
        """Wait, and read the files."""
        with Path(self.folder, "begun").open("a") as begun:
            begun.write(f"{self.fingerprint()} {os.getpid()}\n")
        assert on_sample is not None
        while not Path(self.folder, "gate").exists():
            on_sample(Sample(self.scenario.duration_s / 2, "bbr", 9.0, 41.0, 7.5, 1.25, 3))
            time.sleep(0.01)
        if self.fails:
            raise LabError("the guest has no memory left")
        (path,) = kept.FOLDER.glob(f"test/fixed-1/{self.scheme}-{self.seed}-{self.kernel}.*.zip")
        with zipfile.ZipFile(path) as archive:
            files = {name: archive.read(name) for name in self.raw_files}
        return RunFiles(files, self.kernel, 1.0, 2.0)


def quick_runs(folder: Path, schemes: list[str], *, fails: bool = False) -> list[Job]:
    """Runs on the first path of the test set, one for each scheme."""
    runs = plan("test", dict.fromkeys(schemes, 1), "6.1", quick=False, names=["fixed-1"])
    return [
        QuickRun(run.job.scenario, run.job.seed, run.job.kernel, folder=str(folder), fails=fails)
        for run in runs
    ]
