# SPDX-License-Identifier: Apache-2.0
"""`python -m kernels`: build and test the module on other releases' kernels. See the package's docstring."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from support.module_lab import REPOSITORY

from kernels import cross
from kernels.release import CACHE, RELEASES, Release, prepare
from ltp_switcher.errors import LtpSwitcherError
from ltp_switcher.eval.lab.kernels import PREPARED

SCENARIO: Final = """name = "demo"
duration_s = 10
[link]
rate_mbps = 12.0
rtt_ms = 40.0
buffer_bdp = 1.0
[[flow]]
scheme = "switcher"
start_s = 0.0
stop_s = 10.0
"""
TESTS: Final = (
    *(f"tests/kmod/test_{name}.py" for name in ("symbols", "checks_lab", "stress_lab")),
    "tests/daemon/named/test_named_lab.py",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a release; an empty text means that the part went well."""

    release: str
    kernel: str
    build: str
    warnings: list[str]
    tests: str
    demo: str
    wall_s: float
    boots: bool = True

    @property
    def ok(self) -> bool:
        """Whether all of it went well."""
        return not (self.build or self.warnings or self.tests or self.demo)


def last_line(done: subprocess.CompletedProcess[str]) -> str:
    """Nothing for a success, else the last line that says why."""
    lines = (done.stdout + done.stderr).strip().splitlines()
    return "" if not done.returncode else (lines[-1] if lines else f"exit status {done.returncode}")


def test(release: Release, folder: Path, *, build_only: bool) -> Outcome:
    """Build, run the module's tests, run a scenario."""
    started_s = time.monotonic()
    kernel, build, tests, demo, found = "", "", "", "", []
    try:
        found = prepare(release, folder)
        kernel = (folder / release.name / "release").read_text()
    except LtpSwitcherError as error:
        build = str(error)
    if not build and not build_only:
        environment = {**os.environ, PREPARED: str(folder), "LTP_TEST_KERNELS": release.name}
        pytest = [sys.executable, "-m", "pytest", "-q", *TESTS]
        print(f"kernels: the module's tests on Linux {kernel}", file=sys.stderr, flush=True)
        ran = subprocess.run(
            pytest, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False
        )
        (folder / f"{release.name}-tests.log").write_text(ran.stdout + ran.stderr)
        tests = last_line(ran)
        scenario, out = folder / "demo.toml", folder / f"{release.name}-demo"
        scenario.write_text(SCENARIO)
        command = [
            str(Path(sys.executable).parent / "ltp-eval"), "run", str(scenario), "--kernel", release.name,
            "--no-cache", "--out", str(out),
        ]  # fmt: skip
        print(f"kernels: a scenario on Linux {kernel}", file=sys.stderr, flush=True)
        demo = last_line(
            subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        )
    return Outcome(release.name, kernel, build, found, tests, demo, round(time.monotonic() - started_s, 1))


def test_cross_build(folder: Path) -> Outcome:
    """Build for another architecture, and run nothing."""
    started_s = time.monotonic()
    kernel, build, found = "", "", []
    try:
        kernel, found = cross.cross_build(folder)
    except LtpSwitcherError as error:
        build = str(error)
    wall_s = round(time.monotonic() - started_s, 1)
    return Outcome(cross.NAME, kernel, build, found, "", "", wall_s, boots=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each release; the status is 1 where one has a fault."""
    parser = argparse.ArgumentParser(prog="kernels", description="test the module on other kernels")
    names = [*(release.name for release in RELEASES), cross.NAME]
    parser.add_argument("--release", choices=names, help="one release only")
    parser.add_argument("--build-only", action="store_true", help="boot nothing")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    folder = CACHE / "prepared"
    folder.mkdir(parents=True, exist_ok=True)
    outcomes = [
        test(release, folder, build_only=options.build_only)
        for release in RELEASES
        if options.release in (None, release.name)
    ]
    if options.release in (None, cross.NAME):
        outcomes.append(test_cross_build(folder))
    if options.json:
        print(json.dumps([asdict(outcome) for outcome in outcomes], indent=2))
        return int(not all(outcome.ok for outcome in outcomes))
    print("release   kernel                W=1           tests                demo")
    for outcome in outcomes:
        warned = f"{len(outcome.warnings)} warnings" if outcome.warnings else "clean"
        built = "does not build" if outcome.build else warned
        left_out = "not run" if options.build_only or not outcome.boots else ""
        rest = (left_out or outcome.tests or "pass", left_out or outcome.demo or "runs")
        if outcome.build:
            rest = ("", "")
        print(f"{outcome.release:<9} {outcome.kernel:<21} {built:<13} {rest[0]:<20} {rest[1]}")
        if outcome.build:
            print(f"  {outcome.build}")
    return int(not all(outcome.ok for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
