# SPDX-License-Identifier: Apache-2.0
"""The API in front of the real daemon, whose kernel alone is a stand-in."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.api_client import Ask, asker
from support.fake_kernel import REMOTES, Kernel
from support.records import flow

from ltp_switcher.daemon.service import daemon as run
from ltp_switcher.daemon.settings.schema import Config, DaemonSection


@pytest.fixture
def kernel() -> Kernel:
    """Three flows: two IPv4, one IPv6."""
    return Kernel(*(flow(int(cookie), remote, busy=True) for cookie, remote in REMOTES.items()))


@pytest.fixture
def control_socket(kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The control socket of a running daemon."""
    path = tmp_path / "control.sock"
    monkeypatch.setattr(run, "Datapath", lambda: kernel)
    section = DaemonSection(policy="random", control_socket=str(path), state_dir="", mode="advise")
    config = Config(daemon=section)
    daemon = run.Daemon(config, lambda: config)
    # Not `run`: signals are for the main thread.
    thread = threading.Thread(target=daemon._loop.run)
    thread.start()
    while not daemon.engine.statistics.steps:
        time.sleep(0.001)
    yield path
    daemon._loop.stop()
    thread.join()
    daemon._server.close()
    daemon.datapath.close()


@pytest.fixture
def ask(control_socket: Path) -> Ask:
    """Sends a request to the API: `ask("GET", "/v1/flows")`."""
    return asker(control_socket)
