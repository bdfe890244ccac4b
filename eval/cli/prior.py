# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval prior`: it scores models that pick an arm by a flow's first seconds under BBR, on paths that the
models have not seen.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import track
from rich.table import Table

from ltp_switcher.artifacts import revision
from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.cli.output import json_text, need_pictures
from ltp_switcher.eval.run.results import is_made, run_job
from ltp_switcher.eval.suite.plan import is_arm, plan
from ltp_switcher.eval.suite.single import single_paths

if TYPE_CHECKING:
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
    planned = plan(options.set, dict.fromkeys(schemes, 1), options.kernel, quick=options.quick)
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
    scored = scores(found, *baselines)
    if options.json:
        document = {
            "set": options.set, "kernel": options.kernel, "quick": options.quick, "look_s": options.look,
            "revision": revision(), "features": FEATURES, "paths": found.paths, "scores": scored,
        }  # fmt: skip
        console.out(json_text(document), end="", highlight=False)
        return
    console.print(f"{len(found.paths)} paths, {options.look:g} s of {LOOKS_WITH}", highlight=False)
    console.print(_table(scored))


def _table(scored: list[Score]) -> Table:
    kinds = list(scored[0].pick)
    table = Table("picks by", *kinds, "better of two", "in the interval", box=None, pad_edge=False)
    for score in scored:
        cells = [_mean(score.pick["all"]), *(f"{score.pick[kind].value:.3f}" for kind in kinds[1:])]
        covered = " ".join(f"{score.coverage[kind]:.0%}" for kind in kinds) if score.coverage else ""
        table.add_row(score.way, *cells, f"{score.top_two.value:.3f}" if score.top_two else "", covered)
    return table


def _mean(of: Mean) -> str:
    return f"{of.value:.3f} ({of.low:.3f} to {of.high:.3f})"
