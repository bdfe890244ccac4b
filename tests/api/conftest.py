# SPDX-License-Identifier: Apache-2.0
"""The API in front of the real daemon, whose kernel alone is a stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.api_client import Ask, asker
from support.api_process import ApiProcess, api_running
from support.fake_kernel import REMOTES, Kernel
from support.records import flow
from support.running_daemon import make_daemon, running

from ltp_switcher.daemon.settings.schema import Config, DaemonSection


@pytest.fixture
def kernel() -> Kernel:
    """Three flows: two IPv4, one IPv6."""
    return Kernel(*(flow(int(cookie), remote, busy=True) for cookie, remote in REMOTES.items()))


@pytest.fixture
def control_folder(tmp_path: Path) -> Path:
    """The folder of the control socket. Where tests share an API process, it outlives the daemon of each."""
    return tmp_path


@pytest.fixture
def control_socket(kernel: Kernel, control_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The control socket of a running daemon."""
    path = control_folder / "control.sock"
    section = DaemonSection(policy="random", control_socket=str(path), state_dir="", mode="advise")
    with running(make_daemon(kernel, Config(daemon=section), monkeypatch)):
        yield path


@pytest.fixture
def ask(control_socket: Path) -> Ask:
    """Sends a request to the API: `ask("GET", "/v1/flows")`."""
    return asker(control_socket)


@pytest.fixture
def api_process(control_socket: Path, tmp_path: Path) -> Iterator[ApiProcess]:
    """The API as a process in front of the running daemon."""
    with api_running(tmp_path, control_socket) as found:
        yield found
