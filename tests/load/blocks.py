# SPDX-License-Identifier: Apache-2.0
"""Steps and /health with and without load, in alternate blocks of one run; memory, and bytes of log."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from load.daemon import STEP_DTYPE
from load.service import Service, Use, Wanted, cpu_s_of, service, use_of

Tell = Callable[[str], None]
HEALTH_S: Final = 0.05
SETTLE_S: Final = 3.0
"""Time after the load comes or goes that counts for neither."""


@dataclass(frozen=True, slots=True)
class Load:
    """How much load, for how long."""

    clients: int
    rate: float
    half_open: int
    pairs: int
    block_s: float
    abuse_s: float


@dataclass(slots=True)
class Block:
    """A stretch of time with load, or without."""

    loaded: bool
    began_ns: int
    ended_ns: int
    cpu_s: dict[str, float] = field(default_factory=dict)

    def holds(self, times_ns: np.ndarray) -> np.ndarray:
        """Whether times are in the block."""
        return (times_ns >= self.began_ns) & (times_ns < self.ended_ns)


class Process:
    """A process of the load, which obeys lines."""

    def __init__(self, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=_environment(),
        )

    @property
    def cpu_s(self) -> float:
        """CPU time so far."""
        return cpu_s_of(self._process.pid)

    def order(self, line: str) -> None:
        """Send a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def end(self) -> dict[str, object]:
        """End it, and return what it measured."""
        out, _ = self._process.communicate("end\n", timeout=60)
        found: dict[str, object] = json.loads(out)
        return found


def measure(wanted: Wanted, load: Load, tell: Tell) -> dict[str, object]:
    """All figures of one run."""
    with service(wanted, tcp=True) as running:
        assert running.daemon is not None
        assert running.api is not None
        health = wanted.folder / "health"
        clients = Process("load.clients", running.api_path, load.clients, load.rate, wanted.seed)
        abuse = Process("load.abuse", running.port, running.api_path, running.control_path, load.half_open)
        with probing(running, health):
            time.sleep(2 * SETTLE_S)
            logged = running.log_bytes()
            blocks = list(blocks_of(running, load, (clients, abuse), tell))
            under_load = (running.log_bytes() - logged) / sum(
                block.ended_ns - block.began_ns for block in blocks
            )
            uses = _uses(running)
            garbage_ns = [time.monotonic_ns()]
            logged_by_abuse = _log_of_abuse(running, load, abuse, tell)
            garbage_ns.append(time.monotonic_ns())
            status = running.client().get("/v1/status").json()
            uses_after = _uses(running)
        seen, done = clients.end(), abuse.end()
    return {
        **_compare(blocks, np.fromfile(running.steps, STEP_DTYPE), health),
        "health with garbage, ms": _health(health, garbage_ns),
        "clients": told_by(seen),
        "abuse": done,
        "memory": {
            name: {
                "after the load": round(uses[name].rss_mb, 1),
                "at most": round(uses_after[name].peak_mb, 1),
            }
            for name in uses
        },
        "log MB a minute": {
            "load": round(under_load * 60e9 / 1e6, 4),
            "abuse with garbage": round(logged_by_abuse, 4),
        },
        "missed steps": status["missed_steps"],
        "steps": status["steps"],
    }


@contextlib.contextmanager
def probing(running: Service, target: Path, *path: str) -> Iterator[None]:
    """A client of the UNIX socket asks for a path all the time, and writes its answers' times to a file."""
    prober = subprocess.Popen(
        [sys.executable, "-m", "load.health", str(running.api_path), str(target), str(HEALTH_S), *path],
        env=_environment(),
    )
    try:
        yield
    finally:
        prober.terminate()
        prober.wait()


def blocks_of(running: Service, load: Load, processes: Sequence[Process], tell: Tell) -> Iterator[Block]:
    """Blocks with the load of the processes, and as many without."""
    for number in range(2 * load.pairs):
        # With, without, without, with: a machine that gets busier is neither's fault.
        loaded = number % 4 in (1, 2)
        tell(f"block {number + 1} of {2 * load.pairs}, {'with' if loaded else 'without'} load")
        for process in processes:
            process.order("on" if loaded else "off")
        time.sleep(SETTLE_S)
        before, ours, began_ns = _uses(running), [p.cpu_s for p in processes], time.monotonic_ns()
        time.sleep(load.block_s)
        block = Block(loaded, began_ns, time.monotonic_ns())
        block.cpu_s = {name: use.cpu_s - before[name].cpu_s for name, use in _uses(running).items()}
        block.cpu_s["load"] = sum(p.cpu_s for p in processes) - sum(ours)
        yield block
    for process in processes:
        process.order("off")


