# SPDX-License-Identifier: Apache-2.0
"""The API in front of the real daemon, whose kernel alone is a stand-in."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import fake_kernel as stand_in
from support.api_client import Ask, asker

from ltp_switcher.daemon.service import daemon as run
from ltp_switcher.daemon.settings.schema import Config, DaemonSection


@pytest.fixture
def kernel() -> stand_in.Kernel:
    """Three flows: two IPv4, one IPv6."""
    return stand_in.Kernel(
        *(stand_in.flow(int(cookie), remote) for cookie, remote in stand_in.REMOTES.items())
    )


@pytest.fixture
def control_socket(
    kernel: stand_in.Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
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
