# SPDX-License-Identifier: Apache-2.0
"""`python -m packages`: test the Debian packages in virtual machines. See the package's docstring."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from packages import build, dashboard, machine, matrix

OUT: Final = build.ROOT / "out/packages"
# About as many as a machine reports; only the bar needs it.
CHECKS: Final = 118
# The packages in a file system; new in a machine; and in another one upgraded from an earlier version.
PARTS: Final = ("image", "fresh", "upgrade")


def parser() -> argparse.ArgumentParser:
    """Options of the command."""
    made = argparse.ArgumentParser(
        prog="packages", description="Test the Debian packages in virtual machines."
    )
    made.add_argument(
        "--release",
        type=int,
        action="append",
        choices=[r.number for r in build.RELEASES],
        help="only this release",
    )
    made.add_argument(
        "--older",
        default=build.FIRST,
        metavar="REVISION",
        help="the packages to upgrade from (default: %(default)s)",
    )
    made.add_argument("--part", action="append", choices=PARTS, help="only this part of a release")
    made.add_argument(
        "--from",
        dest="stage",
        metavar="STAGE",
        help="go on with the machine as the last run kept it before this stage; the result is not kept",
    )
    made.add_argument("--again", action="store_true", help="run machines whose results are there already")
    made.add_argument("--json", action="store_true", help="print all checks as JSON")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0 if every check passes on every release, 1 if not, 2 if one cannot be run."""
    options = parser().parse_args(arguments)
    # So that the machine ends with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    console = Console(stderr=True)
    if os.getuid() != 0 or not shutil.which("mmdebstrap"):
        console.print("packages: needs root and mmdebstrap")
        return 2
    results: list[matrix.Result] = []
    bar = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*bar, console=console) as progress:
        for release in build.RELEASES:
            if options.release and release.number not in options.release:
                continue
            task = progress.add_task(release.name, total=CHECKS)
            try:
                report = _reporter(progress, task, release)
                parts = options.part or PARTS
                results += _results(release, options, parts, report)
            except build.FailedError as error:
                console.print(f"packages: {release.name}: {error}", markup=False)
                return 2
    for result in results:
        for fault in matrix.faults(result):
            console.print(fault, markup=False, style="red")
    if options.json:
        print(matrix.as_json(results))
    else:
        Console().print(matrix.table(results))
    return 0 if all(result.good for result in results) else 1


def _reporter(progress: Progress, task: TaskID, release: build.Release) -> Callable[[str], None]:
    def report(text: str) -> None:
        progress.update(task, description=f"{release.name}: {text[:60]}")
        if ": " in text:
            progress.advance(task)

    return report


def _results(
    release: build.Release,
    options: argparse.Namespace,
    parts: Sequence[str],
    report: Callable[[str], None],
) -> list[matrix.Result]:
    """The reports of a release's parts, from now or from an earlier run of the same inputs."""
    report("packages of this tree")
    newer_debs = build.packages_of_this_tree(release)
    report(f"packages of {options.older}")
    debs = (build.packages_of(release, options.older), newer_debs)
    report("the machine's file system")
    base = machine.base(release)
    guest = build.key_of_files(machine.GUEST, [path.name for path in machine.GUEST.iterdir()])
    browser = build.key_of_files(machine.GUEST.parent, ["dashboard.py"])
    key = build.key(*(folder.name for folder in debs), base.name, guest, browser)
    versions = (_version(debs[0]), _version(debs[1]))
    found = []
    for part in parts:
        file = OUT / f"debian-{release.number}-{part}.json"
        kept = matrix.Result.load(file)
        # A failed run is done again: only a good one needs no second look.
        if not (kept and kept.key == key and kept.good) or options.again or options.stage:
            report(part)
            began_s = time.monotonic()
            with tempfile.TemporaryDirectory() as folder:
                machine.archive(base, debs, Path(folder))
                logs = OUT / f"debian-{release.number}-{part}"
                if part == "image":
                    checks = machine.run_in_chroot(base, Path(folder), versions, logs)
                else:
                    machine.second_disk(
                        Path(folder), (*versions, release.python, part), logs / "packages.img"
                    )
                    checks = _in_machine(base, logs, report, options.stage)
            kept = matrix.Result(
                release=f"{release.name} {part}",
                key=key,
                revision=build.run("git", "describe", "--always", "--dirty").strip(),
                older=options.older,
                kernel=(base / "tree/vmlinuz").readlink().name.removeprefix("vmlinuz-"),
                wall_s=round(time.monotonic() - began_s),
                sizes=build.sizes(newer_debs),
                checks=checks,
            )
            # The stages before are of another run.
            if not options.stage:
                kept.save(file)
        found.append(kept)
    return found


def _in_machine(
    base: Path, logs: Path, report: Callable[[str], None], stage: str | None
) -> list[matrix.Check]:
    def seen(check: matrix.Check, ports: machine.Ports) -> None:
        report(f"{check['step']}: {check['check']}")
        if check["check"] == machine.READY:
            dashboard.visit(ports, logs)

    disk = logs / "packages.img"
    checks = machine.run_checks(base, disk, logs, seen, stage)
    disk.unlink()
    return checks


def _version(debs: Path) -> str:
    (deb,) = debs.glob("ltp-switcher_*.deb")
    (found,) = re.findall(r"_(.*)_", deb.name)
    return str(found)


if __name__ == "__main__":
    sys.exit(main())
