# SPDX-License-Identifier: Apache-2.0
"""The lab itself: the result of a boot, and that a run is a pure function of its input."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.module_lab import EACH_KERNEL

from ltp_switcher.errors import InvalidValueError, LabError
from ltp_switcher.eval.lab import boot, run_inputs, run_scenario, schedule
from ltp_switcher.eval.run import schemes
from ltp_switcher.eval.run.live import Sample
from ltp_switcher.eval.run.scenario import Flow, Link, LinkStep, Scenario
from ltp_switcher.eval.run.series import read_series

pytestmark = pytest.mark.lab

STEPS = Scenario(
    "steps",
    6.0,
    Link(
        rtt_ms=20.0,
        rate_mbps=12.0,
        buffer_bdp=1.0,
        steps=(LinkStep(2.0, 24.0), LinkStep(4.0, None, 60.0, 0.05)),
    ),
    (Flow("cubic", 0.0, 6.0), Flow("bbr", 1.0, 5.0, rtt_ms=50.0)),
)


@pytest.mark.parametrize("kernel", EACH_KERNEL)
def test_boot_hands_back_what_the_script_did(kernel: str, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\necho from the program\n")
    program.chmod(0o755)
    lines: list[str] = []
    result = boot(
        kernel=kernel,
        script="/opt/program; uname -r; lab-say alive; modprobe tcp_vegas; cp /data /tmp/x; exit 7",
        overlay={"/opt/program": program, "/data": b"bytes\n"},
        collect=["/tmp/x", "/tmp/none"],  # noqa: S108 # in the guest
        on_line=lines.append,
        mutant=False,
        timeout_s=300,
    )
    assert not result.ok
    assert result.exit_code == 7
    assert result.kernel.startswith(f"{kernel}.")
    assert "from the program" in result.console
    assert result.kernel in result.console
    assert result.files == {"/tmp/x": b"bytes\n"}  # noqa: S108
    assert lines == ["alive"]
    assert result.warnings == ()
    assert "Linux version" in result.kernel_log


FOREVER = """
from ltp_switcher.eval.lab import boot
boot(script="lab-say alive; sleep 100000", mutant=False, on_line=lambda line: print(line, flush=True))
"""


def test_a_guest_ends_with_the_process_that_follows_it() -> None:
    with subprocess.Popen([sys.executable, "-c", FOREVER], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "alive\n"
        (guest,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert b"qemu" in Path(f"/proc/{guest}/cmdline").read_bytes()
        process.kill()
    deadline = time.monotonic() + 60
    while Path(f"/proc/{guest}").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not Path(f"/proc/{guest}").exists()


def test_a_dead_kernel_is_reported() -> None:
    result = boot(script="echo before; sleep 0.1; echo c >/proc/sysrq-trigger", mutant=False, timeout_s=300)
    assert not result.ok
    assert result.exit_code == 255
    assert "before" in result.console
    assert any("Kernel panic" in line for line in result.warnings)


def test_a_guest_that_hangs_is_killed() -> None:
    with pytest.raises(LabError, match="did not end within 12 s of processor time"):
        boot(script="echo stuck; while :; do :; done", mutant=False, timeout_s=12)


def test_unknown_kernels_are_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"kernel: '5\.4'"):
        boot(kernel="5.4", script="true")


def test_a_run_repeats_to_the_byte_and_another_seed_differs() -> None:
    samples: list[Sample] = []
    first = run_scenario(STEPS, seed=1, on_progress=samples.append)
    second = run_scenario(STEPS, seed=1)
    other = run_scenario(STEPS, seed=2)
    assert first.files == second.files
    assert first.virtual_s == second.virtual_s
    assert first.files["timeseries.csv"] != other.files["timeseries.csv"]
    assert [round(sample.t_s, 3) for sample in samples] == [0.5 * n for n in range(1, 13)]

    flows = json.loads(first.files["flows.json"])["flows"]
    for flow in flows:
        assert flow["bytes_received_in_all"] == flow["bytes_sent"]
    cubic, bbr = read_series(first.files["timeseries.csv"].decode())
    assert cubic.t_s.size == 60
    assert bbr.t_s.size == 40
    assert set(cubic.arm) == {"cubic"}
    # Totals are of a flow's life, without how its queue empties after that.
    for flow, series in zip(flows, (cubic, bbr), strict=True):
        assert flow["delivered_pkts"] == series.delivered_pkts.sum()
        assert flow["lost_pkts"] == series.lost_pkts.sum()
        assert flow["retransmits"] == series.retrans_pkts.sum()
    # The link's steps show in the bins that follow them at once: 100, then 200 packets in 100 ms.
    delivered_pkts = cubic.delivered_pkts.copy()
    delivered_pkts[10:50] += bbr.delivered_pkts
    # Never more than that; now and then less, where a flow has backed off and the queue runs dry.
    assert np.all(delivered_pkts[:20] <= 102)
    assert np.median(delivered_pkts[10:20]) >= 98
    assert np.all(delivered_pkts <= 202)
    assert delivered_pkts[20:40].max() >= 198
    before, after = cubic.rtt_min_ms[15:40], cubic.rtt_min_ms[48:]
    assert np.nanmin(before) >= 20.0
    assert np.nanmin(after) >= 60.0
    assert np.nanmin(bbr.rtt_min_ms) >= 50.0
    assert cubic.lost_pkts[45:].sum() > 0
    guest = json.loads(first.files["guest.json"])
    assert guest["daemon_instructions"] == 0
    assert 0 < guest["busy_instructions"] < 6_000_000_000


def test_a_full_queue_passes_what_the_trace_offers(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    times = np.append(rng.integers(1, 999, 1499), 999)
    trace = tmp_path / "wave.down"
    trace.write_text("".join(f"{ms}\n" for ms in np.sort(times).tolist()))
    scenario = Scenario(
        "wave", 4.0, Link(rtt_ms=10.0, trace=str(trace), buffer_bdp=4.0), (Flow("cubic", 0.0, 4.0),)
    )
    (series,) = read_series(run_scenario(scenario, seed=1).files["timeseries.csv"].decode())
    busy = np.flatnonzero((series.queue_pkts[:-1] > 2) & (series.queue_pkts[1:] > 2)) + 1
    assert busy.size > 20
    # A counter is read within the bin's last ms or just after: what may leave at its edges is open.
    at_ms = np.concatenate([np.loadtxt(trace) + 999 * n for n in range(6)])
    edges_ms = np.arange(41) * 100
    least = np.searchsorted(at_ms, edges_ms[1:], "left") - np.searchsorted(at_ms, edges_ms[:-1], "right")
    most = np.searchsorted(at_ms, edges_ms[1:], "right") - np.searchsorted(at_ms, edges_ms[:-1], "left")
    assert np.all(series.delivered_pkts[busy] >= least[busy])
    assert np.all(series.delivered_pkts[busy] <= most[busy])


def test_the_fingerprint_covers_what_a_run_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    base = run_inputs(STEPS, seed=1, kernel="6.1").fingerprint()
    assert base == run_inputs(STEPS, seed=1, kernel="6.1").fingerprint()
    assert base != run_inputs(STEPS, seed=2, kernel="6.1").fingerprint()
    assert base != run_inputs(STEPS, seed=1, kernel="6.12").fingerprint()
    assert base != run_inputs(STEPS.with_scheme("mutant:cubic"), seed=1, kernel="6.1").fingerprint()
    # Whatever code makes what the guest gets: the link's schedule, the daemon's configuration.
    steered = STEPS.with_scheme("owl-loss")
    owl_loss = run_inputs(steered, seed=1, kernel="6.1").fingerprint()
    monkeypatch.setattr(schemes, "VARIANTS", {**schemes.VARIANTS, "owl-loss": "spine"})
    assert owl_loss != run_inputs(steered, seed=1, kernel="6.1").fingerprint()
    monkeypatch.setattr(schedule, "queue_packets", lambda *_: 7)
    assert base != run_inputs(STEPS, seed=1, kernel="6.1").fingerprint()
