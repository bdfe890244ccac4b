# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval ablate`: leave out each special case of the daemon's rule in turn, and compare the reward with
the whole rule's.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.table import Table

from ltp_switcher.daemon.datapath.recording import read_recording
from ltp_switcher.daemon.settings.rule_policy import CASES
from ltp_switcher.daemon.settings.rules import did_you_mean
from ltp_switcher.errors import ArtifactError, ConfigError
from ltp_switcher.eval.cli.output import show
from ltp_switcher.eval.run.batch import run_batch
from ltp_switcher.eval.run.executor import Here
from ltp_switcher.eval.run.results import Job, RunResult
from ltp_switcher.eval.suite import ablation, kinds
from ltp_switcher.eval.suite.plan import plan

Read = TypeVar("Read")


def ablate(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """Run the whole rule on all paths. Where a special case acts, run the rule without the case, too. Compare
    the two.
    """
    for case in options.cases:
        if case not in CASES:
            allowed = f"any of {', '.join(CASES)}{did_you_mean(case, CASES)}"
            raise ConfigError("--cases", case, allowed)
    cases = options.cases or list(CASES)
    # The plan needs an arm to compare with, which does not run here.
    planned = plan(
        options.set, {ablation.WHOLE: 1, "bbr": 1}, options.kernel, quick=options.quick, names=options.paths,
        daemon="beside",
    )  # fmt: skip
    jobs = {run.path: run.job for run in planned if run.scheme == ablation.WHOLE}
    tuning_only(options.set, jobs)
    whole, acting = recordings(jobs, lambda rows: ablation.acting(rows, cases), options, progress)
    lacking: dict[str, dict[str, RunResult]] = {case: {} for case in cases}
    if not options.replay:
        missing = [(case, path) for case in cases for path in jobs if case in acting[path]]
        lacks = {f"{path} without {case}": ablation.without(jobs[path], case) for case, path in missing}
        lacking_runs = made(lacks, options, progress)
        for case, path in missing:
            lacking[case][path] = lacking_runs[f"{path} without {case}"]
    found = [
        ablation.worth(case, [path for path in jobs if case in acting[path]], whole, lacking[case])
        for case in cases
    ]
    show(options, console, [asdict(one) for one in found], lambda: _table(found, len(jobs)))


def tuning_only(given: object, paths: Iterable[str]) -> None:
    """Refuse paths that are held out, because nobody may choose settings by them.

    Raises:
        ConfigError: one of the paths is held out.
    """
    if any(map(kinds.holds_out, paths)):
        raise ConfigError("--set", given, "a set for tuning: nobody chooses by paths that are held out")


def recordings(
    jobs: Mapping[str, Job],
    of: Callable[[npt.NDArray[np.void]], Read],
    options: argparse.Namespace,
    progress: Console,
) -> tuple[dict[str, RunResult], dict[str, Read]]:
    """Make and record the run of each job. Return the results, and the value of the function `of` for each
    run's recording, both by the job's name.
    """
    recorded = {name: ablation.recorded(job) for name, job in jobs.items()}
    for job in jobs.values():
        ablation.recording_of(job).parent.mkdir(parents=True, exist_ok=True)
    whole = made(recorded, options, progress)
    found = {}
    for name, job in jobs.items():
        try:
            found[name] = of(read_recording(ablation.recording_of(job)))
        except ArtifactError:
            # The result is kept, but its recording is gone or belongs to another version.
            whole |= made({name: recorded[name]}, options, progress, use_cache=False)
            found[name] = of(read_recording(ablation.recording_of(job)))
    return whole, found


def made(
    jobs: Mapping[str, Job], options: argparse.Namespace, progress: Console, *, use_cache: bool = True
) -> dict[str, RunResult]:
    """Make the runs, and return their results by name. The progress shows the same names."""
    labels = {job: name for name, job in jobs.items()}
    made = run_batch(
        list(jobs.values()),
        progress,
        use_cache=use_cache,
        executor=Here(options.jobs),
        label=labels.__getitem__,
    )
    return dict(zip(jobs, made, strict=True))


def _table(found: Sequence[ablation.Worth], count: int) -> Table:
    table = Table(
        "without",
        f"acts on, of {count}",
        "over the whole rule",
        "interval",
        "lowest",
        box=None,
        pad_edge=False,
    )
    for one in found:
        mean = one.mean
        lowest = min(one.ratios, key=one.ratios.__getitem__, default="")
        table.add_row(
            one.case,
            f"{len(one.acts_on)}: {', '.join(one.acts_on)}" if one.acts_on else "0",
            f"{mean.value:.3f}" if mean else "not run",
            f"{mean.low:.3f} to {mean.high:.3f}" if mean else "",
            f"{one.ratios[lowest]:.3f} ({lowest})" if mean and one.acts_on else "",
        )
    return table
