# SPDX-License-Identifier: Apache-2.0
"""Clients that connect and do not speak."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import uvicorn
from fastapi import FastAPI

from ltp_switcher.api import problems, protocol
from ltp_switcher.api.protocol import server_config

HALF = b"GET /here HTTP/1.1\r\nHost: localhost\r\nX-"
CHUNKED = b"POST /here HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
NO_CHUNK = b"ZZ\r\n"
WHOLE = b"GET /here HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def ports(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Two listeners of one server that waits for headers 1 s, and takes 8 connections each."""
    monkeypatch.setattr(protocol, "HEADERS_S", 1.0)
    monkeypatch.setattr(protocol, "TCP_CONNECTIONS_MAX", 8)
    app = FastAPI()
    app.get("/here")(lambda: {"x": 1})
    problems.install(app)
    server = uvicorn.Server(server_config(app))
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [one, two]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield [one.getsockname()[1], two.getsockname()[1]]
        server.should_exit = True
        thread.join()


def connect(port: int) -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=30)


def everything(client: socket.socket) -> bytes:
    received = b""
    with contextlib.suppress(ConnectionResetError):
        while chunk := client.recv(4096):
            received += chunk
    return received


@pytest.mark.parametrize("sent", [b"", HALF, WHOLE + HALF])
def test_headers_have_a_deadline(ports: list[int], sent: bytes) -> None:
    with connect(ports[0]) as client:
        client.sendall(sent)
        answer = everything(client)
    assert b"HTTP/1.1 408 Request Timeout\r\n" in answer
    assert b"urn:ltp-switcher:problem:request-timeout" in answer
    assert answer.count(b"HTTP/1.1 200") == (WHOLE in sent)


def test_headers_that_trickle_do_not_move_the_deadline(ports: list[int]) -> None:
    with connect(ports[0]) as client:
        with contextlib.suppress(OSError):
            for _ in range(200):
                client.sendall(b"G")
                time.sleep(0.05)
        assert everything(client)[:12] in (b"HTTP/1.1 408", b"")


def test_a_whole_request_is_answered_however_late_the_next_comes(
    ports: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Three requests take longer than one may, and each has two seconds to spare on a busy machine.
    monkeypatch.setattr(protocol, "HEADERS_S", 3.0)
    with connect(ports[0]) as client:
        for _ in range(4):
            client.sendall(WHOLE)
            answer = b""
            # Headers and body come apart now and then.
            while not answer.endswith(b"}"):
                answer += client.recv(4096)
            assert answer.startswith(b"HTTP/1.1 200")
            time.sleep(1.0)


def test_one_listener_full_leaves_the_other(ports: list[int]) -> None:
    with contextlib.ExitStack() as opened:
        half = [opened.enter_context(connect(ports[0])) for _ in range(8)]
        for client in half:
            client.sendall(HALF)
        with connect(ports[0]) as late:
            assert b"HTTP/1.1 503" in everything(late)
        with connect(ports[1]) as other:
            other.sendall(WHOLE)
            assert other.recv(4096).startswith(b"HTTP/1.1 200")
        for client in half:
            assert b"HTTP/1.1 408" in everything(client)
        with connect(ports[0]) as free:
            free.sendall(WHOLE)
            assert free.recv(4096).startswith(b"HTTP/1.1 200")


def errors(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("sent", [CHUNKED + NO_CHUNK, WHOLE + CHUNKED + NO_CHUNK])
def test_a_body_that_is_no_http_gets_one_answer(
    ports: list[int], sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The app, which has the request already, must not answer, too."""
    with connect(ports[0]) as client:
        client.sendall(sent)
        answers = everything(client).split(b"HTTP/1.1 ")[1:]
    assert [answer[:3] for answer in answers] == [b"200"] * (WHOLE in sent) + [b"400"]
    assert errors(caplog) == []


def test_a_body_that_is_no_http_after_the_answer_ends_the_connection(
    ports: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    with connect(ports[0]) as client:
        client.sendall(CHUNKED)
        assert client.recv(4096).startswith(b"HTTP/1.1 405")
        client.sendall(NO_CHUNK)
        assert b"HTTP/1.1" not in everything(client)
    assert errors(caplog) == []
