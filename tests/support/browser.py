# SPDX-License-Identifier: Apache-2.0
"""The dashboard in Debian's Chromium: the real daemon and API, whose kernel alone is a stand-in."""

from __future__ import annotations

import contextlib
import shutil
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from ltp_switcher.daemon.gain.log import FOLDER, DecisionWriter
from ltp_switcher.daemon.service.daemon import Daemon
from ltp_switcher.daemon.settings.fleet import FleetSection
from ltp_switcher.daemon.settings.gain import GainSection
from ltp_switcher.daemon.settings.schema import Config, DaemonSection, VisitsSection
from ltp_switcher.eval.gain.simulated_log import NAMES, Effects, switchback
from support.api_process import ApiProcess, api_running
from support.live_kernel import PATHS, LiveKernel
from support.live_kernel import Path as PathOf
from support.running_daemon import make_daemon, running

FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """Debian's browser, without a window."""
    program = shutil.which("chromium")
    if program is None:
        raise RuntimeError("chromium is missing; .ci/install-packages installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=[*FLAGS])
        try:
            yield browser
        finally:
            browser.close()


@dataclass(frozen=True)
class Site:
    """The dashboard's address where changes are allowed, and the daemon and API behind it."""

    url: str
    api: ApiProcess
    daemon: Daemon
    kernel: LiveKernel


@contextlib.contextmanager
def site(
    folder: Path,
    *,
    mode: str = "active",
    policy: str = "rule",
    paths: tuple[PathOf, ...] = PATHS,
    fleet: FleetSection | None = None,
) -> Iterator[Site]:
    """Serve a dashboard of flows that move, and of an experiment of the last two days.

    `fleet`: the daemon learns from flow to flow, with these settings of the exchange between hosts.
    """
    state = folder / "state"
    state.mkdir()
    log_experiment(state / FOLDER)
    section = DaemonSection(policy=policy, control_socket=str(folder / "c"), state_dir=str(state), mode=mode)
    kernel = LiveKernel(paths)
    with pytest.MonkeyPatch.context() as patch:
        config = Config(
            daemon=section, gain=GainSection(log_mb=0), fleet=fleet or FleetSection(),
            visits=VisitsSection("on" if fleet else "off"),
        )  # fmt: skip
        daemon = make_daemon(kernel, config, patch)
    with running(daemon), api_running(folder, folder / "c", tcp=True) as api, forward(api.socket) as port:
        yield Site(f"http://127.0.0.1:{port}/", api, daemon, kernel)


def log_experiment(folder: Path) -> None:
    """Log a simulated switchback: 8 % more goodput, 15 % less RTT."""
    rows = switchback(1, 288, 12, Effects(goodput=0.08, rtt=-0.15))
    rows["time_s"] += time.time() - rows["time_s"].max()
    writer = DecisionWriter(folder, 100_000_000, NAMES)
    writer.append(rows)
    writer.close()


@contextlib.contextmanager
def forward(path: Path) -> Iterator[int]:
    """A TCP port of the loopback that leads to a UNIX socket, as `ssh -L port:path` makes one."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, path), daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, path: Path) -> None:
    with contextlib.suppress(OSError):
        while True:
            near, _ = listener.accept()
            threading.Thread(target=_join, args=(near, path), daemon=True).start()


def _join(near: socket.socket, path: Path) -> None:
    """Pass on both ways, until one side ends."""
    with near, socket.socket(socket.AF_UNIX) as far, contextlib.suppress(OSError):
        far.connect(str(path))
        back = threading.Thread(target=_pass, args=(far, near), daemon=True)
        back.start()
        _pass(near, far)
        back.join()


def _pass(one: socket.socket, other: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := one.recv(1 << 16):
            other.sendall(data)
    for end in (one, other):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
