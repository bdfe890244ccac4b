# SPDX-License-Identifier: Apache-2.0
"""Parts of a real Dask cluster on the loopback, as processes of their own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]


def dask(*arguments: object, **environment: str) -> subprocess.Popen[bytes]:
    """Start a part of Dask."""
    paths = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    known = {"PYTHONPATH": paths, "DASK_DISTRIBUTED__SCHEDULER__WORK_STEALING": "False"}
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *map(str, arguments), "--no-dashboard"],
        env={**os.environ, **known, **environment}, stderr=subprocess.DEVNULL,
    )  # fmt: skip


def worker(address: str, folder: Path, **environment: str) -> subprocess.Popen[bytes]:
    """Start a worker for one task at a time."""
    options = ("--nthreads", 1, "--no-nanny", "--local-directory", folder)
    return dask("worker", address, *options, **environment)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a part of Dask."""
    process.kill()
    process.wait()


@contextlib.contextmanager
def scheduler(folder: Path, **environment: str) -> Iterator[str]:
    """A scheduler on the loopback: its address."""
    import distributed

    file = folder / "scheduler"
    process = dask("scheduler", "--host", "127.0.0.1", "--port", 0, "--scheduler-file", file, **environment)
    try:
        with distributed.Client(scheduler_file=str(file), set_as_default=False) as client:
            found = str(client.scheduler_info()["address"])
        yield found
    finally:
        end(process)
