# SPDX-License-Identifier: Apache-2.0
"""The planted faults still fit the module, and the round judges answers as it should."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from debug_kernels.build import CONFIGURATION, FLAVOURS, MODULE, lost
from debug_kernels.guest import judged, machine
from debug_kernels.planted import FAULTS, HOST, PATCHES, Fault, failures_on_host, planted
from debug_kernels.script import ANSWERS, ASKED, WORKS, Size, script, unloads
from ltp_switcher.eval.lab.qemu import Report

SIZE = Size(flows=8, switches=100, crowds=1, messages=100, churn=1, unloads=1, failing=1)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.name}-{fault.flavour}")
def test_fault_fits_the_module(fault: Fault, tmp_path: Path) -> None:
    copy = planted(fault, tmp_path)
    changed = [
        path.name for path in copy.glob("*.[ch]") if path.read_text() != (MODULE / path.name).read_text()
    ]
    assert len(changed) == 1


@pytest.mark.slow
def test_dropped_barrier_fails_on_the_host(tmp_path: Path) -> None:
    (fault,) = [fault for fault in FAULTS if fault.flavour == HOST]
    failed = failures_on_host(planted(fault, tmp_path))
    assert failed
    assert all("step_test.c" in line for line in failed)


def test_each_patch_is_listed() -> None:
    assert {path.stem for path in PATCHES.glob("*.patch")} == {fault.name for fault in FAULTS}
    assert {fault.flavour for fault in FAULTS} <= {*FLAVOURS, HOST}


def _answers(**stress: int) -> dict[str, bytes]:
    works = {f"{work}.json": b'{"rounds": 2, "broken": 1}' for work in WORKS}
    return works | {"stress.json": json.dumps({"switches": 100, **stress}).encode()}


def test_good_round_has_no_fault() -> None:
    result = judged(Report(status=0, files=_answers()), "stock", 1, 1.0)
    assert (result.faults, result.switches) == ([], 100)


@pytest.mark.parametrize(
    "report",
    [
        Report(status=None, files=_answers()),
        Report(status=3, files=_answers()),
        Report(status=0, files=_answers(totals_wrong=1)),
        Report(status=0, files=_answers(flows_left=1)),
        Report(status=0, files=_answers() | {"dumps.json": b'{"rounds": 2, "broken": 2}'}),
        Report(status=0, files=_answers() | {"switches.json": b'{"rounds": 8, "broken": 8}'}),
        Report(status=0, files=_answers() | {"fuzz.json": b'{"works": false}'}),
        Report(status=0, files=_answers() | {"unload-pin.json": b'{"asked": 0}'}),
        Report(status=0, files=_answers() | {"steps.json": b'{"rounds": 2, "sums_wrong": 1}'}),
        Report(status=0, files=_answers() | {"slab": b"mutant_flow 2 32 256\n"}),
        Report(status=0, files=_answers(), serial="[    1.0] BUG: KASAN: double-free in f+0x1/0x2\n"),
    ],
)
def test_bad_round_has_one(report: Report) -> None:
    assert len(judged(report, "stock", 1, 1.0).faults) == 1


def test_answers_of_a_script_are_those_that_come_back() -> None:
    text = script(SIZE, "kasan", 1).replace("$work", "options")
    for name in ("stress", "fuzz", "unload", "options"):
        assert f"/tmp/{name}.json" in text  # noqa: S108
        assert name in ANSWERS


def test_round_leaves_out_what_the_kernel_lacks() -> None:
    parts = {
        "failslab": {"kasan", "kmemleak"},
        "debug/kmemleak": {"kmemleak"},
        "debug/kcsan": {"kcsan"},
        "phase quiet": {"kasan"},
        "phase stress": set(FLAVOURS),
        "phase switches": set(FLAVOURS),
        "phase fuzz": set(FLAVOURS),
        "phase unload\n": set(FLAVOURS),
        "phase unload-pin\n": set(FLAVOURS),
    }
    for part, wanted in parts.items():
        assert {flavour for flavour in FLAVOURS if part in script(SIZE, flavour, 1)} == wanted


@pytest.mark.parametrize(
    ("flavour", "processors"), [("kasan", 4), ("kcsan", 4), ("stock", 4), ("kmemleak", 1)]
)
def test_machine_has_its_processors(flavour: str, processors: int) -> None:
    arguments = machine(flavour).arguments
    assert arguments[arguments.index("-smp") + 1].split(",")[0] == str(processors)


def test_failing_allocations_never_hit_the_script_itself() -> None:
    lines = script(SIZE, "kasan", 1).splitlines()
    (unfiltered,) = [number for number, line in enumerate(lines) if "echo N >$inject/cache-filter" in line]
    before = "\n".join(lines[:unfiltered])
    assert "echo Y >$inject/task-filter" in before
    assert before.rindex("echo 0 >$inject/probability") > before.rindex("echo 20 >$inject/probability")


def test_option_that_a_configuration_lacks_is_named() -> None:
    wanted = "# a comment\nCONFIG_KASAN=y\nCONFIG_NR_CPUS=4\nCONFIG_KASAN_VMALLOC=n\n"
    assert lost(wanted, "CONFIG_NR_CPUS=4\nCONFIG_KASAN=y\n") == []
    assert lost(wanted, "CONFIG_NR_CPUS=8\n# CONFIG_KASAN is not set\n") == [
        "CONFIG_KASAN=y",
        "CONFIG_NR_CPUS=4",
    ]
    assert lost(wanted, wanted.replace("VMALLOC=n", "VMALLOC=y")) == ["CONFIG_KASAN_VMALLOC=n"]


@pytest.mark.parametrize(
    ("flavour", "options"),
    [
        (
            "kasan",
            "KASAN_GENERIC PROVE_LOCKING PROVE_RCU DEBUG_ATOMIC_SLEEP DEBUG_KMEMLEAK UBSAN FAILSLAB",
        ),
        ("kcsan", "KCSAN KCSAN_STRICT KCSAN_WEAK_MEMORY"),
        ("common", "SMP PREEMPT VETH NET_SCH_NETEM NET_NS IPV6"),
    ],
)
def test_configuration_asks_for_its_sanitizers(flavour: str, options: str) -> None:
    lines = (CONFIGURATION / f"{flavour}.config").read_text().splitlines()
    assert [option for option in options.split() if f"CONFIG_{option}=y" not in lines] == []


def test_module_is_unloaded_under_each_kind_of_request() -> None:
    text = unloads(1000)
    assert list(ASKED) == ["load", "pin", "set", "sysfs"]
    for kind in ASKED:
        assert f"churn ask {kind} " in text
        assert f"unload-{kind}" in ANSWERS
    assert text.count("[ $times -lt 1000 ]") == len(ASKED)
    assert "phase stress" not in text
