# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval run`, whole: a real kernel, a real flow, the daemon, and the written results."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
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


QUICK = ("--no-cache", "--daemon", "beside")
"""A guest without Python: the smoke run is with the daemon inside."""
KNOWN_PREFIX = """
name = "known-prefix"
duration_s = 5

[link]
rate_mbps = 12.0
rtt_ms = 20.0
buffer_bdp = 2.0

[settings.pool]
arms = ["bbr", "vegas"]

[[flow]]
scheme = "switcher"
stop_s = 3.5

[[flow]]
scheme = "switcher"
start_s = 3.8
"""


@pytest.mark.lab
def test_a_flow_to_a_known_prefix_is_born_with_its_arm(tmp_path: Path) -> None:
    """The first flow is born with the module's default arm, Cubic, as the daemon does not know its path."""
    (tmp_path / "known-prefix.toml").write_text(KNOWN_PREFIX)
    out = tmp_path / "out"
    known = ["run", str(tmp_path / "known-prefix.toml"), *QUICK, "--out", str(out)]
    assert cli.main(known) == 0
    _, second = read_series((out / "timeseries.csv").read_text())
    assert set(second.arm) - {""} == {"bbr"}
    flows = json.loads((out / "summary.json").read_text())["flows"]
    assert [flow["switches"] for flow in flows] == [1, 0]


RATE_FALLS = """
name = "rate-falls"
duration_s = 11

[link]
rate_mbps = 16.0
rtt_ms = 36.0
buffer_bdp = 1.5

[[link.step]]
at_s = 4.0
rate_mbps = 4.0

[[flow]]
scheme = "rule"
"""


@pytest.mark.lab
def test_no_queue_stays_after_the_rate_has_fallen(tmp_path: Path) -> None:
    """The buffer holds 200 ms of the new rate. LTP alone keeps most of it full, and so did the rule."""
    path = tmp_path / "rate-falls.toml"
    path.write_text(RATE_FALLS)
    goodputs_mbps = []
    for seed in ("1", "2", "3"):
        assert cli.main(["run", str(path), *QUICK, "--seed", seed, "--out", str(tmp_path)]) == 0
        (series,) = read_series((tmp_path / "timeseries.csv").read_text())
        late = series.t_s >= 9.0
        assert series.rtt_ms[late].mean() < 1.5 * 36.0
        goodputs_mbps.append(series.goodput_mbps[late].mean())
    # After the fall LTP may need a second or two to fill the link; one seed has 0.79 of it.
    assert np.mean(goodputs_mbps) > 0.8 * 4.0


SLOW_WAY_BACK = """
name = "slow-way-back"
duration_s = 18

[link]
rate_mbps = 20.0
rtt_ms = 36.0
buffer_pkts = 100

[link.back]
rate_mbps = 0.1
buffer_pkts = 40

[[flow]]
scheme = "rule"
"""


@pytest.mark.lab
def test_a_slow_way_back_does_not_hide_the_rate(tmp_path: Path) -> None:
    """The way back carries 240 ACKs a second, where the link serves 1,667 packets. BBR, LTP and Vegas take a
    queue of ACKs for their own, and have a fifth of the rate. BBR's start does not fill this queue.
    """
    path = tmp_path / "slow-way-back.toml"
    path.write_text(SLOW_WAY_BACK)
    assert cli.main(["run", str(path), *QUICK, "--out", str(tmp_path)]) == 0
    (series,) = read_series((tmp_path / "timeseries.csv").read_text())
    late = series.t_s >= 14.0
    assert set(np.array(series.arm)[late]) == {"cubic"}
    assert series.goodput_mbps[late].mean() > 0.7 * 20.0
