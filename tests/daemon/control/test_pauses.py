# SPDX-License-Identifier: Apache-2.0
"""The control socket in the daemon's loop: some requests are answered between steps, others within one."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.control_server import handle

from ltp_switcher.daemon.control import server
from ltp_switcher.daemon.control.answers import JsonList, Params, Result
from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.client import (
    Json,
)
from ltp_switcher.daemon.control.server import ControlServer


def test_the_loop_is_told_whether_answers_are_left(tmp_path: Path) -> None:
    """Without requests it may sleep; while a long answer is under way it may not."""
    selector = selectors.SelectSelector()
    server = ControlServer(tmp_path / "control.sock", handle, selector)
    assert server.pump(time.monotonic() + 1.0) is False
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(tmp_path / "control.sock"))
        client.sendall(b'{"id": 1, "method": "long"}\n')
        for _ in range(2):
            for key, _ in selector.select(1.0):
                key.data(key.fd)
        assert server.pump(time.monotonic()) is True
        received = b""
        while not received.endswith(b"\n"):
            server.pump(time.monotonic() + 1.0)
            received += client.recv(1 << 16)
        assert server.pump(time.monotonic() + 1.0) is False
    server.close()
    selector.close()


def test_a_short_answer_and_a_new_client_do_not_wait_for_a_long_list(tmp_path: Path) -> None:
    selector = selectors.SelectSelector()
    answered: list[bool] = []
    with socket.socket(socket.AF_UNIX) as long, socket.socket(socket.AF_UNIX) as short:

        def look(method: str, params: Params, caller: Caller) -> Result:
            if method == "echo":
                return params

            def items() -> Iterator[Json]:
                short.setblocking(False)
                # Small items, so that what waits for its reader does not end the turn.
                for _ in range(100_000):
                    with contextlib.suppress(BlockingIOError):
                        answered.append(b"\n" in short.recv(1000))
                    yield 1

            return JsonList(items())

        served = ControlServer(tmp_path / "control.sock", look, selector)
        for client, method in ((long, "long"), (short, "echo")):
            client.connect(str(tmp_path / "control.sock"))
            client.sendall(b'{"id": 1, "method": "%b"}\n' % method.encode())
        for _ in range(4):
            for key, _ in selector.select(0):
                key.data(key.fd)
        assert served.pump(time.monotonic() + 3600) is True, "nobody else is read while a list is made"
        while not answered and served.pump(time.monotonic() + 3600):
            pass
        assert answered == [True]
        long.close()
        served.close()
    selector.close()


def test_within_a_step_reads_are_answered_and_changes_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "BREATHE_AFTER_S", 0.0)
    selector = selectors.SelectSelector()
    called: list[str] = []

    def note(method: str, params: Params, caller: Caller) -> Result:
        called.append(method)
        return {}

    served = ControlServer(tmp_path / "control.sock", note, selector, reads=frozenset({"look"}))
    with socket.socket(socket.AF_UNIX) as reader, socket.socket(socket.AF_UNIX) as writer:
        for client, method in ((writer, "change"), (reader, "look")):
            client.settimeout(5)
            client.connect(str(tmp_path / "control.sock"))
            client.sendall(b'{"id": 1, "method": "%b"}\n' % method.encode() * 2)
        while called != ["look", "look"]:
            served.breathe()
        # Both of the writer's requests are there, too.
        for _ in range(3):
            served.breathe()
        assert called == ["look", "look"]
        assert reader.recv(1000).count(b"\n") == 2
        # Other callbacks of the loop, such as the kernel's events, belong between steps.
        events, tell = socket.socketpair()
        selector.register(events, selectors.EVENT_READ, lambda _: called.append("event"))
        tell.send(b"x")
        served.breathe()
        assert called == ["look", "look"]
        served.pump(time.monotonic() + 5)
        assert called == ["look", "look", "change", "change"]
        assert writer.recv(1000).count(b"\n") == 2
        selector.unregister(events)
        events.close()
        tell.close()
    served.close()
    selector.close()


def test_a_step_does_not_pause_for_clients_that_have_just_been_served(tmp_path: Path) -> None:
    selector = selectors.SelectSelector()
    served = ControlServer(tmp_path / "control.sock", handle, selector, reads=frozenset({"echo"}))
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(0.2)
        client.connect(str(tmp_path / "control.sock"))
        client.sendall(b'{"id": 1, "method": "echo"}\n')
        served._pumped_s = time.monotonic() + 3600
        served.breathe()
        with pytest.raises(TimeoutError):
            client.recv(1)
    served.close()
    selector.close()
