# SPDX-License-Identifier: Apache-2.0
"""The program `ltp-switcher-api` as a process: its sockets, its start and its end."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from support.api_process import ApiProcess

from ltp_switcher.api.problems import MEDIA_TYPE, URN

PROGRAM = [sys.executable, "-m", "ltp_switcher.api.main"]
PATIENCE_S = 60
PACKAGE = "ltp_switcher"


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    """The socket on which a service manager is told of the service's state."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify.sock"))
        listener.settimeout(PATIENCE_S)
        yield listener


@pytest.fixture
def port() -> int:
    """A TCP port that nobody has."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


@pytest.fixture
def server(
    control_socket: Path, tmp_path: Path, manager: socket.socket, port: int
) -> Iterator[subprocess.Popen[str]]:
    """The program, ready, on `api.sock` and the TCP port."""
    config = tmp_path / "config.toml"
    config.write_text(
        f'[daemon]\ncontrol_socket = "{control_socket}"\n[api]\nsocket = "{tmp_path}/api.sock"\n'
        f'tcp = "127.0.0.1:{port}"\n'
    )
    environment = {**os.environ, "NOTIFY_SOCKET": str(manager.getsockname())}
    with subprocess.Popen(
        [*PROGRAM, "--config", str(config)], env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        assert manager.recv(4096) == b"READY=1"
        yield process
        process.kill()


def client(tmp_path: Path) -> httpx.Client:
    return httpx.Client(
        transport=httpx.HTTPTransport(uds=str(tmp_path / "api.sock")),
        base_url="http://localhost",
        timeout=PATIENCE_S,
    )


def test_life(server: subprocess.Popen[str], tmp_path: Path, manager: socket.socket, port: int) -> None:
    path = tmp_path / "api.sock"
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    with client(tmp_path) as api:
        assert api.get("/v1/flows").json()["total"] == 3
        assert api.put("/v1/mode", json={"mode": "off"}).json()["mode"] == "off"
        answer = api.get("/nowhere")
        assert (answer.status_code, answer.headers["content-type"]) == (404, MEDIA_TYPE)
        assert "server" not in answer.headers

        assert httpx.get(f"http://127.0.0.1:{port}/health").json()["mode"] == "off"

        server.send_signal(signal.SIGTERM)
        assert manager.recv(4096) == b"STOPPING=1"
    assert server.wait(PATIENCE_S) == 0
    assert not path.exists()


@pytest.mark.parametrize("request_line", [b"GIBBERISH\r\n\r\n", b"GET / HTTP/1.1\r\nHost\r\n\r\n"])
def test_what_is_no_http(server: subprocess.Popen[str], tmp_path: Path, request_line: bytes) -> None:
    with socket.socket(socket.AF_UNIX) as raw:
        raw.settimeout(PATIENCE_S)
        raw.connect(str(tmp_path / "api.sock"))
        raw.sendall(request_line)
        answer = b""
        while chunk := raw.recv(4096):
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert MEDIA_TYPE.encode() in answer
    assert URN.encode() + b"malformed-request" in answer


def test_outlives_the_daemon(server: subprocess.Popen[str], tmp_path: Path, control_socket: Path) -> None:
    control_socket.rename(control_socket.with_suffix(".gone"))
    with client(tmp_path) as api:
        assert api.get("/health").status_code == 503
        control_socket.with_suffix(".gone").rename(control_socket)
        assert api.get("/health").status_code == 200


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tcp", "0.0.0.0:80"], "api.tcp: '0.0.0.0:80' is not valid; allowed: a loopback address"),
        (["--socket", "/nowhere/api.sock"], "cannot listen on /nowhere/api.sock: No such file or directory"),
        (["--config", "/nowhere.toml"], "config: '/nowhere.toml' is not valid"),
    ],
)
def test_cannot_start(tmp_path: Path, arguments: list[str], message: str) -> None:
    socket_option = [] if "--socket" in arguments else ["--socket", str(tmp_path / "api.sock")]
    done = subprocess.run([*PROGRAM, *socket_option, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("ltp-switcher-api: " + message)
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_second_server_is_refused(server: subprocess.Popen[str], tmp_path: Path) -> None:
    done = subprocess.run(
        [*PROGRAM, "--socket", str(tmp_path / "api.sock")], capture_output=True, text=True, check=False
    )
    assert (done.returncode, "another process listens there" in done.stderr) == (1, True)


def test_the_daemon_hears_who_asked_the_api(api_process: ApiProcess) -> None:
    with api_process.client() as client:
        assert client.put("/v1/k", json={"k": 2}).status_code == 200
        (change,) = client.get("/v1/changes").json()["changes"]
    assert change["caller"] == {
        "uid": os.getuid(),
        "pid": os.getpid(),
        "token": None,
        "via": {"uid": os.getuid(), "pid": api_process.process.pid, "token": None, "via": None},
    }


def test_a_connection_that_has_just_been_made_is_served_before_the_end(
    server: subprocess.Popen[str], tmp_path: Path, manager: socket.socket
) -> None:
    with socket.socket(socket.AF_UNIX) as early, client(tmp_path) as api:
        early.settimeout(PATIENCE_S)
        early.connect(str(tmp_path / "api.sock"))
        # The server has taken the earlier connection, too, when it answers this one.
        assert api.get("/v1/mode").status_code == 200
        server.send_signal(signal.SIGTERM)
        assert manager.recv(4096) == b"STOPPING=1"
        early.sendall(b"GET /v1/mode HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        while chunk := early.recv(4096):
            answer += chunk
    assert answer.startswith(b"HTTP/1.1 200"), answer


@pytest.mark.parametrize(
    ("module", "rooms"),
    [
        # The report reads the log of decisions, whose rows have the types of the datapath.
        ("api.main", {"control", "datapath", "gain", "service", "settings"}),
        ("api.choices", {"control"}),
        ("api.network_agent.main", {"control", "service"}),
    ],
)
def test_api_loads_no_part_of_the_decision_loop(module: str, rooms: set[str]) -> None:
    script = f"import sys, {PACKAGE}.{module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    parts = [name.split(".") for name in loaded.stdout.split()]
    assert {name[2] for name in parts if name[:2] == [PACKAGE, "daemon"] and len(name) > 2} == rooms
    arms = [name for name in parts if name[:2] == [PACKAGE, "policies"] and name[-1] == "arm"]
    assert not arms, "the settings know the settings of the learned arms, and need no arm"
