# SPDX-License-Identifier: Apache-2.0
"""`python -m debug_kernels`: rounds on the debug kernels, then planted faults."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from debug_kernels import report, rounds
from debug_kernels.build import FLAVOURS
from debug_kernels.planted import Fault
from ltp_switcher.errors import LabError

ROOT: Final = Path(__file__).resolve().parents[2]
WANTED: Final = 1_000_000
SHORT: Final = ("kmemleak",)
"""Kernels of one processor, which is slow: one short round. A leak shows at its end."""


def parser() -> argparse.ArgumentParser:
    """Options of the command."""
    made = argparse.ArgumentParser(
        prog="debug_kernels", description="Run the module on debug kernels with four processors."
    )
    made.add_argument(
        "--kernel", action="append", choices=FLAVOURS, help="this kernel alone; may be given more than once"
    )
    made.add_argument("--switches", type=int, default=WANTED, help="on each kernel")
    made.add_argument("--messages", type=int, default=WANTED, help="of the fuzzer, on each kernel")
    made.add_argument("--cut", action="store_true", help="one short round a kernel")
    made.add_argument(
        "--unloads", type=int, metavar="N", help="only unload the module N times under each kind of request"
    )
    made.add_argument("--no-faults", action="store_true", help="plant no faults")
    made.add_argument("--seed", type=int, default=1, help="of the first round; the next takes the next")
    made.add_argument("--kept", action="store_true", help="report the rounds in the cache; boot nothing")
    made.add_argument("--json", action="store_true", help="print all results as JSON")
    made.add_argument("--page", type=Path, metavar="FILE", help="write a page of the lab notes")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0 if no round found anything and each planted fault was caught, else 1."""
    options = parser().parse_args(arguments)
    flavours = tuple(options.kernel or FLAVOURS)
    done: list[rounds.Kept] = []
    try:
        for flavour in flavours:
            if options.unloads:
                done.append(
                    rounds.unloading(
                        flavour, options.unloads, seed=options.seed, tell=_tell, boot=not options.kept
                    )
                )
                continue
            short = options.cut or flavour in SHORT
            for kept in rounds.run(
                flavour,
                rounds.CUT if short else rounds.ROUND,
                switches=1 if short else options.switches,
                messages=1 if short else options.messages,
                seed=options.seed,
                tell=_tell,
                boot=not options.kept,
            ):
                done.append(kept)
                _tell(f"{flavour}, seed {kept.seed}: {kept.switches} switches, {len(kept.faults)} reports")
        listed = [] if options.no_faults or options.unloads else rounds.faults_of(flavours)
        planted = [(fault, _catch(fault, options.seed, boot=not options.kept)) for fault in listed]
    except LabError as error:
        _tell(f"debug_kernels: {error}")
        return 2
    command = " ".join(["python -m debug_kernels", *(arguments or sys.argv[1:])])
    run = report.Run(done, planted, _revision(), command)
    if options.page:
        options.page.write_text(report.page(run))
    print(report.as_json(run) if options.json else report.terminal(run))
    return 0 if run.clean else 1


def _catch(fault: Fault, seed: int, *, boot: bool) -> rounds.Kept | None:
    try:
        return rounds.catch(fault, seed=seed, tell=_tell, boot=boot)
    except rounds.NotKeptError:
        return None


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _revision() -> str:
    git = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    return subprocess.run(git, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    raise SystemExit(main())
