# SPDX-License-Identifier: Apache-2.0
"""Bytes to a socket and back. h11, the parser of the API's own server, says which requests they are."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

import h11

PATIENCE_S: Final = 60.0
GLANCE_S: Final = 0.001
"""Time for an answer to a request that is not whole. None has to come."""
EVENTS: Final = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that a server finds in the bytes. `method` is "" where they are no HTTP."""

    method: str
    path: str
    whole: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer. Of a stream of events, the body is what came first."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def last(self) -> bool:
        """Whether the server hangs up after it, or it has no end."""
        return self.headers.get("connection", "").lower() == "close" or self.media_type == EVENTS

    @property
    def media_type(self) -> str:
        """The content type without its parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip()


def requests_in(data: bytes) -> list[Asked]:
    """The requests that a server finds, up to the end of the first that is no HTTP or has no end."""
    server = h11.Connection(h11.SERVER)
    server.receive_data(data)
    found: list[Asked] = []
    under_way: Asked | None = None
    while True:
        try:
            event = server.next_event()
        except h11.RemoteProtocolError:
            # In the middle of a body, the answer may have come before the server sees the fault.
            return [*found, Asked(under_way.method if under_way else "", "", whole=under_way is None)]
        if event is h11.NEED_DATA or event is h11.PAUSED or isinstance(event, h11.ConnectionClosed):
            return [*found, under_way] if under_way is not None else found
        if isinstance(event, h11.Request):
            path = unquote(event.target.partition(b"?")[0].decode())
            under_way = Asked(event.method.decode(), path, whole=False)
        elif isinstance(event, h11.EndOfMessage) and under_way is not None:
            found.append(Asked(under_way.method, under_way.path, whole=True))
            under_way = None
            server.send(h11.Response(status_code=400, headers=[("content-length", "0")]))
            server.send(h11.EndOfMessage())
            if server.our_state is not h11.DONE or server.their_state is not h11.DONE:
                return found
            server.start_next_cycle()


def exchange(connection: socket.socket, parts: Sequence[bytes], asked: Sequence[Asked]) -> list[Answer]:
    """Send the parts; return the answers up to the one with which the server hangs up.

    Raises `TimeoutError` where no answer comes, `h11.RemoteProtocolError` where it is no HTTP.
    """
    connection.settimeout(PATIENCE_S)
    for part in parts:
        # A server that hangs up may have said why before.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            connection.sendall(part)
    reader = _Reader(connection)
    answers: list[Answer] = []
    for request in asked:
        if not request.whole:
            connection.settimeout(GLANCE_S)
        try:
            answer = reader.answer(request.method or "GET")
        except TimeoutError:
            if request.whole:
                raise
            break
        if answer is None:
            break
        answers.append(answer)
        if answer.last:
            break
    return answers


class _Reader:
    """Reads answers one after the other."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._client = h11.Connection(h11.CLIENT)
        self._begun = False

    def answer(self, method: str) -> Answer | None:
        """The answer to a request with this method; None where the server has hung up."""
        if self._begun:
            self._client.start_next_cycle()
        self._begun = True
        self._client.send(h11.Request(method=method, target="/", headers=[("host", "x")]))
        self._client.send(h11.EndOfMessage())
        head: h11.Response | None = None
        body = b""
        while True:
            event = self._client.next_event()
            if event is h11.NEED_DATA:
                self._client.receive_data(self._receive())
            elif isinstance(event, h11.ConnectionClosed):
                return None
            elif isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            if head is not None:
                headers = {name.decode(): value.decode("latin-1") for name, value in head.headers}
                answer = Answer(head.status_code, headers, body)
                if isinstance(event, h11.EndOfMessage) or (answer.media_type == EVENTS and body):
                    return answer

    def _receive(self) -> bytes:
        try:
            return self._socket.recv(1 << 18)
        except ConnectionResetError:
            return b""


def until_end(connection: socket.socket, parts: Sequence[bytes]) -> bytes:
    """Send the parts, say that this was all, and return all that comes back."""
    connection.settimeout(PATIENCE_S)
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        for part in parts:
            connection.sendall(part)
        connection.shutdown(socket.SHUT_WR)
    received = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(1 << 18):
            received += chunk
    return bytes(received)
