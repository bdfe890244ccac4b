# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval prior`: it scores models that pick an arm by a flow's first seconds under BBR, on paths that the
models have not seen.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ltp_switcher.arrays import Floats
from ltp_switcher.artifacts import revision
from ltp_switcher.encoder.gru import GRUEncoder
from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.cli.ablate import recordings
from ltp_switcher.eval.cli.expectations import REST_S
from ltp_switcher.eval.cli.output import json_text, need_pictures
from ltp_switcher.eval.run.results import Job, is_made, run_job
from ltp_switcher.eval.suite.plan import is_arm, plan
from ltp_switcher.eval.suite.single import single_paths

if TYPE_CHECKING:
    from ltp_switcher.eval.prior.contexts import Over
    from ltp_switcher.eval.prior.study import Score
    from ltp_switcher.eval.suite.score import Mean

PATHS_MIN: Final = 20
"""Least number of paths in a study. With fewer paths, a fold of the cross-validation has fewer than two of
them.
"""


def prior(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """Score the models on the finished runs, and print a row for each way to pick an arm."""
    need_pictures(placed=True)
    from ltp_switcher.eval.prior.rows import FEATURES, LOOKS_WITH, rows
    from ltp_switcher.eval.prior.study import scores

    schemes = [LOOKS_WITH, *(scheme for scheme in options.schemes if scheme != LOOKS_WITH)]
    baselines = [scheme for scheme in schemes if not is_arm(scheme)]
    if len(baselines) > 1 or len(schemes) - len(baselines) < 2:
        raise ConfigError(
            "--schemes", options.schemes, "bbr, one other arm or more, and at most one that is no arm"
        )
    planned = plan(
        options.set, dict.fromkeys(schemes, 1), options.kernel, quick=options.quick, daemon=options.daemon
    )
    single = [
        run for run in planned if len(run.job.scenario.flows) == 1 and run.job.scenario.requests is None
    ]
    there = [run for run in single if is_made(run.job)]
    made = [
        (run, run_job(run.job, use_cache=True))
        for run in track(there, "reading", console=progress, transient=True)
    ]
    found = rows(single_paths(made), schemes, options.look)
    if len(found.paths) < PATHS_MIN:
        raise ConfigError(
            "--set", options.set,
            f"{PATHS_MIN} paths with runs of {', '.join(schemes)}, not {len(found.paths)}; see `suite`",
        )  # fmt: skip
    scored: list[Score] = scores(found, *baselines)
    compared: list[Over] = []
    if options.contexts:
        from ltp_switcher.eval.prior import contexts as study

        looks = {run.path: run.job for run in there if run.scheme == LOOKS_WITH}
        seen = _contexts({path: looks[path] for path in found.paths}, options, progress)
        scored += study.scores_with(found, seen, *baselines)
        compared = study.compared(found.only(is_arm), seen)
    if options.json:
        document = {
            "set": options.set, "kernel": options.kernel, "quick": options.quick, "look_s": options.look,
            "revision": revision(), "features": FEATURES, "paths": found.paths,
            "scores": [asdict(one) for one in scored], "compared": [asdict(one) for one in compared],
        }  # fmt: skip
        console.out(json_text(document), end="", highlight=False)
        return
    console.print(f"{len(found.paths)} paths, {options.look:g} s of {LOOKS_WITH}", highlight=False)
    console.print(_table(scored))
    if compared:
        console.print(_compared_table(compared))


def _contexts(jobs: Mapping[str, Job], options: argparse.Namespace, progress: Console) -> Floats:
    """Record the look on each path. Return the contexts, shape (paths, outputs)."""
    from ltp_switcher.eval.prior.contexts import context, looked

    encoder = GRUEncoder.from_file(options.weights)
    looks = {f"{path} look": looked(job, options.look + REST_S) for path, job in jobs.items()}
    _, found = recordings(looks, lambda rows: context(rows, options.look, encoder), options, progress)
    return np.array(list(found.values()))


def _table(scored: list[Score]) -> Table:
    kinds = list(scored[0].pick)
    table = Table("picks by", *kinds, "better of two", "in the interval", box=None, pad_edge=False)
    for score in scored:
        cells = [_mean(score.pick["all"]), *(f"{score.pick[kind].value:.3f}" for kind in kinds[1:])]
        covered = " ".join(f"{score.coverage[kind]:.0%}" for kind in kinds) if score.coverage else ""
        table.add_row(score.way, *cells, f"{score.top_two.value:.3f}" if score.top_two else "", covered)
    return table


def _compared_table(compared: list[Over]) -> Table:
    table = Table("picks by", "over", "ratio", box=None, pad_edge=False)
    for one in compared:
        table.add_row(one.way, one.over, _mean(one.ratio))
    return table


def _mean(of: Mean) -> str:
    return f"{of.value:.3f} ({of.low:.3f} to {of.high:.3f})"
