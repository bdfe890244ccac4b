# SPDX-License-Identifier: Apache-2.0
"""Executors of runs: processes of this machine, or the workers of a Dask cluster.

A run is kept in this machine's cache by the hash of its inputs, wherever it was made.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import TracebackType
from typing import Final, Protocol

from ltp_switcher.cluster import Cluster
from ltp_switcher.eval.lab.run import RunFiles
from ltp_switcher.eval.run.live import Sample
from ltp_switcher.eval.run.results import Job

WAITING_MAX: Final = 256
"""Number of runs that a cluster is asked for at a time."""


class Executor(Protocol):
    """An executor of runs, used as a context manager.

    Attributes:
        parallel: number of runs that the executor makes side by side.
        waiting: number of runs to ask the executor for at a time.
    """

    @property
    def parallel(self) -> int:
        """Number of runs to make at a time."""

    @property
    def waiting(self) -> int:
        """Number of runs to ask the executor for at a time."""

    def __enter__(self) -> Executor:
        """Make the executor ready for runs, and return it."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the executor, such as its connection to a cluster."""

    def make(self, job: Job, on_begin: Callable[[], None], on_sample: Callable[[Sample], None]) -> RunFiles:
        """Make a run, and return its raw results. The executor calls `on_begin` when the run begins, and
        `on_sample` with the state of the run's first flow.

        Raises the errors of `Job.make`, and `ClusterError`.
        """

    def stop(self) -> None:
        """Give up the runs under way."""


class Here:
    """Makes runs on this machine, by default one for each CPU that this process may use."""

    def __init__(self, parallel: int | None = None) -> None:
        self.parallel = self.waiting = parallel or default_parallel()

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def make(self, job: Job, on_begin: Callable[[], None], on_sample: Callable[[Sample], None]) -> RunFiles:
        """Make a run on this machine; see `Executor.make`."""
        on_begin()
        return job.make(on_sample)

    def stop(self) -> None:
        """Do nothing, because each run ends at its next sample."""


class OnCluster:
    """Makes runs on the workers of a Dask cluster."""

    waiting = WAITING_MAX

    def __init__(self, address: str) -> None:
        """Take the scheduler's address. Raises the errors of `Cluster`."""
        self._cluster = Cluster(address)

    @property
    def parallel(self) -> int:
        """Number of runs that the workers make side by side."""
        return self._cluster.slots

    def __enter__(self) -> OnCluster:
        """Connect to the cluster. Raises the errors of `Cluster`."""
        self._cluster.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cluster.__exit__(kind, error, trace)

    def make(self, job: Job, on_begin: Callable[[], None], on_sample: Callable[[Sample], None]) -> RunFiles:
        """Make a run on a worker; see `Executor.make`."""
        return self._cluster.make(job, on_begin, on_sample)

    def stop(self) -> None:
        """Give up the runs under way on the workers."""
        self._cluster.stop()


def executor_of(jobs: int, cluster: str | None) -> Executor:
    """Return an executor for the cluster whose scheduler has the address `cluster`. Without an address,
    return one that runs `jobs` labs on this machine.

    Raises the errors of `Cluster`.
    """
    return Here(jobs) if cluster is None else OnCluster(cluster)


def default_parallel() -> int:
    """Return the number of labs to run side by side: one for each CPU that this process may use."""
    return max(1, len(os.sched_getaffinity(0)))
