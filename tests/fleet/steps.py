# SPDX-License-Identifier: Apache-2.0
"""The daemon's step with the service asking, and the store away, over the step without any of it.

One daemon with made flows learns from a stream of outcomes. Each round has three short turns in an order by
lot, one of them with the service. Processor time is measured, so that the machine's other work counts for
little. One turn without the service over the other one shows the size of chance.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import threading
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from pathlib import Path
from unittest import mock

import numpy as np
from support.live_kernel import LiveKernel
from support.records import NETNS
from support.running_daemon import close, layers_of
from support.told import outcome

from ltp_switcher.arrays import Floats
from ltp_switcher.daemon.control.client import ControlClient
from ltp_switcher.daemon.fleet.exchange import Exchange, pause_s
from ltp_switcher.daemon.fleet.store import Store
from ltp_switcher.daemon.service import daemon as service
from ltp_switcher.daemon.settings.fleet import FleetSection
from ltp_switcher.daemon.settings.schema import Config, DaemonSection, VisitsSection

PREFIXES = 200
TURN_S = 2.0
"""Least time of a turn, longer than the longest pause between two exchanges."""
STEPS = 150
"""Least steps of a turn. On a busy machine a turn takes longer."""


def steps(folder: Path, rounds: int = 45) -> dict[str, object]:
    """Measure the steps of short turns, one in three with the service."""
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
        order = np.random.default_rng(1).permuted(np.tile(np.arange(3), (rounds, 1)), axis=1).ravel()
        parts: list[list[float]] = []
        with _sharing(socket) as shares:
            for turn, is_on in enumerate(order == 1):
                kernel.told = _outcomes(turn)
                (shares.set if is_on else shares.clear)()
                took.clear()
                time.sleep(TURN_S)
                while len(took) < STEPS:
                    time.sleep(0.1)
                parts.append([*took])
        daemon._loop.stop()
        thread.join()
        daemon.engine.close()
        close(daemon)
    found: dict[str, object] = {
        "what": f"step with the service of {PREFIXES} prefixes and the store away, over without; 10 flows: "
        f"the median of the ratios of {rounds} rounds, and its interval of 95 %",
        "target": "p99 <= 1.02",
    }
    for name, share in (("p99", 99), ("median", 50)):
        of = np.empty((rounds, 3))
        of[np.repeat(np.arange(rounds), 3), order] = [np.percentile(part, share) for part in parts]
        found[f"{name} ratio, on over off"] = _middle(of[:, 1] / of[:, 0])
        found[f"{name} ratio, off over off"] = _middle(of[:, 2] / of[:, 0])
        found[f"{name} off, on, ms"] = (np.median(of[:, :2], axis=0) * 1e3).round(3).tolist()
    return {**found, "steps": sum(map(len, parts))}


def _middle(ratios: Floats) -> list[float]:
    drawn = np.random.default_rng(0).integers(0, ratios.size, (10_000, ratios.size))
    ends = np.percentile(np.median(ratios[drawn], axis=1), (2.5, 97.5))
    return [round(float(value), 3) for value in (np.median(ratios), *ends)]


@contextlib.contextmanager
def _sharing(socket: Path) -> Iterator[Event]:
    """A process with the service's exchanges, and no store there, while the event is set."""
    context = multiprocessing.get_context("spawn")
    shares = context.Event()
    worker = context.Process(target=_share, args=(str(socket), shares))
    worker.start()
    time.sleep(TURN_S)
    try:
        yield shares
    finally:
        worker.terminate()
        worker.join()


def _share(socket: str, shares: Event) -> None:
    settings = FleetSection(store=("/nowhere/store.sock",))
    with ControlClient(socket) as daemon:
        exchange = Exchange(settings, "host", daemon, Store(settings))
        chances = np.random.default_rng()
        while True:
            shares.wait()
            exchange.run(time.time())
            # As often as with a store that answers.
            time.sleep(pause_s(settings.period_s, 0, chances.random()))


def _outcomes(turn: int) -> np.ndarray:
    """A flow to each prefix that has ended."""
    made = [
        outcome(f"10.0.{number}.9", visit=turn + 1, cookie=10_000 + 1000 * turn + number, netns=NETNS,
                time_ns=time.monotonic_ns(), generation=2 << 5 | 1 << 10, weight=10 if number % 2 else 90,
                weights=100, arm=2)
        for number in range(PREFIXES)
    ]  # fmt: skip
    return np.concatenate(made)
