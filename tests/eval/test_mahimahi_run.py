# SPDX-License-Identifier: Apache-2.0
"""Runs through mahimahi's real shells, in real time: their figures, and the host after them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ltp_switcher.eval.cli.main import main
from ltp_switcher.eval.mahimahi.setup import find_missing, shells_folder
from ltp_switcher.eval.run.series import read_series

pytestmark = pytest.mark.slow

STEP = """
name = "step-in-real-time"
duration_s = 12
[link]
rate_mbps = 12.0
rtt_ms = 40.0
[[link.step]]
at_s = 6.0
rate_mbps = 24.0
[[flow]]
scheme = "cubic"
[[flow]]
scheme = "bbr"
rtt_ms = 80.0
"""
LOSSY = """
name = "lossy-in-real-time"
duration_s = 12
[link]
rate_mbps = 12.0
rtt_ms = 40.0
buffer_pkts = 1000
loss = 0.02
[[flow]]
scheme = "bbr"
"""
HOST_SETTINGS = (
    "net/ipv4/ip_forward", "net/ipv4/tcp_allowed_congestion_control", "net/ipv4/tcp_rmem",
    "net/ipv4/tcp_no_metrics_save",
)  # fmt: skip


@pytest.fixture(autouse=True)
def _set_up() -> None:
    missing = find_missing()
    if missing:
        lacking = "; ".join(f"{one.what} ({one.remedy})" for one in missing)
        pytest.skip(f"mahimahi cannot run here, these are missing: {lacking}")


def host_state() -> dict[str, object]:
    """All that a run might change on the host."""
    links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    return {
        "settings": [Path("/proc/sys", name).read_text() for name in HOST_SETTINGS],
        "links": sorted(line.split(":")[1] for line in links.splitlines()),
        "mounts": sorted(
            line for line in Path("/proc/self/mounts").read_text().splitlines() if "mahimahi" in line
        ),
        "iptables": Path("/usr/sbin/iptables").stat().st_ino,
    }


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder in which the run's own folder is; it tells the run's processes from those of other runs."""
    with tempfile.TemporaryDirectory(prefix="ltp-test-") as name:
        Path(name).chmod(0o755)
        monkeypatch.setattr(tempfile, "tempdir", name)
        monkeypatch.setenv("TMPDIR", name)
        yield Path(name)


def spaces_of(room: Path) -> set[str]:
    """Process namespaces of the processes that were started with a file in this folder."""
    own = str(Path("/proc/self/ns/pid").readlink())
    return {space for space, line in _processes() if str(room) in line and space != own}


def count_in(spaces: set[str]) -> int:
    """Number of processes in these namespaces."""
    return sum(space in spaces for space, _ in _processes())


def _processes() -> Iterator[tuple[str, str]]:
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            yield str((path / "ns/pid").readlink()), (path / "cmdline").read_text(errors="replace")


def run(tmp_path: Path, text: str) -> Path:
    file, out = tmp_path / "here.toml", tmp_path / "out"
    file.write_text(text)
    assert main(["run", str(file), "--engine", "mahimahi", "--out", str(out)]) == 0
    return out


def test_two_flows_on_a_link_that_steps_leave_no_trace_of_the_run(tmp_path: Path, room: Path) -> None:
    before = host_state()
    out = run(tmp_path, STEP)
    assert host_state() == before
    assert spaces_of(room) == set()
    assert list(room.iterdir()) == []
    assert not any(path.stat().st_mode & stat.S_ISUID for path in shells_folder().rglob("*"))
    summary = json.loads((out / "summary.json").read_text())
    assert summary["kernel"] == f"{os.uname().release} (mahimahi)"
    assert 0.8 < summary["utilisation"] < 0.97
    cubic, bbr = summary["flows"]
    assert (cubic["base_rtt_ms"], bbr["base_rtt_ms"]) == (40.0, 80.0)
    series = read_series((out / "timeseries.csv").read_text())
    for flow, base_ms in zip(series, (40.0, 80.0), strict=True):
        assert flow.t_s.size == 120
        assert base_ms < np.nanmin(flow.rtt_min_ms) < base_ms + 20
    assert set(series[0].arm) | set(series[1].arm) <= {"cubic", "bbr", ""}
    goodput_mbps = series[0].goodput_mbps + series[1].goodput_mbps
    # BBR's probes for the RTT pull the mean down, not the median.
    assert 10.0 < np.median(goodput_mbps[20:58]) < 12.0
    assert 20.0 < np.median(goodput_mbps[70:]) < 24.0
    # The queue holds one BDP of the first rate, 40 packets, and the one in service.
    assert 20 < series[0].queue_pkts.max() <= 41
    host = json.loads((out / "host.json").read_text())
    assert host["delays_ms"] == [20, 40]
    lost = sum(flow["lost_pkts"] for flow in json.loads((out / "flows.json").read_text())["flows"])
    assert lost == pytest.approx(host["link_dropped_pkts"], abs=0.1 * host["link_dropped_pkts"] + 5)


def test_random_losses_are_counted_by_both_ends(tmp_path: Path) -> None:
    """The queue drops nothing; the 2 % are mm-loss's own."""
    out = run(tmp_path, LOSSY)
    host = json.loads((out / "host.json").read_text())
    assert host["link_dropped_pkts"] == 0
    (flow,) = json.loads((out / "summary.json").read_text())["flows"]
    assert 0.012 < flow["loss"] < 0.028
    assert flow["throughput_mbps"] > 9.0


def test_an_interrupt_ends_the_shells_too(tmp_path: Path, room: Path) -> None:
    before = host_state()
    (tmp_path / "here.toml").write_text(LOSSY)
    command = [sys.executable, "-m", "ltp_switcher.eval.cli.main", "run", str(tmp_path / "here.toml")]
    with subprocess.Popen(
        [*command, "--engine", "mahimahi", "--out", str(tmp_path / "out")], stderr=subprocess.PIPE, text=True
    ) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if "arm=bbr" in line:
                break
        spaces = spaces_of(room)
        assert count_in(spaces) > 8, "the session, the shells' processes, the source and sink"
        running.send_signal(signal.SIGINT)
        assert "interrupted" in running.stderr.read()
        assert running.wait() == 130
    for _ in range(100):
        if not count_in(spaces):
            break
        time.sleep(0.1)
    assert count_in(spaces) == 0
    assert list(room.iterdir()) == []
    assert host_state() == before
