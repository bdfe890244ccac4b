# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval suite` runs all schemes on the paths of a set, and `ltp-eval draw` draws a new set."""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ltp_switcher.artifacts import revision
from ltp_switcher.errors import ConfigError, RefusedError
from ltp_switcher.eval.cli.output import json_text, need_pictures, show
from ltp_switcher.eval.run import kept
from ltp_switcher.eval.run.batch import run_batch
from ltp_switcher.eval.run.executor import executor_of
from ltp_switcher.eval.run.results import Job, RunResult, is_made
from ltp_switcher.eval.suite.breaches import TABLE_HEAD as BREACHES_HEAD
from ltp_switcher.eval.suite.breaches import breaches
from ltp_switcher.eval.suite.breaches import table_rows as breaches_rows
from ltp_switcher.eval.suite.harm import TABLE_HEAD as HARM_HEAD
from ltp_switcher.eval.suite.harm import alone, harms
from ltp_switcher.eval.suite.harm import table_rows as harm_rows
from ltp_switcher.eval.suite.losses import losses
from ltp_switcher.eval.suite.offsets import draw_offsets
from ltp_switcher.eval.suite.over_time import oracles, recovered, without_start
from ltp_switcher.eval.suite.paths import SETS, draw, write
from ltp_switcher.eval.suite.plan import FULL, QUICK, Run, comparable, judged, lasting, needed_arms, plan
from ltp_switcher.eval.suite.score import means, score
from ltp_switcher.eval.suite.siblings import TABLE_HEAD as PLAYERS_HEAD
from ltp_switcher.eval.suite.siblings import players
from ltp_switcher.eval.suite.siblings import table_rows as players_rows
from ltp_switcher.eval.suite.single import single_paths
from ltp_switcher.eval.suite.studies import STUDIES
from ltp_switcher.eval.suite.transitions import TABLE_HEAD as TRANSITIONS_HEAD
from ltp_switcher.eval.suite.transitions import table_rows as transitions_rows
from ltp_switcher.eval.suite.transitions import transitions
from ltp_switcher.eval.suite.video import VIDEO_HEAD, video_paths, video_rows
from ltp_switcher.eval.suite.web import TABLE_HEAD, table_rows, web_paths
from ltp_switcher.eval.suite.wide import draw_wide


