# SPDX-License-Identifier: Apache-2.0
"""`python -m mutation`: plant faults, run the tests, count. See the package's docstring."""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mutation import report, tree
from mutation.faults import MovedError, Mutant, draw, excuses, named
from mutation.kept import Kept
from mutation.reach import reach
from mutation.recorder import FOLDERS
from mutation.trial import Outcome, attempt

ROOT: Final = Path(__file__).resolve().parents[2]
COUNT: Final = 50


def parser() -> argparse.ArgumentParser:
    """Options of the command."""
    made = argparse.ArgumentParser(
        prog="mutation", description="Plant faults and count those that tests notice."
    )
    made.add_argument("--seed", type=int, default=1, help="draws the sample")
    made.add_argument("--count", type=int, default=COUNT, help="faults to draw beside the named ones")
    made.add_argument("--only", action="append", metavar="PATH", help="plant faults below this path alone")
    made.add_argument("--jobs", type=int, default=2, help="copies of the tree that run side by side")
    made.add_argument("--json", action="store_true", help="print all results as JSON")
    made.add_argument(
        "--page", type=Path, metavar="FILE", help="write the results as a page of the lab notes"
    )
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0 if enough faults are caught, 1 if not, 2 if a listed fault has moved."""
    options = parser().parse_args(arguments)
    began = time.monotonic()
    console = Console(stderr=True)
    only = tuple(options.only or FOLDERS)
    if not tree.torch_tree().exists():
        console.print("mutation: the trainers' tests need PyTorch: run `make torch`", markup=False)
        return 2
    try:
        listed = [mutant for mutant in named(ROOT) if _below(mutant.path, only)]
    except MovedError as error:
        console.print(f"mutation: {error}", markup=False)
        return 2
    sources = {path: (ROOT / path).read_text() for path in _modules(only)}
    sample = draw(sources, options.seed, options.count, excuses())
    outcomes = _run([*listed, *sample.mutants], options.jobs, console)
    run = report.Run(outcomes, len(sample.excused), options.seed, _revision(), time.monotonic() - began)
    if options.page:
        options.page.write_text(report.page(run))
    print(report.as_json(run) if options.json else report.terminal(run))
    return 0 if run.enough else 1


def _run(mutants: Sequence[Mutant], jobs: int, console: Console) -> list[Outcome]:
    """Try all faults, `jobs` at a time. Returns the outcomes in the order of the faults.

    An interrupted run goes on where it was; see `Kept`.
    """
    kept = Kept(ROOT)
    outcomes: dict[Mutant, Outcome] = {}
    with (
        tree.working_copy(ROOT) as base,
        Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
        ) as progress,
        ThreadPoolExecutor(jobs) as pool,
    ):
        task = progress.add_task("mutation", total=len(mutants))
        reached = reach(ROOT, base, jobs, lambda said: progress.update(task, description=said))
        started = [
            pool.submit(lambda one=mutant: kept.of(one) or attempt(one, base, reached)) for mutant in mutants
        ]
        for future in as_completed(started):
            outcome = future.result()
            kept.keep(outcome)
            outcomes[outcome.mutant] = outcome
            caught = sum(one.caught for one in outcomes.values())
            progress.update(task, advance=1, description=f"caught {caught} of {len(outcomes)}")
            if not console.is_terminal:
                told = "caught" if outcome.caught else "NOT CAUGHT"
                console.print(
                    f"{outcome.mutant.place} {told}: {outcome.by}",
                    markup=False,
                    highlight=False,
                    soft_wrap=True,
                )
    return [outcomes[mutant] for mutant in mutants]


def _modules(only: Sequence[str]) -> list[str]:
    return [
        name for name in tree.files(ROOT)
        if name.endswith(".py") and name.split("/")[0] in FOLDERS and _below(name, only)
    ]  # fmt: skip


def _below(path: str, only: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(f"{folder.rstrip('/')}/") for folder in only)


def _revision() -> str:
    return subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
