# SPDX-License-Identifier: Apache-2.0
"""Run a scenario through mahimahi's shells, in real time, and return the measurements."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import math
import os
import platform
import pwd
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from ltp_switcher.errors import EmulationError
from ltp_switcher.eval.lab.layers import digest
from ltp_switcher.eval.lab.measurements import check_bytes, flows_json, follower, timeseries
from ltp_switcher.eval.lab.packages import say
from ltp_switcher.eval.lab.run import RunFiles
from ltp_switcher.eval.lab.schedule import capacity_mbps, link_trace
from ltp_switcher.eval.lab.script import flow_table
from ltp_switcher.eval.mahimahi.link_log import read_link_log
from ltp_switcher.eval.mahimahi.path import DRAIN_MS, ShellPath, check_emulable, shell_path, with_whole_delays
from ltp_switcher.eval.mahimahi.setup import programs, programs_digest
from ltp_switcher.eval.run.live import Sample
from ltp_switcher.eval.run.scenario import Scenario

_PROTOCOLS: Final = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")
_DEFAULT_ARM: Final = Path("/sys/module/tcp_mutant/parameters/default_arm")
_USER: Final = "nobody"
_PATIENCE_S: Final = 60.0
NAMESPACES: Final = (
    "unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--mount-proc",
    "--kill-child",
)  # fmt: skip
"""Command that gives a run its own namespaces. All processes of the run end with the process that made the
namespaces."""


def host_protocols() -> tuple[str, ...]:
    """Return the congestion controls that the host's kernel has ready."""
    return tuple(_PROTOCOLS.read_text().split())


def as_emulated(scenario: Scenario) -> Scenario:
    """Return the scenario in a form that mahimahi can run on this machine: RTTs become even numbers of ms. If
    the link's RTT changes, say so.

    Raises:
        ConfigError: mahimahi cannot run the scenario.
        EmulationError: this machine lacks a part that mahimahi needs; the message names the part.
    """
    check_emulable(scenario, host_protocols())
    programs()
    emulated = with_whole_delays(scenario)
    if emulated.link.rtt_ms != scenario.link.rtt_ms:
        say(f"mahimahi: the RTT is {emulated.link.rtt_ms:g} ms in place of {scenario.link.rtt_ms:g}")
    return emulated


def emulation_fingerprint(scenario: Scenario, *, seed: int) -> str:
    """Return the hash under which a run is kept.

    It covers the scenario, its trace's content, the seed, the kernel, and the programs.
    """
    trace = link_trace(scenario)
    parts = [
        "mahimahi", scenario.canonical(), str(seed), platform.release(), programs_digest(),
        "" if trace is None else hashlib.sha256(trace.tobytes()).hexdigest(),
        *(digest(path) for path in sorted(Path(__file__).parent.glob("*.py"))),
    ]  # fmt: skip
    return "mahimahi-" + hashlib.sha256("\0".join(parts).encode()).hexdigest()[:23]


def run_emulated(
    scenario: Scenario, *, seed: int = 1, on_progress: Callable[[Sample], None] | None = None
) -> RunFiles:
    """Run `scenario`, which has been through `as_emulated`, and return its raw results.

    Args:
        scenario: the link and the flows.
        seed: seed of the flows' start times. Losses and the machine's load differ between runs with the same
            seed.
        on_progress: function that takes the state of the first flow, every 0.5 seconds.

    Raises:
        EmulationError: something is missing here, or a shell failed.
        LabError: the received bytes differ from the sent ones.
    """
    path, folder = shell_path(scenario), programs()
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="ltp-mahimahi-") as name:
        work = Path(name)
        _write_inputs(work, path, flow_table(scenario, seed))
        end_ms = round(scenario.duration_s * 1e3)
        with _default_arm_kept():
            _run_session(
                session_command(path, work=work, folder=folder, end_ms=end_ms),
                limit_s=(path.lead_ms + end_ms + DRAIN_MS) / 1e3 + _PATIENCE_S,
                on_line=follower(scenario, on_progress) if on_progress else lambda _: None,
            )
        files = _results(scenario, path, work)
    return RunFiles(files, platform.release(), scenario.duration_s, time.monotonic() - started)


