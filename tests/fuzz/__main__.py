# SPDX-License-Identifier: Apache-2.0
"""`python -m fuzz`: send the inputs of a seed to the service, and list the faults of its answers."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table

from fuzz.planted import faulty_service
from fuzz.run import Run
from fuzz.service import Service

ROOT: Final = Path(__file__).resolve().parents[2]
INPUTS: Final = 20_000
LINE_EVERY: Final = 500
"""Inputs for a line of progress where no bar can be drawn."""


def parser() -> argparse.ArgumentParser:
    """Options of the command."""
    made = argparse.ArgumentParser(prog="fuzz", description="Fuzz the API and the control socket.")
    made.add_argument("--seed", type=int, default=1, help="draws all inputs")
    made.add_argument("--inputs", type=int, default=INPUTS, help=f"how many, at least (default {INPUTS})")
    made.add_argument(
        "--json", action="store_true", help="print the result as JSON, with the inputs that show faults"
    )
    made.add_argument("--plant", action="store_true", help="plant three faults first, to see them found")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0 if nothing was found, else 1."""
    options = parser().parse_args(arguments)
    console = Console(stderr=True)
    began_s = time.monotonic()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with (
        tempfile.TemporaryDirectory(prefix="fuzz-") as folder,
        (faulty_service if options.plant else Service)(Path(folder)) as service,
        Progress(*columns, console=console) as progress,
    ):
        task = progress.add_task("fuzz", total=options.inputs)

        def step() -> None:
            progress.advance(task)
            done = int(progress.tasks[0].completed)
            if not console.is_terminal and done % LINE_EVERY == 0:
                console.print(f"{done} of {options.inputs} inputs, {len(run.outcome.findings)} findings")

        run = Run(service, options.seed, step)
        outcome = run.run(options.inputs)
        memory = dict(service.peak_mb)
    result: dict[str, object] = {
        "command": f"python -m fuzz --seed {options.seed} --inputs {options.inputs}",
        "seed": options.seed,
        "revision": _revision(),
        "inputs": dict(outcome.inputs),
        "answers": {part: dict(sorted(statuses.items())) for part, statuses in outcome.statuses.items()},
        "peak_memory_mb": memory,
        "seconds": round(time.monotonic() - began_s, 1),
        "findings": [finding.entry() for finding in outcome.findings],
    }
    if options.json:
        print(json.dumps(result, indent=1))
    else:
        _show(result, Console())
    return 1 if outcome.findings else 0


def _show(result: dict[str, object], console: Console) -> None:
    table = Table(
        "part", "inputs", "answers by status", title=f"{result['command']}, revision {result['revision']}"
    )
    inputs, answers = result["inputs"], result["answers"]
    assert isinstance(inputs, dict)
    assert isinstance(answers, dict)
    for part, count in inputs.items():
        table.add_row(
            part, str(count), ", ".join(f"{status}: {times}" for status, times in answers[part].items())
        )
    console.print(table)
    memory = result["peak_memory_mb"]
    assert isinstance(memory, dict)
    peaks = ", ".join(f"{name} {peak:.0f} MB" for name, peak in memory.items())
    console.print(f"{sum(inputs.values())} inputs in {result['seconds']} s; peak memory: {peaks}")
    findings = result["findings"]
    assert isinstance(findings, list)
    console.print(f"{len(findings)} findings")
    for finding in findings:
        place = f"{finding['part']} {finding['input']} ({finding['times']} times)"
        console.print(f"{place}: {finding['fault']}", markup=False, highlight=False)


def _revision() -> str:
    done = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


if __name__ == "__main__":
    sys.exit(main())
