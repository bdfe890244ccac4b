# SPDX-License-Identifier: Apache-2.0
"""Several runs at once. Other processes make the runs, so this process needs only threads that wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

from rich.console import Console

from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab.run import RunFiles
from ltp_switcher.eval.run.executor import Executor, Here
from ltp_switcher.eval.run.live import Board, Sample
from ltp_switcher.eval.run.results import Job, RunResult, run_job


def run_batch(
    jobs: Sequence[Job],
    console: Console,
    *,
    use_cache: bool,
    executor: Executor | None = None,
    label: Callable[[Job], str] = lambda job: job.scheme,
    on_done: Callable[[Job, RunResult], None] = lambda job, outcome: None,
) -> list[RunResult]:
    """Make the runs, show the progress on `console`, and return the outcomes in the order of `jobs`.

    `executor` makes the runs, by default on this machine. This function uses it as a context manager. The
    first error or an interrupt stops all runs. Finished runs stay in the cache. `label` gives the name under
    which the progress shows a run. `on_done` takes each finished run, in the caller's thread.

    Raises:
        LabError, ConfigError, EmulationError, ArtifactError: a run failed; see `run_job`.
        ClusterError: the cluster failed; see `Executor.make`.
    """
    where = executor or Here()
    stop = threading.Event()
    outcomes: dict[int, RunResult] = {}

    def work(index: int) -> None:
        def on_sample(sample: Sample) -> None:
            if stop.is_set():
                raise LabError("stopped")
            board.update(index, sample)

        def make(job: Job) -> RunFiles:
            return where.make(job, lambda: board.start(index), on_sample)

        if stop.is_set():
            return
        state = ""
        try:
            outcome = run_job(jobs[index], use_cache=use_cache, make=make)
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
        ThreadPoolExecutor(where.waiting) as pool,
    ):
        try:
            index_of = {pool.submit(work, index): index for index in range(len(jobs))}
            for finished in as_completed(index_of):
                finished.result()
                index = index_of[finished]
                # A run has no outcome if another run failed before it began. The loop raises the other run's
                # error later.
                if index in outcomes:
                    on_done(jobs[index], outcomes[index])
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            where.stop()
            raise
    return [outcomes[index] for index in range(len(jobs))]
