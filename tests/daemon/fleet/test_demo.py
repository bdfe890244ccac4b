# SPDX-License-Identifier: Apache-2.0
"""The demo of a fleet, over fewer networks and visits: real daemons, services and store."""

from __future__ import annotations

import json
from pathlib import Path

from fleet import demo
from rich.console import Console


def test_a_new_host_in_a_fleet_begins_better_than_one_by_itself(tmp_path: Path) -> None:
    with (tmp_path / "progress").open("w") as progress:
        made = demo.demo(tmp_path, Console(file=progress), seeds=[6], networks=6, taught=150, shown=3)
    (over,), (alone,) = made.over("fleet"), made.over("alone")
    assert over > alone
    assert made.begins("fleet") > made.begins("alone")
    # A new host by itself runs the decision's own choice, which is right on half of the networks.
    assert made.begins("alone") == 0.5
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["hosts"]["fleet"]["over_first_host"] == [over]
    assert len(report["hosts"]["alone"]["reward_by_visit"]) == 3
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert "lessons arrived" in (tmp_path / "progress").read_text()
