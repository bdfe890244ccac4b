# SPDX-License-Identifier: Apache-2.0
"""Daemon and API as processes behind sockets that outlive them, restarted while clients ask."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.api_process import ApiProcess, api_running
from support.daemon_process import PATIENCE_S, daemon_command, service_running
from support.steady_clients import SteadyClients

CLIENTS = 4
BACKLOG = 512


@contextlib.contextmanager
def listening(path: Path) -> Iterator[socket.socket]:
    """What a socket unit holds."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(BACKLOG)
        yield listener


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[socket.socket]:
    with listening(tmp_path_factory.mktemp("restart") / "control.sock") as listener:
        yield listener


@pytest.fixture(scope="module")
def api(control: socket.socket) -> Iterator[ApiProcess]:
    """The API of the tests in which only the daemon restarts."""
    path = Path(control.getsockname())
    with api_running(path.parent, path, patient=True) as found:
        yield found


@pytest.fixture
def start_daemon(
    tmp_path: Path, control: socket.socket
) -> Callable[[], contextlib.AbstractContextManager[subprocess.Popen[bytes]]]:
    """Starts the daemon on the control socket, with its state in a folder and its log in a file."""
    command = daemon_command(
        "--socket", control.getsockname(), "--state-dir", tmp_path / "state", "--policy", "mutant",
    )  # fmt: skip

    def start() -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
        return service_running(command, tmp_path, listener=control, log=tmp_path / "log")

    return start


Start = Callable[[], contextlib.AbstractContextManager[subprocess.Popen[bytes]]]


def test_a_restart_of_the_daemon_refuses_no_request_and_loses_no_choice(
    api: ApiProcess, start_daemon: Start, control: socket.socket, tmp_path: Path
) -> None:
    with contextlib.ExitStack() as running:
        with start_daemon(), api.client() as client:
            assert client.put("/v1/k", json={"k": 2}).status_code == 200
            assert client.put("/v1/flows/815/pin", json={"arm": "bbr"}).status_code == 200
            load = running.enter_context(SteadyClients(api.socket, CLIENTS))
            load.wait_for(50)
        for _ in range(2):
            with start_daemon():
                load.wait_for(50)
        with start_daemon(), api.client() as client:
            load.wait_for(50)
            found = (client.get("/v1/k").json(), client.get("/v1/mode").json())
            assert found == ({"k": 2}, {"mode": "off"})
            assert client.get("/v1/flows/815").json()["pinned"] is True
            load.stop()
    assert set(load.answers) == {200}
    assert (tmp_path / "log").read_text().count("restored the learned state") == 3
    assert Path(control.getsockname()).exists(), "the socket is not the daemon's"


def test_a_daemon_that_was_killed_has_lost_no_choice_that_was_answered(
    api: ApiProcess, start_daemon: Start
) -> None:
    with start_daemon() as daemon, api.client() as client:
        assert client.put("/v1/k", json={"k": 2}).status_code == 200
        daemon.kill()
        daemon.wait()
        with start_daemon():
            assert client.get("/v1/k").json() == {"k": 2}


def test_a_restart_of_the_api_refuses_no_request(
    start_daemon: Start, control: socket.socket, tmp_path: Path
) -> None:
    (tmp_path / "api").mkdir()
    with (
        start_daemon(),
        listening(tmp_path / "api.sock") as listener,
        contextlib.ExitStack() as running,
    ):
        for turn in range(4):
            with api_running(
                tmp_path / "api", Path(control.getsockname()), listener=listener, patient=True
            ) as own:
                if not turn:
                    load = running.enter_context(SteadyClients(own.socket, CLIENTS))
                load.wait_for(50)
                if turn == 3:
                    load.stop()
        assert set(load.answers) == {200}


def test_nobody_takes_the_place_of_a_service_that_is_down(
    start_daemon: Start, tmp_path: Path, control: socket.socket
) -> None:
    with start_daemon():
        pass
    with socket.socket(socket.AF_UNIX) as squatter, pytest.raises(OSError, match="in use"):
        squatter.bind(control.getsockname())
    with socket.socket(socket.AF_UNIX) as early:
        early.settimeout(PATIENCE_S)
        early.connect(control.getsockname())
        early.sendall(b'{"id": 1, "method": "mode.get"}\n')
        with start_daemon():
            assert b'"advise"' in early.recv(4096)


def test_a_socket_meant_for_another_process_is_left_alone() -> None:
    from ltp_switcher.daemon.service.systemd import inherited

    environment = {"LISTEN_PID": str(os.getpid() + 1), "LISTEN_FDS": "1", "LISTEN_FDNAMES": "x", "PATH": "/"}
    assert inherited(environment) == []
    assert environment == {"PATH": "/"}
