# SPDX-License-Identifier: Apache-2.0
"""The daemon's step with the service asking, and the store away, over the step without any of it.

One daemon with made flows learns from a stream of outcomes. Off and on take turns, and processor time is
measured, so that the machine's other work counts for little.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
from support.live_kernel import LiveKernel
from support.records import NETNS
from support.running_daemon import close, layers_of
from support.told import outcome

from ltp_switcher.daemon.control.client import ControlClient
from ltp_switcher.daemon.fleet.exchange import Exchange
from ltp_switcher.daemon.fleet.pauses import pause_s
from ltp_switcher.daemon.fleet.store import Store
from ltp_switcher.daemon.service import daemon as service
from ltp_switcher.daemon.settings.fleet import FleetSection
from ltp_switcher.daemon.settings.schema import Config, DaemonSection
from ltp_switcher.daemon.settings.visits import VisitsSection

PREFIXES = 200
PART_S = 6.0


def steps(folder: Path, turns: int = 4) -> dict[str, object]:
    """Measure the steps in parts of some seconds, on and off in turn."""
    socket = folder / "control.sock"
    section = DaemonSection(mode="active", state_dir=str(folder), control_socket=str(socket), step_ms=10.0)
    config = Config(daemon=section, visits=VisitsSection("on"))
    kernel = LiveKernel()
    with (
        mock.patch("ltp_switcher.daemon.datapath.netlink.own_namespace", return_value=NETNS),
        mock.patch.object(service, "Datapath", return_value=kernel),
        mock.patch.object(service, "limit_bytes", return_value=None),
    ):
        daemon = service.Daemon(layers_of(config), lambda: layers_of(config))
        took: list[float] = []
        step = daemon.engine.step

        def timed() -> None:
            began_s = time.thread_time()
            step()
            took.append(time.thread_time() - began_s)

        daemon.engine.step = timed  # type: ignore[method-assign]
        thread = threading.Thread(target=daemon._loop.run)
        thread.start()
        found: dict[bool, list[float]] = {False: [], True: []}
        for turn in range(2 * turns):
            is_on = turn % 2 == 1
            kernel.told = _outcomes(turn)
            with _sharing(socket) if is_on else contextlib.nullcontext():
                took.clear()
                time.sleep(PART_S)
                found[is_on] += took
        daemon._loop.stop()
        thread.join()
        daemon.engine.close()
        close(daemon)
    off, on = (np.array(found[is_on]) * 1e3 for is_on in (False, True))
    return {
        "what": f"step with the service of {PREFIXES} prefixes and the store away, over without; 10 flows",
        "target": "p99 <= 1.02",
        "p99 ratio": round(float(np.percentile(on, 99) / np.percentile(off, 99)), 3),
        "median ratio": round(float(np.median(on) / np.median(off)), 3),
        "p99 off, on, ms": [round(float(np.percentile(part, 99)), 3) for part in (off, on)],
        "steps off, on": [off.size, on.size],
    }


@contextlib.contextmanager
def _sharing(socket: Path) -> Iterator[None]:
    """Exchanges as the service makes them, in a process of its own, with no store there."""
    import multiprocessing

    worker = multiprocessing.get_context("spawn").Process(target=_share, args=(str(socket),))
    worker.start()
    time.sleep(2.0)
    try:
        yield
    finally:
        worker.terminate()
        worker.join()


def _share(socket: str) -> None:
    settings = FleetSection(store=("/nowhere/store.sock",))
    with ControlClient(socket) as daemon:
        exchange = Exchange(settings, "host", daemon, Store(settings))
        chances = np.random.default_rng()
        while True:
            exchange.run(time.time())
            # As often as with a store that answers.
            time.sleep(pause_s(settings.period_s, 0, chances.random()))


def _outcomes(turn: int) -> np.ndarray:
    """A flow to each prefix that has ended."""
    made = [
        outcome(f"10.0.{number}.9", visit=turn + 1, cookie=10_000 + 1000 * turn + number, netns=NETNS,
                time_ns=time.monotonic_ns(), generation=2 << 5 | 1 << 10, weight=10 if turn % 2 else 90,
                weights=100, arm=2)
        for number in range(PREFIXES)
    ]  # fmt: skip
    return np.concatenate(made)
