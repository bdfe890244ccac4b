# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval run`, whole: a real kernel, a real flow, the daemon, and the written results."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ltp_switcher.eval.cli import main as cli
from ltp_switcher.eval.run.series import read_series


@pytest.mark.lab
def test_five_seconds_under_the_switcher(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "smoke", "--no-cache", "--out", str(tmp_path), "--json"]) == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert json.loads(capsys.readouterr().out) == summary
    assert (summary["scenario"], summary["scheme"], summary["seed"]) == ("smoke", "switcher", 1)
    assert 0.5 < summary["utilisation"] < 1.0
    (flow,) = summary["flows"]
    assert 6.0 < flow["throughput_mbps"] < 12.0
    assert flow["base_rtt_ms"] == 20.0
    assert 20.0 < flow["rtt_mean_ms"] < 120.0
    assert 20.0 < flow["rtt_p95_ms"] < 120.0
    assert flow["switches"] > 0
    assert flow["reward"] > 0.0
    assert {"bbr", "ltp"} <= set(flow["arm_share"]) <= {"cubic", "bbr", "ltp", "vegas"}
    (series,) = read_series((tmp_path / "timeseries.csv").read_text())
    assert series.t_s.size == 50
    assert series.capacity_mbps.tolist() == [12.0] * 50
    assert (tmp_path / "timeline.png").stat().st_size > 10_000