def evaluate(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """`ltp-eval suite`: it makes the runs that are missing, and writes `results.json` and `report.html`."""
    need_pictures()
    from ltp_switcher.eval.suite.page import OVER_HEAD, Origin, Results, barren_text, html, over_rows
    from ltp_switcher.eval.suite.paper_figures import paper_figures
    from ltp_switcher.eval.suite.pictures import draw as draw_pictures

    began = time.monotonic()
    # The runs have this revision. Hours later the checkout may have another one.
    made_of = revision()
    usual = QUICK if options.quick else FULL
    study = STUDIES[options.study] if options.study else None
    names = options.schemes or (study.schemes if study else usual)
    schemes = {name: usual.get(name, 1) for name in names}
    if options.seeds:
        schemes = dict.fromkeys(schemes, options.seeds)
    only = options.paths or (study.paths if study else ())
    runs = plan(options.set, schemes, options.kernel, quick=options.quick, names=only, daemon=options.daemon)
    if options.keep and options.set not in SETS:
        raise ConfigError("--keep", True, f"with --set {' or '.join(SETS)}: other sets are not the project's")
    if options.cached:
        runs = _made(runs, options, progress)
    labels = {job: f"{run.path} alone #{job.seed}" for run in runs for job in alone(run)}
    labels |= {run.job: f"{run.path} {run.scheme} #{run.job.seed}" for run in runs}
    jobs = list(labels)
    by_its_job = {run.job: run for run in runs}

    def keep(job: Job, outcome: RunResult) -> None:
        if options.keep and job in by_its_job:
            _keep(by_its_job[job], outcome, options, made_of)

    with executor_of(options.jobs, options.cluster) as executor:
        outcomes = run_batch(
            jobs, progress, use_cache=True, executor=executor, label=labels.__getitem__, on_done=keep
        )
    by_job = dict(zip(jobs, outcomes, strict=True))
    every = [(run, by_job[run.job]) for run in runs]
    made = [(run, outcome) for run, outcome in every if run.job.scenario.requests is None]
    summaries = [(run, judged(run, outcome.summary)) for run, outcome in made]
    every_path = score(summaries)
    paths = [path for path in every_path if path.earned]
    late = score((run, judged(run, without_start(outcome))) for run, outcome in made)
    single = single_paths(made)
    results = Results(
        set_name=options.set if options.set in SETS else Path(options.set).resolve().name,
        kernel=options.kernel,
        quick=options.quick,
        wall_s=round(time.monotonic() - began, 1),
        origin=Origin(
            _command(options) + (" --cached" if options.cached else ""),
            made_of,
            {scheme: _seeds(runs, scheme) for scheme in schemes},
        ),
        paths=paths,
        late=[path for path in late if path.earned],
        barren=[path.name for path in every_path if not path.earned],
        recoveries=recovered(single),
        oracles=oracles(single),
        losses=losses(single),
        breaches=breaches(single),
        transitions=transitions(single),
        web=web_paths(every),
        videos=video_paths(every),
        players=players(made),
        harms=harms(made, by_job),
    )
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    text = json_text(results.to_dict())
    (out / "results.json").write_text(text)
    figures = paper_figures(
        [(run.path, summary) for run, summary in summaries], paths, results.oracles, results.harms
    )
    (out / "report.html").write_text(
        html(results, draw_pictures(made, results.losses, figures)), encoding="utf-8"
    )
    if options.json:
        console.out(text, end="", highlight=False)
        return
    table = Table("scheme", "paths", "of the best arm", "interval", box=None, pad_edge=False)
    for scheme in results.schemes:
        mean = means(paths, scheme)["all"]
        table.add_row(scheme, str(mean.paths), f"{mean.value:.3f}", f"{mean.low:.3f} to {mean.high:.3f}")
    if paths:
        console.print(table)
    if over := over_rows(results):
        _print(console, OVER_HEAD, over)
    if results.breaches:
        _print(console, BREACHES_HEAD, breaches_rows(results.breaches))
    if results.barren:
        console.print(barren_text(results.barren), highlight=False, markup=False, soft_wrap=True)
    if results.players:
        _print(console, PLAYERS_HEAD, players_rows(results.players))
    if results.harms:
        _print(console, HARM_HEAD, harm_rows(results.harms))
    if results.transitions:
        _print(console, TRANSITIONS_HEAD, transitions_rows(results.transitions))
    if results.web:
        _print(console, TABLE_HEAD, table_rows(results.web))
    if results.videos:
        _print(console, VIDEO_HEAD, video_rows(results.videos))
    console.print(f"\n{out}: results.json, report.html", highlight=False)


def draw_set(options: argparse.Namespace, console: Console, _: Console) -> None:
    """`ltp-eval draw`: it writes the files of a set of paths."""
    if options.offsets and options.wide:
        raise ConfigError("--wide", options.wide, "nothing with --offsets")
    if options.set and not options.offsets:
        raise ConfigError("--set", options.set, "nothing without --offsets")
    if options.offsets:
        drawn = draw_offsets(options.set or "test", options.offsets)
    elif options.wide:
        drawn = draw_wide(options.seed, options.wide)
    else:
        drawn = draw(options.seed)
    for name, text in drawn.items():
        file = options.out / f"{name}.toml"
        if file.exists() and file.read_text() != text:
            raise ConfigError("--out", str(options.out), f"a folder without another {file.name}")
    files = [str(path) for path in write(drawn, options.out)]
    show(
        options, console, {"seed": options.seed, "offsets": options.offsets, "files": files},
        lambda: f"{options.out}: {len(files)} paths. Next: ltp-eval suite --set {options.out}",
    )  # fmt: skip


def _made(planned: Sequence[Run], options: argparse.Namespace, progress: Console) -> list[Run]:
    """Select the planned runs whose results are there, on paths where all of `needed_arms` have run, too."""
    runs = comparable(planned, [run for run in planned if all(map(is_made, (run.job, *alone(run))))])
    if not runs:
        raise RefusedError(
            f"--cached: no path has cached results of every arm ({', '.join(sorted(needed_arms(planned)))}); "
            f"`{_command(options)}` makes them"
        )
    progress.print(f"{len(runs)} of {len(planned)} planned runs", highlight=False)
    return runs


def _keep(run: Run, outcome: RunResult, options: argparse.Namespace, made_of: str) -> None:
    job = run.job
    if lasting(job.scenario):
        of_set = f"{options.set}-quick" if options.quick else options.set
        place = f"{of_set}/{run.path}/{run.scheme}-{job.seed}-{job.kernel}"
        made = {"command": _command(options), "revision": made_of}
        kept.write(place, outcome.folder.name, outcome.kept_files(), made)


def _command(options: argparse.Namespace) -> str:
    """The command that makes these runs."""
    words = ["ltp-eval suite", *(["--quick"] if options.quick else []), f"--set {options.set}"]
    words += [f"--study {options.study}"] if options.study else []
    words += [f"--kernel {options.kernel}", f"--daemon {options.daemon}"]
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
