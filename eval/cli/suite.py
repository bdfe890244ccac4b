# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval suite`: all schemes on the paths of the suite; writes `results.json` and `report.html`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ltp_switcher.artifacts import revision
from ltp_switcher.eval.cli.output import json_text, need_pictures
from ltp_switcher.eval.run import kept
from ltp_switcher.eval.run.batch import run_batch
from ltp_switcher.eval.run.results import RunResult
from ltp_switcher.eval.suite.harm import TABLE_HEAD as HARM_HEAD
from ltp_switcher.eval.suite.harm import alone, harms
from ltp_switcher.eval.suite.harm import table_rows as harm_rows
from ltp_switcher.eval.suite.losses import losses
from ltp_switcher.eval.suite.over_time import oracles, recovered, without_start
from ltp_switcher.eval.suite.plan import FULL, QUICK, Run, judged, lasting, plan
from ltp_switcher.eval.suite.score import means, score
from ltp_switcher.eval.suite.siblings import TABLE_HEAD as PLAYERS_HEAD
from ltp_switcher.eval.suite.siblings import players
from ltp_switcher.eval.suite.siblings import table_rows as players_rows
from ltp_switcher.eval.suite.studies import STUDIES
from ltp_switcher.eval.suite.web import TABLE_HEAD, table_rows, web_paths


def evaluate(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """Make the runs that are missing, and the report of all."""
    need_pictures()
    from ltp_switcher.eval.suite.page import Origin, Results, html
    from ltp_switcher.eval.suite.paper_figures import paper_figures
    from ltp_switcher.eval.suite.pictures import draw

    began = time.monotonic()
    # The runs have this revision. Hours later the checkout may have another.
    made_of = revision()
    usual = QUICK if options.quick else FULL
    study = STUDIES[options.study] if options.study else None
    names = options.schemes or (study.schemes if study else usual)
    schemes = {name: usual.get(name, 1) for name in names}
    if options.seeds:
        schemes = dict.fromkeys(schemes, options.seeds)
    only = options.paths or (study.paths if study else ())
    runs = plan(options.set, schemes, options.kernel, quick=options.quick, names=only)
    labels = {job: f"{run.path} alone #{job.seed}" for run in runs for job in alone(run)}
    labels |= {run.job: f"{run.path} {run.scheme} #{run.job.seed}" for run in runs}
    jobs = list(labels)
    outcomes = run_batch(jobs, progress, use_cache=True, parallel=options.jobs, label=labels.__getitem__)
    by_job = dict(zip(jobs, outcomes, strict=True))
    every = [(run, by_job[run.job]) for run in runs]
    if options.keep:
        _keep(every, options, made_of)
    made = [(run, outcome) for run, outcome in every if run.job.scenario.requests is None]
    summaries = [(run.path, run.scheme, judged(run, outcome.summary)) for run, outcome in made]
    paths = score(summaries)
    results = Results(
        options.set,
        options.kernel,
        options.quick,
        paths,
        score((run.path, run.scheme, judged(run, without_start(outcome))) for run, outcome in made),
        recovered(made),
        oracles(made),
        losses(made),
        round(time.monotonic() - began, 1),
        web_paths(every),
        players(made),
        harms(made, by_job),
        Origin(_command(options), made_of, {scheme: _seeds(runs, scheme) for scheme in schemes}),
    )
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    text = json_text(results.to_dict())
    (out / "results.json").write_text(text)
    figures = paper_figures(
        [(path, summary) for path, _, summary in summaries], paths, results.oracles, results.harms
    )
    (out / "report.html").write_text(html(results, draw(made, results.losses, figures)), encoding="utf-8")
    if options.json:
        console.out(text, end="", highlight=False)
        return
    table = Table("scheme", "paths", "of the best arm", "interval", box=None, pad_edge=False)
    for scheme in results.schemes:
        mean = means(paths, scheme)["all"]
        table.add_row(scheme, str(mean.paths), f"{mean.value:.3f}", f"{mean.low:.3f} to {mean.high:.3f}")
    if paths:
        console.print(table)
    if results.players:
        _print(console, PLAYERS_HEAD, players_rows(results.players))
    if results.harms:
        _print(console, HARM_HEAD, harm_rows(results.harms))
    if results.web:
        _print(console, TABLE_HEAD, table_rows(results.web))
    console.print(f"\n{out}: results.json, report.html", highlight=False)


def _keep(every: Sequence[tuple[Run, RunResult]], options: argparse.Namespace, made_of: str) -> None:
    of_set = f"{options.set}-quick" if options.quick else options.set
    made = {"command": _command(options), "revision": made_of}
    for run, outcome in every:
        job = run.job
        if lasting(job.scenario):
            place = f"{of_set}/{run.path}/{run.scheme}-{job.seed}-{job.kernel}"
            kept.write(place, outcome.folder.name, outcome.kept_files(), made)


def _command(options: argparse.Namespace) -> str:
    words = ["ltp-eval suite", *(["--quick"] if options.quick else []), f"--set {options.set}"]
    words += [f"--study {options.study}"] if options.study else []
    words.append(f"--kernel {options.kernel}")
    words += [f"--{name} {','.join(of)}" for name in ("schemes", "paths") if (of := getattr(options, name))]
    return " ".join([*words, *([f"--seeds {options.seeds}"] if options.seeds else [])])


def _seeds(runs: Sequence[Run], scheme: str) -> list[int]:
    return sorted({run.job.seed for run in runs if run.scheme == scheme})


def _print(console: Console, head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in head:
        table.add_column(name, no_wrap=True)
    for row in rows:
        table.add_row(*row)
    console.print(table)
