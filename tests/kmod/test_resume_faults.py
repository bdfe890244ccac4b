# SPDX-License-Identifier: Apache-2.0
"""Each demand of Careful Resume is broken on purpose, and the check that its page names notices.

The faults are in `resume_faults.toml`. Faults of the pure logic are compiled on the host, in seconds. Faults
of the kernel's side need a module each and a guest each: `make test-slow` runs them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from support.module_lab import KERNELS, REPOSITORY, guest_files, run

from ltp_switcher.eval.lab.kernels import kernel as lab_kernel

MODULE: Final = REPOSITORY / "kmod-mutant"
HOST_TESTS: Final = MODULE / "tests/host/resume_test.c"
PAGE: Final = REPOSITORY / "docs/careful-resume.md"
LISTED: Final = tomllib.loads(Path(__file__).with_name("resume_faults.toml").read_text())
FAULTS: Final = LISTED["fault"]
GUARDED: Final = {guarded["demand"] for guarded in LISTED["guarded"]}
"""Demands that several guards hold, each of which is enough."""
ON_HOST: Final = [fault for fault in FAULTS if fault["check"].startswith("test_")]
IN_LAB: Final = [fault for fault in FAULTS if fault not in ON_HOST]
ALONE: Final = """
#include <stdlib.h>
#include "tests.h"
unsigned int passed, failed;
u32 random_below(u32 limit)
{
    static u64 state = 1;

    state = state * 6364136223846793005ULL + 1;
    return (state >> 33) % limit;
}
int main(void) { test_resume(); return failed ? EXIT_FAILURE : EXIT_SUCCESS; }
"""


def name_of(fault: Mapping[str, str]) -> str:
    return f"{fault['demand']}: {fault['new'].strip() or 'without'} {fault['old'][:24].strip()}"


def planted(fault: Mapping[str, str], folder: Path) -> Path:
    """A copy of the module's sources with the fault in it."""
    copy = folder / "kmod-mutant"
    shutil.copytree(MODULE, copy, ignore=shutil.ignore_patterns("build"))
    text = (copy / fault["file"]).read_text()
    assert text.count(fault["old"]) == 1, "the fault's place is gone, or is no longer one"
    (copy / fault["file"]).write_text(text.replace(fault["old"], fault["new"]))
    return copy


def failed_on_host(sources: Path) -> set[str]:
    """The functions of `resume_test.c` whose checks fail, with the module's pure logic from `sources`."""
    (sources / "alone.c").write_text(ALONE)
    files = ("alone.c", "tests/host/resume_test.c", "mutant_resume.c")
    flags = ("-std=gnu11", "-O0", "-Iinclude/uapi", "-I.", "-Itests/host")
    subprocess.run(["gcc", *flags, "-o", "alone", *files, "-lm"], cwd=sources, check=True)
    ran = subprocess.run([sources / "alone"], capture_output=True, text=True, timeout=60, check=False)
    lines = HOST_TESTS.read_text().splitlines()
    begins = [
        (at, found[1]) for at, line in enumerate(lines, 1) if (found := re.match(r"static .* (\w+)\(", line))
    ]
    places = [int(at) for at in re.findall(r"resume_test\.c:(\d+):", ran.stdout)]
    assert bool(places) == bool(ran.returncode), ran.stdout
    return {[name for begin, name in begins if begin < place][-1] for place in places}


def test_without_a_fault_nothing_fails(tmp_path: Path) -> None:
    nothing = {
        "file": "mutant_resume.h",
        "old": "#define _MUTANT_RESUME_H",
        "new": "#define _MUTANT_RESUME_H",
    }
    assert failed_on_host(planted(nothing, tmp_path)) == set()


@pytest.mark.parametrize("fault", ON_HOST, ids=name_of)
def test_a_broken_demand_is_noticed(tmp_path: Path, fault: Mapping[str, str]) -> None:
    assert fault["check"] in failed_on_host(planted(fault, tmp_path))


def test_each_demand_of_the_page_is_broken_by_a_check_that_it_names() -> None:
    table = PAGE.read_text().split("| demand |")[1].split("\n\n")[0]
    rows = {row[0].strip(): row[2] for line in table.splitlines()[2:] if (row := line.strip("|").split("|"))}
    assert len(rows) > 15
    for demand, checks in rows.items():
        by = [fault for fault in FAULTS if demand.startswith(fault["demand"])]
        assert by or demand in GUARDED, f"nothing breaks: {demand}"
        for fault in by:
            assert f"`{fault['check']}`" in checks, f"{demand}: {fault['check']}"
    assert all(any(row.startswith(fault["demand"]) for row in rows) for fault in FAULTS)


@pytest.mark.lab
@pytest.mark.slow
@pytest.mark.parametrize("fault", IN_LAB, ids=name_of)
def test_a_demand_broken_in_the_module_is_noticed(tmp_path: Path, fault: Mapping[str, str]) -> None:
    kernel = KERNELS[0]
    release = lab_kernel(kernel).release
    sources = planted(fault, tmp_path)
    subprocess.run(["make", "-s", "-C", sources, f"KVER={release}"], check=True, capture_output=True)
    overlay = guest_files()
    overlay["lib/mutant/tcp_mutant.ko"] = (sources / "build" / release / "tcp_mutant.ko").read_bytes()
    command = f"python3 -m kmod_guest.main resuming {fault['check']}"
    result = run(kernel, command, overlay, python=True)
    detail = json.loads(result.files["/tmp/report.json"])[fault["check"]]["detail"]  # noqa: S108
    print(detail)
    assert detail, "nobody noticed"
