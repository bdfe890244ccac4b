# SPDX-License-Identifier: Apache-2.0
"""100,000 random switches over 64 flows that come and go, and 50,000 netlink messages of all kinds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from support.module_lab import KERNELS, LINK, program, run, run_selected

from ltp_switcher.eval.lab import BootResult

pytestmark = [pytest.mark.lab, pytest.mark.long]
FLOWS, SWITCHES, MESSAGES, SEED = 64, 100_000, 50_000, 1
EPERM, ENOBUFS, EBUSY = 1, 105, 16

SCRIPT = f"""{LINK}
insmod /lib/mutant/tcp_mutant.ko watchdog_ms=0 || exit 1
stress {FLOWS} {SWITCHES} {SEED} sink 10.2.0.2 >/tmp/stress.json || exit 2
sleep 1
# Without this the allocator keeps empty slabs, and counts their objects as active.
for cache in /sys/kernel/slab/mutant_*; do echo 1 >$cache/shrink; done
grep ^mutant_ /proc/slabinfo >/tmp/slab
rmmod tcp_mutant || exit 3
insmod /lib/mutant/tcp_mutant.ko || exit 4
nlfuzz {MESSAGES} {SEED} >/tmp/fuzz.json || exit 5
sleep 1
rmmod tcp_mutant || exit 6
"""


def boot_stress(kernel: str) -> BootResult:
    with TemporaryDirectory() as folder:
        programs = {f"bin/{n}": program(n, Path(folder)).read_bytes() for n in ("stress", "nlfuzz")}
    return run(kernel, SCRIPT, programs, python=False)


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest) -> Mapping[tuple[str, ...], BootResult]:
    return run_selected(request, ("kernel",), boot_stress)


@pytest.fixture(params=KERNELS)
def kernel(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def result(outcomes: Mapping[tuple[str, ...], BootResult], kernel: str) -> BootResult:
    return outcomes[kernel,]


def answer(result: BootResult, name: str) -> dict[str, Any]:
    return dict(json.loads(result.files[f"/tmp/{name}"]))  # noqa: S108


def test_no_complaint_and_a_clean_unload(result: BootResult) -> None:
    assert result.exit_code == 0, result.console
    assert not result.warnings


def test_every_switch_was_made(result: BootResult) -> None:
    told = answer(result, "stress.json")
    assert told["switches"] >= SWITCHES
    assert told["started"] > 2 * FLOWS
    assert (told["refused"], told["fallbacks"]) == (0, 0)


def test_controls_were_taken_and_nonsense_was_not(result: BootResult) -> None:
    told = answer(result, "stress.json")
    assert told["controlled"] > told["unfit"] > 1000
    assert told["clamped"] > 1000


def test_bytes_received_are_the_bytes_sent(result: BootResult) -> None:
    told = answer(result, "stress.json")
    assert told["bytes_received"] == told["bytes_sent"] > 0
    assert (told["wrong_bytes"], told["wrong_lengths"]) == (0, 0)


def test_flows_come_and_go_without_a_trace(result: BootResult) -> None:
    told = answer(result, "stress.json")
    assert told["completed"] + told["reset"] == told["started"]
    assert told["births"] == told["deaths"] == told["started"]
    assert (told["flows_left"], told["without_death"], told["events_lost"]) == (0, 0, 0)
    # Active objects, the second column of /proc/slabinfo.
    caches = dict(line.split()[:2] for line in result.files["/tmp/slab"].decode().splitlines())  # noqa: S108
    assert "mutant_flow" in caches
    assert not any(map(int, caches.values())), caches


def test_sums_hold_under_random_switches(result: BootResult) -> None:
    told = answer(result, "stress.json")
    assert told["records"] > 1000
    assert told["foreign"] == 0
    assert (told["totals_wrong"], told["credits_wrong"], told["acked_wrong"]) == (0, 0, 0)


def test_the_module_works_after_the_fuzzer(result: BootResult) -> None:
    told = answer(result, "fuzz.json")
    assert told["messages"] == MESSAGES
    assert told["works"] is True


def test_every_refusal_says_why(result: BootResult) -> None:
    told = answer(result, "fuzz.json")
    assert told["with_text"] > MESSAGES // 10
    # What the kernel itself says of a request for which there is no room or no time.
    silent = [s for s in told["silent"] if s["errno"] not in (ENOBUFS, EBUSY)]
    assert not silent