def session_command(path: ShellPath, *, work: Path, folder: Path, end_ms: int) -> list[str]:
    """Return the command line of a run; `folder` has the programs, `work` the run's files."""
    user = pwd.getpwnam(_USER)
    return [
        *NAMESPACES, str(folder / "session"), str(work), str(folder), str(user.pw_uid), str(user.pw_gid),
        str(path.queue_pkts), f"{path.loss:g}", str(path.lead_ms), str(end_ms), *map(str, path.delays_ms),
    ]  # fmt: skip


def _write_inputs(work: Path, path: ShellPath, flows: bytes) -> None:
    work.chmod(0o755)
    (work / "up.trace").write_text(path.up_trace())
    (work / "down.trace").write_text(path.down_trace())
    (work / "flows").write_bytes(flows)
    (work / "sources").write_text("".join(f"{index}\n" for index in path.delay_of))
    # The shells write this file as an ordinary user.
    (work / "up.log").touch()
    user = pwd.getpwnam(_USER)
    os.chown(work / "up.log", user.pw_uid, user.pw_gid)


def _run_session(command: Sequence[str], *, limit_s: float, on_line: Callable[[str], None]) -> None:
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL, text=True
        ) as session,
    ):
        watchdog = threading.Timer(limit_s, session.kill)
        watchdog.start()
        try:
            for line in session.stdout or ():
                on_line(line)
            status = session.wait()
        except BaseException:
            session.kill()
            raise
        finally:
            watchdog.cancel()
        if status:
            errors.seek(0)
            tail = "\n".join(errors.read().splitlines()[-12:])
            raise EmulationError(f"the run through mahimahi failed with status {status}:\n{tail}")


@contextlib.contextmanager
def _default_arm_kept() -> Iterator[None]:
    """Restore the module's default arm after the block, because the source of a `mutant` flow changes this
    arm.
    """
    if not _DEFAULT_ARM.exists():
        yield
        return
    arm = _DEFAULT_ARM.read_text()
    try:
        yield
    finally:
        _DEFAULT_ARM.write_text(arm)


def most_lost(arrived_pkts: int, loss: float) -> float:
    """Return the largest number of lost packets that random loss can explain.

    It is the mean, plus four standard deviations, plus one in a thousand of the packets that arrived.

    Args:
        arrived_pkts: number of packets that arrived.
        loss: random loss, as a share of all packets.
    """
    mean = arrived_pkts * loss / (1 - loss)
    return mean + 4 * math.sqrt(mean) + arrived_pkts / 1000


def _results(scenario: Scenario, path: ShellPath, work: Path) -> dict[str, bytes]:
    totals: dict[str, Any] = json.loads((work / "results.json").read_text())
    check_bytes(scenario, totals)
    capacity = capacity_mbps(scenario, link_trace(scenario)).tolist()
    with (work / "up.log").open() as lines:
        log = read_link_log(lines, queue_pkts=path.queue_pkts, lead_ms=path.lead_ms, bins=len(capacity))
    lost_pkts = sum(int(total["lost_pkts"]) for total in totals["flows"])
    elsewhere_pkts = max(0, lost_pkts - log.dropped_pkts)
    if elsewhere_pkts > most_lost(log.arrived_pkts, path.loss):
        say(
            f"mahimahi: {elsewhere_pkts} of {log.arrived_pkts} packets were lost outside the link's queue; "
            "this machine is too slow or too busy for the link"
        )
    rows = list(csv.DictReader(io.StringIO((work / "results.csv").read_text())))
    for row in rows:
        row["queue_pkts"] = str(log.queue_pkts[int(row["bin"])])
    host = {
        "link_arrived_pkts": log.arrived_pkts, "link_left_pkts": log.left_pkts,
        "link_dropped_pkts": log.dropped_pkts, "lost_elsewhere_pkts": elsewhere_pkts,
        "queue_pkts": path.queue_pkts,
        "delays_ms": path.delays_ms,
    }  # fmt: skip
    return {
        "timeseries.csv": timeseries(scenario, rows, capacity),
        "flows.json": flows_json(scenario, totals),
        "host.json": (json.dumps(host, indent=1) + "\n").encode(),
    }