def _log_of_abuse(running: Service, load: Load, abuse: Process, tell: Tell) -> float:
    """Megabytes of log a minute."""
    if not load.abuse_s:
        return float("nan")
    tell(f"{load.abuse_s:g} s of abuse with garbage")
    before, began_s = running.log_bytes(), time.monotonic()
    abuse.order("garbage")
    time.sleep(load.abuse_s)
    spent_s = time.monotonic() - began_s
    logged = running.log_bytes() - before
    abuse.order("off")
    time.sleep(SETTLE_S)
    return logged / 1e6 / spent_s * 60


def _uses(running: Service) -> dict[str, Use]:
    assert running.daemon is not None
    assert running.api is not None
    pids = {"daemon": running.daemon.pid, "api": running.api.process.pid}
    return {name: use_of(pid, running.wanted.recording) for name, pid in pids.items()}


def _compare(blocks: Sequence[Block], steps: np.ndarray, health: Path) -> dict[str, object]:
    """Quantiles with load, without, and of each pair of blocks the ratio of the p99."""
    found: dict[str, object] = {}
    for name, values in (("step", steps["wall_ns"] / 1e6), ("step, CPU time", steps["cpu_ns"] / 1e6)):
        of = {loaded: _within(blocks, loaded, steps["began_ns"]) for loaded in (False, True)}
        parts = {loaded: values[of[loaded]] for loaded in of}
        found[f"{name}, ms"] = {
            "without": _quantiles(parts[False]),
            "with": _quantiles(parts[True]),
            "ratio of p99": round(float(np.percentile(parts[True], 99) / np.percentile(parts[False], 99)), 3),
            "ratios of the pairs": _ratios(blocks, steps["began_ns"], values),
        }
    return {**found, "health, ms": probed(blocks, health), "cores": cores(blocks)}


def probed(blocks: Sequence[Block], file: Path) -> dict[str, object]:
    """Quantiles of the times that `probing` wrote down, ms, with load and without."""
    lines = [line.split() for line in file.read_text().splitlines() if line.count(" ") == 2]
    asked_ns = np.array([int(line[0]) for line in lines])
    took_ms = np.array([int(line[1]) for line in lines]) / 1e6
    ok = np.array([line[2] == "200" for line in lines])
    return {
        word: {
            **_quantiles(took_ms[_within(blocks, loaded, asked_ns)]),
            "not 200": int((~ok[_within(blocks, loaded, asked_ns)]).sum()),
        }
        for word, loaded in (("without", False), ("with", True))
    }


def cores(blocks: Sequence[Block]) -> dict[str, object]:
    """The processor cores that each process kept busy, with load and without."""
    return {
        word: {
            name: round(
                sum(block.cpu_s[name] for block in blocks if block.loaded == loaded)
                / sum((block.ended_ns - block.began_ns) / 1e9 for block in blocks if block.loaded == loaded),
                3,
            )
            for name in ("daemon", "api", "load")
        }
        for word, loaded in (("without", False), ("with", True))
    }


def _health(file: Path, between_ns: Sequence[int]) -> dict[str, float]:
    lines = [line.split() for line in file.read_text().splitlines() if line.count(" ") == 2]
    inside = [line for line in lines if between_ns[0] <= int(line[0]) < between_ns[1]]
    if not inside:
        return {}
    quantiles = _quantiles(np.array([int(line[1]) for line in inside]) / 1e6)
    return {**quantiles, "not 200": sum(line[2] != "200" for line in inside)}


def _within(blocks: Sequence[Block], loaded: bool, times_ns: np.ndarray) -> np.ndarray:
    inside = np.zeros(times_ns.shape, np.bool_)
    for block in blocks:
        if block.loaded == loaded:
            inside |= block.holds(times_ns)
    return inside


def _ratios(blocks: Sequence[Block], times_ns: np.ndarray, values: np.ndarray) -> list[float]:
    ratios = []
    for one, other in zip(blocks[::2], blocks[1::2], strict=True):
        with_load, without = (one, other) if one.loaded else (other, one)
        high, low = (np.percentile(values[block.holds(times_ns)], 99) for block in (with_load, without))
        ratios.append(round(float(high / low), 3))
    return ratios


def _quantiles(values: np.ndarray) -> dict[str, float]:
    p50, p99 = np.percentile(values, (50, 99))
    return {
        "count": len(values),
        "p50": round(float(p50), 3),
        "p99": round(float(p99), 3),
        "max": round(float(values.max()), 3),
    }


def told_by(seen: dict[str, object]) -> dict[str, object]:
    """The answers that clients got, by status, and the time that they took."""
    took_ms = np.array(seen["took_ms"], np.float64)
    return {"answers": seen["statuses"], "took, ms": _quantiles(took_ms) if took_ms.size else {}}


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[1])}


@contextlib.contextmanager
def timed(into: list[float]) -> Iterator[None]:
    """Add the context's duration, ms."""
    began_s = time.perf_counter()
    yield
    into.append((time.perf_counter() - began_s) * 1e3)
