# SPDX-License-Identifier: Apache-2.0
"""Memory and flows: the limit of the control groups, the unit, the documents, and real flows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from ltp_switcher.daemon.datapath import FlowCounts
from ltp_switcher.daemon.service.memory import Room, flows_that_fit, limit_bytes

ROOT = Path(__file__).parents[3]
UNIT = ROOT / "packaging/systemd/ltp-switcher.service"


def groups(folder: Path, **limits: str) -> tuple[Path, Path]:
    """Control groups by path with their memory.max, and the membership of a process in the last one."""
    place = folder / "cgroup"
    for name, limit in limits.items():
        (place / name.replace("_", "/")).mkdir(parents=True, exist_ok=True)
        (place / name.replace("_", "/") / "memory.max").write_text(f"{limit}\n")
    (folder / "self").write_text(f"0::/{[*limits][-1].replace('_', '/')}\n")
    return folder / "self", place


@pytest.mark.parametrize(
    ("limits", "least"),
    [
        ({"a": "1000"}, 1000),
        ({"a": "1000", "a_b": "max"}, 1000),
        ({"a": "max", "a_b": "500"}, 500),
        ({"a": "400", "a_b": "500"}, 400),
        ({"a": "max"}, None),
    ],
)
def test_the_least_limit_of_all_groups_counts(
    tmp_path: Path, limits: dict[str, str], least: int | None
) -> None:
    assert limit_bytes(*groups(tmp_path, **limits)) == least


def test_without_control_groups_there_is_no_limit(tmp_path: Path) -> None:
    assert limit_bytes(tmp_path / "none", tmp_path) is None
    (tmp_path / "self").write_text("1:memory:/old\n")
    assert limit_bytes(tmp_path / "self", tmp_path) is None


def test_the_unit_and_the_manual_tell_how_many_flows_fit() -> None:
    found = re.search(r"^MemoryMax=(\d+)M$", UNIT.read_text(), re.MULTILINE)
    assert found
    manual = " ".join((ROOT / "docs/operations.md").read_text().split())
    for policy in ("rule", "mutant"):
        fits = flows_that_fit(int(found[1]) << 20, policy)
        assert f"{fits // 100 * 100:,} flows under `{policy}`" in manual


def test_more_memory_holds_more_flows_and_too_little_holds_none() -> None:
    for policy in ("rule", "mutant", "keep"):
        assert flows_that_fit(0, policy) == flows_that_fit(90 << 20, policy) == 0
        assert flows_that_fit(1 << 30, policy) > flows_that_fit(1 << 29, policy) > 500
        # What learning from flow to flow takes is no flow's.
        assert 0 < flows_that_fit(1 << 30, policy, visits=True) < flows_that_fit(1 << 30, policy)


def test_the_fault_is_told_once_and_ends_when_no_connection_is_refused_any_more(
    caplog: pytest.LogCaptureFixture,
) -> None:
    room = Room("rule", None)
    assert room.within(1000) == 1000
    room.look(FlowCounts(1000, 40))
    assert (room.fault, room.refused) == ("", 0), "those were another daemon's"
    for refused in (41, 45, 45, 46):
        room.look(FlowCounts(1000, refused))
    assert (room.refused, "raise kernel.flows_max" in room.fault) == (6, True)
    assert len(caplog.records) == 1
    for _ in range(20):
        room.look(FlowCounts(10, 46))
    assert room.fault == ""


@pytest.mark.parametrize(("policy", "few", "many"), [("rule", 200, 4200), ("mutant", 50, 450)])
def test_a_flow_takes_no_more_than_is_counted(policy: str, few: int, many: int) -> None:
    """The memory of the whole daemon's decisions, of flows that always send, in a process for each number."""
    program = (
        "import sys; from ltp_switcher.daemon.service.bench.__main__ import measure\n"
        "print(measure(int(sys.argv[2]), 10, 1, sys.argv[1]).memory_mb)"
    )
    taken = [
        int(subprocess.check_output([sys.executable, "-c", program, policy, str(flows)], timeout=300))
        for flows in (few, many)
    ]
    # Half a GB more holds so many flows more.
    counted = (1 << 29) / (flows_that_fit(1 << 30, policy) - flows_that_fit(1 << 29, policy))
    assert (taken[1] - taken[0]) * (1 << 20) / (many - few) <= counted
