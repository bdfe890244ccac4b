# SPDX-License-Identifier: Apache-2.0
"""Clients that crowd the control socket, or do not read, keep nobody from it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.control_server import API_UID, serving

from ltp_switcher.daemon.control import server
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.client import (
    ControlClient,
    ControlUnavailableError,
)


def test_a_reader_that_does_not_read_holds_up_nobody(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as deaf, ControlClient(path) as client:
        deaf.connect(str(path))
        deaf.sendall(b'{"id":1,"method":"long"}\n' * 20)
        for _ in range(20):
            assert client.call("echo") == {}


@pytest.mark.parametrize("method", ["long", "echo"])
def test_a_client_that_never_reads_is_not_read_from(path: Path, method: str) -> None:
    request = b'{"id":1,"method":"%b","params":{"x":"%b"}}\n' % (method.encode(), b"x" * 50)
    with socket.socket(socket.AF_UNIX) as deaf, ControlClient(path) as client:
        deaf.connect(str(path))
        deaf.settimeout(1)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 64 << 20:
                sent += deaf.send(request * 1000)
        assert sent < 8 << 20
        assert client.call("echo") == {}
        deaf.setblocking(True)
        with deaf.makefile("rb") as answers:
            for _ in range(3):
                assert json.loads(answers.readline())["id"] == 1


def test_a_short_answer_does_not_wait_for_a_list(path: Path) -> None:
    """The list is made as long as its reader reads."""
    with ControlClient(path) as client, socket.socket(socket.AF_UNIX) as other:
        other.connect(str(path))
        other.sendall(b'{"id":1,"method":"endless"}\n')
        stop = threading.Event()

        def read() -> None:
            while not stop.is_set():
                other.recv(1 << 20)

        reader = threading.Thread(target=read)
        reader.start()
        for i in range(5):
            assert client.call("echo", number=i) == {"number": i}
        stop.set()
        reader.join()


def test_an_idle_client_is_hung_up_on_and_comes_back(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "IDLE_S", 0.2)
    with socket.socket(socket.AF_UNIX) as idle, ControlClient(path) as client:
        idle.settimeout(30)
        idle.connect(str(path))
        assert client.call("echo") == {}
        assert idle.recv(1) == b""
        time.sleep(0.3)
        assert client.call("echo") == {}


def test_root_and_the_api_get_in_where_others_have_every_place(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = 1000
    monkeypatch.setattr(server, "_credentials", lambda _: Caller(user, 1))
    with contextlib.ExitStack() as opened:

        def come() -> str:
            return str(opened.enter_context(ControlClient(path)).call("caller"))

        for _ in range(server.CLIENTS_MAX):
            # No user has more than its share.
            user += 1
            come()
        with pytest.raises(ControlUnavailableError, match="64 clients are connected"):
            come()
        for user in (0, API_UID):
            assert come() == f"uid {user}, pid 1"


def test_one_user_leaves_places_for_others(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    user = 1000
    monkeypatch.setattr(server, "_credentials", lambda _: Caller(user, 1))
    with contextlib.ExitStack() as opened:
        crowd = [opened.enter_context(ControlClient(path)) for _ in range(server.CLIENTS_MAX)]
        for client in crowd[:32]:
            client.call("echo")
        with pytest.raises(ControlUnavailableError, match="uid 1000 has 32 connections"):
            crowd[32].call("echo")
        user = 1001
        assert opened.enter_context(ControlClient(path)).call("caller") == "uid 1001, pid 1"
        # Who leaves makes room.
        user = 1000
        crowd[0].close()
        late = opened.enter_context(ControlClient(path))
        until_s = time.monotonic() + 5
        while time.monotonic() < until_s:
            with contextlib.suppress(ControlUnavailableError):
                assert late.call("caller") == "uid 1000, pid 1"
                break
        else:
            pytest.fail("no place became free")


@pytest.mark.skipif(os.getuid() != 0, reason="needs root, to become other users")
def test_the_users_are_those_that_the_kernel_knows() -> None:
    """100 connections of one user leave a place for another. Both are real users."""
    crowd = "held = [connect() for _ in range(100)]; print(flush=True); sys.stdin.read()"
    other = 'one = connect(); one.sendall(b\'{"id":1,"method":"caller"}\\n\'); print(one.recv(9999).decode())'
    with TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        with serving(folder / "control.sock") as place:
            place.chmod(0o666)
            with as_user(65534, crowd, place) as held, as_user(65533, other, place) as asks:
                assert asks.stdout is not None
                answer = asks.stdout.readline()
                asks.communicate(b"", timeout=30)
                held.communicate(b"", timeout=30)
    assert json.loads(answer)["result"] == f"uid 65533, pid {asks.pid}"


@contextlib.contextmanager
def as_user(uid: int, code: str, place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process of another user, once its code has printed a first line or ended."""
    head = (
        "import socket, sys\n"
        "def connect():\n"
        "    one = socket.socket(socket.AF_UNIX); one.connect(sys.argv[1]); one.settimeout(20); return one\n"
    )
    command = ["/usr/bin/python3", "-I", "-c", head + code, place]
    with subprocess.Popen(
        command, user=uid, group=uid, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.peek()  # type: ignore[attr-defined]
        yield process
