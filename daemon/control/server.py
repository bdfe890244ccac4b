# SPDX-License-Identifier: Apache-2.0
"""The control server: answers between steps, and never for longer than the time to the next one.

A long answer is a list whose items are made and encoded a few at a time, in the time that steps leave.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ltp_switcher.daemon.control import strict_json
from ltp_switcher.daemon.control.client import INTERNAL, INVALID, LINE_MAX_BYTES, NOT_FOUND, UNAVAILABLE, Json
from ltp_switcher.daemon.datapath import FlowNotFoundError
from ltp_switcher.errors import ControlError, InvalidValueError, LtpSwitcherError

log = logging.getLogger(__name__)

CLIENTS_MAX: Final = 64
SOCKET_MODE: Final = 0o660
UNSENT_MAX_BYTES: Final = 1 << 20
"""No more of an answer is made while this much of it waits for its reader."""

Params = dict[str, Json]
Handler = Callable[[str, Params, str], "Json | JsonList"]
"""Takes a method, its parameters and its caller in words."""


@dataclass(frozen=True, slots=True)
class JsonList:
    """A result that is a list, made item by item."""

    items: Iterator[Json]


@dataclass(slots=True)
class _Client:
    socket: socket.socket
    name: str
    """Its user and process, in words."""
    received: bytearray = field(default_factory=bytearray)
    unsent: bytearray = field(default_factory=bytearray)
    answers: deque[Iterator[bytes]] = field(default_factory=deque)
    finished: bool = False
    """The client has said all it will; it leaves once it has been answered."""


class ControlServer:
    """Serves `handler` on a UNIX socket of mode 0660. Raises `ControlError` where it cannot listen."""

    def __init__(self, path: Path, handler: Handler, selector: selectors.BaseSelector) -> None:
        self._path = path
        self._handler = handler
        self._selector = selector
        self._clients: dict[int, _Client] = {}
        self._listener = listen(path)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def close(self) -> None:
        """Send as much as possible at once, hang up, and remove the socket."""
        for client in list(self._clients.values()):
            self._flush(client)
            self._drop(client)
        self._selector.unregister(self._listener)
        self._listener.close()
        with contextlib.suppress(OSError):
            self._path.unlink()

    def pump(self, until_s: float) -> bool:
        """Make and send answers until `until_s` (`time.monotonic`). Returns whether more can be done."""
        more = False
        for client in list(self._clients.values()):
            while client.answers and len(client.unsent) < UNSENT_MAX_BYTES:
                if time.monotonic() >= until_s:
                    return True
                part = next(client.answers[0], None)
                if part is None:
                    client.answers.popleft()
                else:
                    client.unsent += part
            self._flush(client)
            more = more or bool(client.answers and len(client.unsent) < UNSENT_MAX_BYTES)
        return more

    def _accept(self, _: int) -> None:
        with contextlib.suppress(OSError):
            connection, _address = self._listener.accept()
            if len(self._clients) >= CLIENTS_MAX:
                connection.close()
                return
            connection.setblocking(False)
            client = _Client(connection, _peer(connection))
            self._clients[connection.fileno()] = client
            self._selector.register(connection, selectors.EVENT_READ, self._ready)

    def _ready(self, fileno: int) -> None:
        client = self._clients.get(fileno)
        if client is None:
            return
        try:
            data = client.socket.recv(LINE_MAX_BYTES)
        except BlockingIOError:
            # Ready to write: `pump` sends.
            return
        except OSError:
            self._drop(client)
            return
        if not data:
            client.finished = True
            self._watch(client)
            return
        client.received += data
        *lines, rest = client.received.split(b"\n")
        client.received = bytearray(rest)
        for line in lines:
            if line.strip():
                client.answers.append(self._answer(bytes(line), client.name))
        if len(rest) > LINE_MAX_BYTES:
            client.answers.append(
                iter([_error(None, INVALID, f"a request has {LINE_MAX_BYTES} bytes at most")])
            )
            client.received.clear()
            client.finished = True
            self._watch(client)

    def _answer(self, line: bytes, caller: str) -> Iterator[bytes]:
        """The parts of the answer to one request. The method is called when the first is asked for."""
        number: Json = None
        try:
            request = _parsed(line)
            method = request.get("method") if isinstance(request, dict) else None
            if not isinstance(request, dict) or not isinstance(method, str):
                raise InvalidValueError("method", request, 'a JSON object with "method"')
            number = request.get("id")
            params = request.get("params") or {}
            if not isinstance(params, dict):
                raise InvalidValueError("params", params, "a JSON object")
            result = self._handler(method, params, caller)
            if isinstance(result, JsonList):
                yield b'{"id":%b,"result":[' % json.dumps(number).encode()
                separator = b""
                for item in result.items:
                    yield separator + json.dumps(item).encode()
                    separator = b","
                yield b"]}\n"
            else:
                yield json.dumps({"id": number, "result": result}).encode() + b"\n"
        except InvalidValueError as error:
            yield _error(
                number,
                INVALID,
                str(error),
                field=error.field,
                value=_plain(error.value),
                allowed=error.allowed,
            )
        except FlowNotFoundError as error:
            yield _error(number, NOT_FOUND, str(error))
        except LtpSwitcherError as error:
            yield _error(number, UNAVAILABLE, str(error))
        except Exception:
            # A method that fails must not take the decision loop with it.
            log.exception("control request failed: %s", line[:200])
            yield _error(number, INTERNAL, "the daemon failed to answer; its log says why")

    def _flush(self, client: _Client) -> None:
        try:
            while client.unsent:
                sent = client.socket.send(client.unsent)
                del client.unsent[:sent]
        except BlockingIOError:
            pass
        except OSError:
            self._drop(client)
            return
        if client.finished and not client.unsent and not client.answers:
            self._drop(client)
        else:
            self._watch(client)

    def _watch(self, client: _Client) -> None:
        events = 0 if client.finished else selectors.EVENT_READ
        if client.unsent:
            events |= selectors.EVENT_WRITE
        known = self._selector.get_map().get(client.socket)
        if known is not None and known.events == events:
            return
        if known is not None:
            self._selector.unregister(client.socket)
        if events:
            self._selector.register(client.socket, events, self._ready)

    def _drop(self, client: _Client) -> None:
        self._clients.pop(client.socket.fileno(), None)
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(client.socket)
        client.socket.close()


def listen(path: Path) -> socket.socket:
    """Listen on a UNIX socket, replacing one that nobody serves. Raises `ControlError`."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            contextlib.suppress(FileNotFoundError, ConnectionRefusedError),
            socket.socket(socket.AF_UNIX) as probe,
        ):
            probe.connect(str(path))
            raise ControlError(f"another daemon serves {path}")
        path.unlink(missing_ok=True)
        # Never open to everybody, not even between bind and chmod.
        before = os.umask(0o777 & ~SOCKET_MODE)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        path.chmod(SOCKET_MODE)
        listener.listen(CLIENTS_MAX)
    except OSError as error:
        listener.close()
        raise ControlError(f"cannot listen on {path}: {error.strerror or error}") from error
    except ControlError:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


def _peer(connection: socket.socket) -> str:
    """Who connected, as the kernel knows it (SO_PEERCRED, unix(7))."""
    pid, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return f"uid {uid}, pid {pid}"


def _parsed(line: bytes) -> Json:
    try:
        return strict_json.parse(line)
    except ValueError as error:
        raise InvalidValueError("request", line[:200].decode(errors="replace"), f"JSON ({error})") from error


def _error(number: Json, code: str, message: str, **details: Json) -> bytes:
    error: dict[str, Json] = {"code": code, "message": message, **details}
    return json.dumps({"id": number, "error": error}).encode() + b"\n"


def _plain(value: object) -> Json:
    return value if isinstance(value, None | bool | int | float | str) else repr(value)
