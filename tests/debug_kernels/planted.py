# SPDX-License-Identifier: Apache-2.0
"""Puts a known fault into a copy of the module: the gate must find it."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from debug_kernels.build import MODULE
from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab.packages import run

PATCHES: Final = Path(__file__).parent / "faults"
HOST: Final = "host"
"""Not a kernel: the tests of the pure logic, with two threads on this machine's processors."""

# Where others keep the processors busy, the two threads may meet too seldom in one run.
HOST_RUNS: Final = 5


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: its patch, a description, and the kernel that should find it, or `HOST`."""

    name: str
    flavour: str
    description: str


FAULTS: Final = (
    Fault("free-at-once", "kasan", "a flow is freed at once in place of `call_rcu`"),
    Fault("release-skipped", "kmemleak", "a frozen arm that owns memory is not released"),
    Fault("sleep-in-softirq", "kasan", "an allocation under the socket's lock may sleep"),
    # KCSAN delays stores, but looks only at accesses that are not marked; both sides of this one are.
    Fault("barrier-dropped", HOST, "no full barrier in `mutant_step_begin`"),
)


def planted(fault: Fault, folder: Path) -> Path:
    """Return a copy of the module's sources below `folder` with the fault in it.

    Raises:
        LabError: the patch does not fit the sources any more.
    """
    copy = folder / fault.name
    shutil.copytree(MODULE, copy, ignore=shutil.ignore_patterns("build", "tools"))
    patch = PATCHES / f"{fault.name}.patch"
    run(["patch", "-s", "-p1", "--fuzz=0", "-d", str(copy), "-i", str(patch)], hint=f"Refresh {patch.name}.")
    return copy


def failures_on_host(sources: Path) -> list[str]:
    """Return the checks of the pure logic that fail, a line each, in the first of a few runs where one does.

    Raises:
        LabError: the tests did not run.
    """
    for _ in range(HOST_RUNS):
        done = subprocess.run(["make", "-s", "-C", str(sources), "host-test"], capture_output=True, text=True)
        failed = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("tests/host/")]
        if failed:
            return failed
        if done.returncode:
            raise LabError(f"make host-test: {done.stderr.strip()[-500:]}")
    return []
