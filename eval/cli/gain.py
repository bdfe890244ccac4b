# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval gain-coverage` and `gain-rollout`: test the daemon's report and its rollouts on simulated
traffic, where the true effect is known.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from concurrent.futures import ProcessPoolExecutor
from typing import Final

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

import ltp_switcher
from ltp_switcher import artifacts
from ltp_switcher.daemon.gain.report import MEASURES
from ltp_switcher.eval.cli.output import json_text
from ltp_switcher.eval.gain import rollouts as simulated
from ltp_switcher.eval.gain.coverage import Outcome, Share, holdback, judge, switchback
from ltp_switcher.files import write_atomically

COVERAGE: Final = (
    holdback(200, 0.1, before=True), holdback(50, 0.2, before=False), switchback(24), switchback(288),
)  # fmt: skip
"""Designs of simulated experiments in which the treatment has no effect. They show how often an interval
contains the true effect, 0.
"""
POWER: Final = (
    *(holdback(prefixes, 0.5, before=True) for prefixes in (1000, 2000, 4000, 4500, 5000)),
    *(switchback(blocks) for blocks in (72, 144, 216, 288)),
)
"""Designs of the experiments with a true effect, each in several sizes."""


def coverage(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """Simulate the experiments, report them, and print how often the intervals contain the true effect."""
    plan = [(design, 0.0, options.experiments) for design in COVERAGE]
    plan += [(design, options.effect, options.power_experiments) for design in POWER]
    plan = [(design, effect, count) for design, effect, count in plan if count]
    outcomes: list[Outcome] = []
    done = _done(options)
    with (
        Progress(console=progress) as bar,
        ProcessPoolExecutor(options.jobs or len(os.sched_getaffinity(0))) as pool,
    ):
        for design, effect, count in plan:
            kept = done.get((design.name, design.size, effect, count))
            if kept is not None:
                outcomes += kept
                continue
            task = bar.add_task(f"{design.name}, {design.size}, effect {effect:+.0%}", total=count)
            for step in judge(design, count, options.seed, pool, effect):
                if isinstance(step, list):
                    outcomes += step
                    _write(options, outcomes)
                    first = step[0]
                    bar.print(
                        f"{design.name}, {design.size}: {first.measure} {effect:+.0%}, "
                        f"held {_share(first.covered)}, "
                        f"above 0 {_share(first.found)}"
                    )
                else:
                    bar.update(task, completed=step)
    _write(options, outcomes)
    if options.json:
        console.out(json_text(_document(options, outcomes)), end="", highlight=False)
    else:
        console.print(_table(outcomes))


def rollouts(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """Simulate rollouts with and without a true effect, and print how they ended."""
    outcomes: list[simulated.Outcome] = []
    with (
        Progress(console=progress) as bar,
        ProcessPoolExecutor(options.jobs or len(os.sched_getaffinity(0))) as pool,
    ):
        for design in simulated.DESIGNS:
            for effect in (options.effect, 0.0):
                task = bar.add_task(f"{design.name}, effect {effect:+.0%}", total=options.runs)
                for step in simulated.judge(design, effect, options.runs, options.seed, pool):
                    if isinstance(step, simulated.Outcome):
                        outcomes.append(step)
                    else:
                        bar.update(task, completed=step)
    document = {
        **_origin(options, f"gain-rollout --runs {options.runs} --effect {options.effect}"),
        "outcomes": [
            {
                **dataclasses.asdict(one),
                **{name: _share_json(getattr(one, name)) for name in ("back", "early", "wrong")},
            }
            for one in outcomes
        ],
    }
    if options.out is not None:
        write_atomically(options.out, json_text(document).encode())
    if options.json:
        console.out(json_text(document), end="", highlight=False)
    else:
        console.print(_rollout_table(outcomes))


def _rollout_table(outcomes: list[simulated.Outcome]) -> Table:
    table = Table(title="Simulated rollouts", title_justify="left")
    for head in (
        "design", "true effect", "rolled back", "before 50 %", "hours until the end",
        "the truth contradicted", "ends",
    ):  # fmt: skip
        table.add_column(head, overflow="fold")
    for one in outcomes:
        low, middle, high = one.hours
        table.add_row(
            one.design, f"{one.effect:+.0%}", _share(one.back), _share(one.early),
            f"{middle:.1f} ({low:.1f} to {high:.1f})", _share(one.wrong),
            ", ".join(f"{name}: {count}" for name, count in one.ends.items()),
        )  # fmt: skip
    return table


def _origin(options: argparse.Namespace, command: str) -> dict[str, object]:
    """Facts that it takes to make a document again."""
    return {
        "command": f"ltp-eval {command} --seed {options.seed}",
        "seed": options.seed,
        "version": ltp_switcher.__version__,
        "revision": artifacts.revision(),
    }


def _document(options: argparse.Namespace, outcomes: list[Outcome]) -> dict[str, object]:
    command = (
        f"gain-coverage --experiments {options.experiments} --power-experiments {options.power_experiments} "
        f"--effect {options.effect}"
    )
    return {**_origin(options, command), "outcomes": [_row(outcome) for outcome in outcomes]}


def _write(options: argparse.Namespace, outcomes: list[Outcome]) -> None:
    if options.out is not None:
        write_atomically(options.out, json_text(_document(options, outcomes)).encode())


def _done(options: argparse.Namespace) -> dict[tuple[str, str, float, int], list[Outcome]]:
    """Outcomes that an interrupted run of this revision and seed left in its file, by design and size."""
    found: dict[tuple[str, str, float, int], list[Outcome]] = {}
    if options.out is None or not options.out.exists():
        return found
    document = json.loads(options.out.read_text())
    if (document.get("revision"), document.get("seed")) != (artifacts.revision(), options.seed):
        return found
    for row in document["outcomes"]:
        covered, above = (Share(row[name]["count"], row[name]["of"]) for name in ("covered", "found"))
        one = Outcome(**{**row, "covered": covered, "found": above})
        if one.measure == MEASURES[0]:
            # The true effect differs from measure to measure. The experiment's own is the one on goodput.
            outcomes = found[one.design, one.size, one.effect, above.of] = []
        outcomes.append(one)
    return found


def _row(outcome: Outcome) -> dict[str, object]:
    made = dataclasses.asdict(outcome)
    for name in ("covered", "found"):
        made[name] = _share_json(getattr(outcome, name))
    return made


def _share_json(share: Share) -> dict[str, object]:
    return {**dataclasses.asdict(share), "share": share.value, "interval": list(share.interval)}


def _table(outcomes: list[Outcome]) -> Table:
    table = Table(title="95 % intervals of simulated experiments", title_justify="left")
    for head in ("design", "measure", "true effect", "held the truth", "found the effect", "no interval"):
        table.add_column(head, overflow="fold")
    for one in outcomes:
        found = _share(one.found) if one.effect else ""
        table.add_row(
            f"{one.design}, {one.size}", one.measure, f"{one.effect:+.1%}", _share(one.covered), found,
            str(one.unknown),
        )  # fmt: skip
    return table


def _share(share: Share) -> str:
    lower, upper = share.interval
    return f"{share.value:.1%} ({lower:.1%} to {upper:.1%}) of {share.of}"
