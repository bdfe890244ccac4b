# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval expectations`: how well the daemon's model of a path predicts the best arm on unseen kinds of
path.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

from ltp_switcher.arrays import Floats
from ltp_switcher.artifacts import revision
from ltp_switcher.daemon.choose.chooser import Number
from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.cli.ablate import made, recordings, tuning_only
from ltp_switcher.eval.cli.output import json_text, need_pictures
from ltp_switcher.eval.report.engine_agreement import shortened
from ltp_switcher.eval.run.results import Job
from ltp_switcher.eval.suite import ablation
from ltp_switcher.eval.suite.paths import family
from ltp_switcher.eval.suite.plan import is_arm, plan
from ltp_switcher.eval.suite.score import Mean

KINDS_MIN: Final = 3
"""Least number of kinds of path in a study. A model predicts each kind from two others or more."""
REST_S: Final = 1.5
"""Time in seconds that a recording lasts after the moment at which the path's numbers are read. A flow begins
a second late if an ACK of its handshake is lost.
"""


def expectations(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """Run each arm alone on every path, fit models of the arms' rewards, and score the arms that the models
    choose.
    """
    need_pictures(placed=True)
    from ltp_switcher.eval.prior import expectations as study

    arms = [study.BASELINE, *(arm for arm in options.schemes if arm != study.BASELINE)]
    if len(arms) < 2 or not all(map(is_arm, arms)):
        raise ConfigError("--schemes", options.schemes, f"{study.BASELINE} and one other arm or more, alone")
    planned = [
        run
        for set_name in options.set or ["tuning-kinds"]
        for run in plan(
            set_name, dict.fromkeys((*arms, ablation.WHOLE), 1), options.kernel, quick=options.quick,
            names=options.paths, daemon="beside",
        )
        if _one_flow(run.job)
    ]  # fmt: skip
    tuning_only(options.set, (run.path for run in planned))
    kinds = {family(run.path) for run in planned}
    if len(kinds) < KINDS_MIN:
        raise ConfigError(
            "SET", options.set, f"paths of {KINDS_MIN} kinds or more with one flow of the daemon"
        )
    longest_s = min(run.job.scenario.duration_s for run in planned) - REST_S
    if not 0 < options.look < longest_s:
        raise ConfigError(
            "--look", options.look, f"above 0 and below {longest_s:g} s, the shortest path's time"
        )
    whole = {run.path: run.job for run in planned if run.scheme == ablation.WHOLE}
    numbers = _numbers(whole, options, progress)
    runs = {f"{run.path} {run.scheme}": run.job for run in planned if run.scheme != ablation.WHOLE}
    results = made(runs, options, progress)
    series = {path: [results[f"{path} {arm}"].series[0] for arm in arms] for path in whole}
    of = study.twins(numbers, series, arms, options.look)
    said, chosen = study.expectations(of), study.choices(of)
    if options.json:
        document = {
            "kernel": options.kernel, "quick": options.quick, "look_s": options.look, "revision": revision(),
            "paths": {
                path: {
                    "numbers": {number.name.lower(): _known(of_path[number]) for number in Number},
                    "log_reward": dict(zip(arms, logs.tolist(), strict=True)),
                }
                for (path, of_path), logs in zip(numbers.items(), of.logs, strict=True)
            },
            "expectations": [{**asdict(one), "r2": _known(one.r2)} for one in said],
            "choices": [asdict(one) for one in chosen],
        }  # fmt: skip
        console.out(json_text(document), end="", highlight=False)
        return
    head = f"{len(whole)} paths of {len(kinds)} kinds, {options.look:g} s looked at"
    console.print(head, highlight=False)
    table = Table(
        "arm",
        "known on",
        *study.SCORED,
        title="R² over the mean of the other kinds",
        box=None,
        pad_edge=False,
    )
    for arm in arms[1:]:
        told = [one for one in said if one.arm == arm]
        table.add_row(arm, str(told[0].known), *(f"{one.r2:.2f}" for one in told))
    console.print(table)
    table = Table(
        "chosen by", f"over {study.BASELINE}", "kinds drawn", "over the best arm", "worst", "leaves",
        box=None, pad_edge=False,
    )  # fmt: skip
    for choice in chosen:
        table.add_row(
            choice.way, _interval(choice.over_baseline), _interval(choice.by_kind, value=False),
            _interval(choice.over_best), f"{choice.worst_ratio:.3f} ({choice.worst})", str(choice.left),
        )  # fmt: skip
    console.print(table)


def _one_flow(job: Job) -> bool:
    """Whether a single flow has the scheme, from the start on, so that its numbers describe the path."""
    scenario = job.scenario
    own = [flow for flow in scenario.flows if flow.scheme == scenario.scheme]
    return scenario.requests is None and len(own) == 1 and own[0].start_s == 0


def _numbers(jobs: Mapping[str, Job], options: argparse.Namespace, progress: Console) -> dict[str, Floats]:
    """The numbers of each path after the look, by path; see `ablation.told`."""
    short = {
        path: replace(job, scenario=shortened(job.scenario, options.look + REST_S))
        for path, job in jobs.items()
    }
    named = {f"{path} rule": job for path, job in short.items()}
    _, found = recordings(named, lambda rows: ablation.told(rows, options.look), options, progress)
    return dict(zip(short, found.values(), strict=True))


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _interval(of: Mean, *, value: bool = True) -> str:
    interval = f"{of.low:.3f} to {of.high:.3f}"
    return f"{of.value:.3f} ({interval})" if value else interval
