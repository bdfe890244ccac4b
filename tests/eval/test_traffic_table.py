# SPDX-License-Identifier: Apache-2.0
"""The guest's traffic program refuses a table of flows that it cannot read whole; here on the host."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ltp_switcher.eval.lab.layers import GUEST, compiled

FLOW = "cubic - 0 1000000 0\n"


def refusal(table: str, tmp_path: Path) -> str:
    flows = tmp_path / "flows"
    flows.write_text(table)
    command = [compiled(GUEST / "traffic"), "/dev/null", flows, "1000", tmp_path / "out"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    return ended.stderr


@pytest.mark.parametrize(
    "table",
    [FLOW * 2 + "cubic - 0 1000000\n", FLOW * 2 + "cubic - 0 soon 0\n", FLOW * 2 + "cubic\n" + FLOW],
)
def test_an_incomplete_line_is_named(table: str, tmp_path: Path) -> None:
    assert "flows: line 3 is not a flow" in refusal(table, tmp_path)


def test_too_many_flows_are_refused(tmp_path: Path) -> None:
    assert "flows: more than" in refusal(FLOW * 512, tmp_path)


@pytest.mark.parametrize("flows", [0, 3, 256])
def test_a_whole_table_is_read(flows: int, tmp_path: Path) -> None:
    """The host has no network of the lab, at which the program stops next."""
    assert "netns" in refusal(FLOW * flows, tmp_path)
