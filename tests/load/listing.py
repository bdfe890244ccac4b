# SPDX-License-Identifier: Apache-2.0
"""Many flows: how long a page of them takes, one of them, and the command line's list."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from load.blocks import Tell, _environment
from load.service import STEP_MS, Service, Wanted, service, use_of
from load.stream import FIRST_COOKIE

SETTLE_S = 5.0


def measure(wanted: Wanted, repeats: int, tell: Tell) -> dict[str, object]:
    """Milliseconds of each."""
    with service(wanted) as running:
        time.sleep(SETTLE_S)
        found: dict[str, object] = {}
        with running.client() as client:

            def get(path: str) -> None:
                answer = client.get(path)
                assert answer.status_code == 200, answer.text

            for name, path, count in (
                ("one page of 1", "/v1/flows?limit=1", repeats),
                ("one page of 100", "/v1/flows?limit=100", repeats),
                ("one page of 100 by goodput", "/v1/flows?limit=100&order=goodput", repeats),
                ("one flow", f"/v1/flows/{FIRST_COOKIE + 7}", repeats),
                ("one page of 1,000", "/v1/flows?limit=1000", max(repeats // 10, 3)),
                ("/health", "/health", repeats),
            ):
                tell(name)
                found[name] = _times(lambda path=path: get(path), count)
            tell("eight lists at once")
            found["/health while 8 clients list pages of 1,000"] = _busy_health(running, repeats)
        command = [
            sys.executable,
            "-m",
            "ltp_switcher.daemon.cli",
            "flows",
            "--socket",
            str(running.control_path),
        ]
        for name, more in (("ltp-switcher flows", []), ("ltp-switcher flows --json", ["--json"])):
            tell(name)
            found[name] = _times(lambda more=more: _run([*command, *more]), max(repeats // 10, 3))
        assert running.daemon is not None
        assert running.api is not None
        memory = {
            name: round(use_of(pid, wanted.recording).peak_mb, 1)
            for name, pid in (("daemon", running.daemon.pid), ("api", running.api.process.pid))
        }
        status = running.client().get("/v1/status").json()
    waits = waits_ms(
        np.fromfile(running.steps.with_name("stretches"), np.int64), status["steps"] * STEP_MS[wanted.policy]
    )
    return {
        "ms": found,
        "wait for the daemon's turn, ms of processor time": waits,
        "memory, MB at most": memory,
        "step p99, ms": status["step_p99_ms"],
    }


def waits_ms(stretches_ns: np.ndarray, all_ms: float) -> dict[str, float]:
    """Quantiles of the wait for a turn, of who comes at any time of `all_ms`, shape (stretches,)."""
    stretches_ms = stretches_ns / 1e6

    def quantile(share: float) -> float:
        low, high = 0.0, float(stretches_ms.max())
        for _ in range(40):
            middle = (low + high) / 2
            longer = np.maximum(stretches_ms - middle, 0.0).sum() / all_ms
            low, high = (middle, high) if longer > 1 - share else (low, middle)
        return round(high, 2)

    return {"p50": quantile(0.5), "p90": quantile(0.9), "p99": quantile(0.99)}


def _busy_health(running: Service, repeats: int) -> dict[str, float]:
    with ThreadPoolExecutor(8) as pool, running.client() as client:
        stop: list[bool] = []

        def list_all() -> None:
            with running.client() as lister:
                while not stop:
                    lister.get("/v1/flows?limit=1000")

        for _ in range(8):
            pool.submit(list_all)
        time.sleep(1)
        failed: list[int] = []

        def health() -> None:
            if client.get("/health").status_code != 200:
                failed.append(1)

        times = _times(health, repeats)
        stop.append(True)
    return {**times, "not 200": len(failed)}


def _times(call: Callable[[], None], count: int) -> dict[str, float]:
    took_ms = []
    rng = random.Random(count)
    for _ in range(count):
        # Anywhere in the daemon's steps. One request right after the other would find the gap between two.
        time.sleep(rng.uniform(0, 0.1))
        began_s = time.perf_counter()
        call()
        took_ms.append((time.perf_counter() - began_s) * 1e3)
    p50, p99 = np.percentile(took_ms, (50, 99))
    return {"p50": round(float(p50), 1), "p99": round(float(p99), 1), "max": round(max(took_ms), 1)}


def _run(command: list[str]) -> None:
    subprocess.run(command, env=_environment(), stdout=subprocess.DEVNULL, check=True)
