# SPDX-License-Identifier: Apache-2.0
"""The report on a full log of decisions: by the command, and over the API by several at once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import numpy as np

from load.blocks import Tell, _environment
from load.service import Service, Wanted, service, use_of
from ltp_switcher.daemon.gain.log import FOLDER, DecisionWriter
from ltp_switcher.daemon.gain.rows import ROW_DTYPE, RTT_SAMPLES, Group, Kind
from ltp_switcher.daemon.gain.trial import Trial

ARMS: Final = {1: "cubic", 2: "bbr", 5: "vegas"}
DESIGNS: Final = ("none", "holdback", "switchback")
ASKERS: Final = 8
PART: Final = 20_000
WEEK_S: Final = 7 * 86_400.0


def write_log(folder: Path, design: str, rows: int, prefixes: int, seed: int) -> None:
    """Log a week of invented decisions: without an experiment those are advice."""
    rng = np.random.default_rng(seed)
    names = np.array([f"10.{i // 256}.{i % 256}.0/24".encode() for i in range(prefixes)])
    trial = Trial("switchback") if design == "switchback" else Trial()
    held_back = np.arange(prefixes) % 10 == 0
    begin_s, blocks = time.time() - WEEK_S, np.arange(int(WEEK_S // trial.block_s) + 2)
    paused = np.array([trial.pauses(int(begin_s // trial.block_s) + block) for block in blocks.tolist()])
    writer = DecisionWriter(folder, 2 * rows * ROW_DTYPE.itemsize, ARMS)
    for begin in range(0, rows, PART):
        n = min(PART, rows - begin)
        made = np.zeros(n, ROW_DTYPE)
        made["time_s"] = begin_s + (begin + np.arange(n)) * WEEK_S / rows
        made["duration_s"] = made["busy_s"] = 10
        # Some prefixes have far more flows than others.
        prefix = np.minimum(rng.integers(0, prefixes, n), rng.integers(0, prefixes, n))
        made["prefix"], made["cookie"] = names[prefix], rng.integers(1, max(rows // 4, 2), n)
        made["arm"], made["ran"] = rng.choice([*ARMS], n), rng.choice([*ARMS], n)
        made["ended"], made["life_s"], made["reward"] = rng.random(n) < 0.2, 30, rng.random(n)
        made["acked_bytes"] = rng.lognormal(13, 2, n)
        made["delivered"] = made["acked_bytes"] // 1448
        made["retrans"] = made["delivered"] * 0.01
        samples = np.arange(RTT_SAMPLES) < rng.integers(4, 11, n)[:, None]
        made["rtt_us"] = np.where(samples, rng.lognormal(10, 0.5, samples.shape), np.nan)
        made["block"], made["active"] = -1, design != "none"
        if design == "holdback":
            made["group"] = np.where(held_back[prefix], Group.CONTROL, Group.TREATED)
        if design == "switchback":
            made["block"] = made["time_s"] // trial.block_s
            control = paused[made["block"] - int(begin_s // trial.block_s)]
            made["group"] = np.where(control, Group.CONTROL, Group.TREATED)
        made["kind"] = np.where(made["group"] == Group.CONTROL, Kind.BASELINE, Kind.CHOSEN)
        writer.append(made)
        while writer.logged + writer.dropped < begin + n:
            time.sleep(0.005)
    writer.close()


def measure(wanted: Wanted, rows: int, prefixes: int, tell: Tell) -> dict[str, object]:
    """Time and memory by design."""
    found: dict[str, object] = {}
    for design in DESIGNS:
        place = wanted.folder / "state" / FOLDER
        tell(f"{design}: a log of {rows} rows and {prefixes} prefixes")
        write_log(place, design, rows, prefixes, wanted.seed)
        tell(f"{design}: ltp-switcher report")
        found[f"{design}: ltp-switcher report"] = _command(place)
        with service(wanted) as running:
            time.sleep(2)
            tell(f"{design}: {ASKERS} at once over the API")
            found[f"{design}: GET /v1/report"] = _over_http(running)
        shutil.rmtree(wanted.folder / "state")
    return found


def _command(place: Path) -> dict[str, float]:
    began_s = time.perf_counter()
    child = subprocess.Popen(
        [sys.executable, "-m", "ltp_switcher.daemon.cli", "report", str(place), "--json"],
        env=_environment(), stdout=subprocess.DEVNULL,
    )  # fmt: skip
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode == 0
    return {
        "wall s": round(time.perf_counter() - began_s, 2),
        "processor s": round(used.ru_utime + used.ru_stime, 2),
        "memory MB at most": round(used.ru_maxrss / 1024),
    }


def _over_http(running: Service) -> dict[str, float]:
    assert running.api is not None
    pid, recording = running.api.process.pid, running.wanted.recording
    before = use_of(pid, recording)
    done: list[bool] = []
    with ThreadPoolExecutor(ASKERS + 1) as pool:
        health = pool.submit(lambda: _health_ms(running, done))
        first = list(pool.map(lambda _: _took_ms(running, "/v1/report"), range(ASKERS)))
        done.append(True)
        worst_ms = health.result()
    again = [_took_ms(running, "/v1/report") for _ in range(20)]
    after = use_of(pid, recording)
    return {
        f"{ASKERS} at once, slowest ms": round(max(first)),
        "/health meanwhile, slowest ms": round(worst_ms),
        "again, median ms": round(float(np.median(again)), 1),
        "processor s": round(after.cpu_s - before.cpu_s, 2),
        "memory MB before": round(before.rss_mb),
        "memory MB at most": round(after.peak_mb),
    }


def _health_ms(running: Service, done: list[bool]) -> float:
    """The slowest answer until the others are done."""
    slowest = 0.0
    while not done:
        slowest = max(slowest, _took_ms(running, "/health"))
        time.sleep(0.02)
    return slowest


def _took_ms(running: Service, path: str) -> float:
    with running.client() as client:
        began_s = time.perf_counter()
        answer = client.get(path)
        assert answer.status_code == 200, answer.text
        return (time.perf_counter() - began_s) * 1e3
