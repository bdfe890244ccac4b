# SPDX-License-Identifier: Apache-2.0
"""Several runs at once: each is one QEMU process, so threads that wait for them are enough."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from rich.console import Console

from ltp_switcher.errors import LabError
from ltp_switcher.eval.run.live import Board, Sample
from ltp_switcher.eval.run.results import Job, RunResult, run_job


def default_parallel() -> int:
    """Return the number of labs to run side by side: one for each CPU that this process may use."""
    return max(1, len(os.sched_getaffinity(0)))


def run_batch(
    jobs: Sequence[Job],
    console: Console,
    *,
    use_cache: bool,
    parallel: int | None = None,
    label: Callable[[Job], str] = lambda job: job.scheme,
    on_done: Callable[[Job, RunResult], None] = lambda job, outcome: None,
) -> list[RunResult]:
    """Make the runs, `parallel` at a time, with progress on `console`; outcomes in order of `jobs`.

    The first error, or an interrupt, stops all runs; finished runs stay in the cache. `on_done` gets each run
    when it is finished, in the caller's thread.

    Raises:
        LabError, ConfigError, EmulationError, ArtifactError: as `run_job`.
    """
    stop = threading.Event()
    outcomes: dict[int, RunResult] = {}

    def work(index: int) -> None:
        def on_sample(sample: Sample) -> None:
            if stop.is_set():
                raise LabError("stopped")
            board.update(index, sample)

        if stop.is_set():
            return
        board.start(index)
        state = ""
        try:
            outcome = run_job(jobs[index], use_cache=use_cache, on_sample=on_sample)
            outcomes[index] = outcome
            state = "cached" if outcome.cached else "done"
        except BaseException:
            state = "stopped" if stop.is_set() else "failed"
            stop.set()
            raise
        finally:
            board.finish(index, state)

    with (
        Board(console, [(label(job), job.scenario.duration_s) for job in jobs]) as board,
        ThreadPoolExecutor(parallel or default_parallel()) as pool,
    ):
        try:
            index_of = {pool.submit(work, index): index for index in range(len(jobs))}
            for finished in as_completed(index_of):
                finished.result()
                index = index_of[finished]
                on_done(jobs[index], outcomes[index])
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [outcomes[index] for index in range(len(jobs))]
