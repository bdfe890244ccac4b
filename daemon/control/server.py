# SPDX-License-Identifier: Apache-2.0
"""The control server: it answers between two steps of the daemon, and never for longer than the time to the
next step.

A step of many flows is long. Between its parts the server answers requests that only read.

No client can cost the daemon more than a bounded amount of memory: while a client does not read its answers,
the server does not read its requests.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
import selectors
import socket
import stat
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ltp_switcher.daemon.control.answers import Handler, answer, error
from ltp_switcher.daemon.control.caller import Caller, peer_of
from ltp_switcher.daemon.control.client import INVALID, LINE_MAX_BYTES, UNAVAILABLE
from ltp_switcher.errors import ControlError, reason

log = logging.getLogger(__name__)

CLIENTS_MAX: Final = 64
USER_MAX: Final = 32
"""Largest number of connections for one user, out of `CLIENTS_MAX`."""
ROOT_SLOTS: Final = 8
"""Number of connections beyond `CLIENTS_MAX` that only root gets."""
API_SLOTS: Final = 32
"""Number of connections beyond `CLIENTS_MAX` that only the API's user gets. They suffice for the threads of
the API's two loops and for its health checks.
"""
API_USER: Final = "ltp-switcher-api"
IDLE_S: Final = 60.0
"""Time in seconds after which a client that neither sends nor reads is disconnected. Its `ControlClient`
connects again at the next call.
"""
LAST_S: Final = 1.0
"""Longest time for the last answers when the daemon ends, in seconds."""
WAIT_S: Final = 0.001
TURN_S: Final = 0.002
"""Longest time in seconds for making answers before the loop reads and accepts again."""
SOCKET_MODE: Final = 0o660
BREATHE_AFTER_S: Final = 0.006
"""Longest time that requests wait for a pause of the step, in seconds."""
BREATH_S: Final = 0.0005
"""Length of a pause within a step, in seconds. The last answer that is made in the pause may
make it longer.
"""
_ROUNDS: Final = 3
"""Number of times that the server reads and accepts in a pause. They suffice for a new client, its request,
and the request of another client.
"""
UNSENT_MAX_BYTES: Final = 1 << 20
"""Size in bytes of the unsent part of an answer at which the server makes no more parts for the client."""


@dataclass(slots=True)
class _Client:
    socket: socket.socket
    caller: Caller
    active_s: float
    """Time of the latest sending or reading (`time.monotonic`)."""
    received: bytearray = field(default_factory=bytearray)
    unsent: bytearray = field(default_factory=bytearray)
    answer: Iterator[bytes] | None = None
    """The rest of the answer under way."""
    waiting: bool = False
    """Whether the next part cannot be made yet. The next turn of the loop looks again."""
    finished: bool = False
    """Whether the client sends no more requests. It is disconnected once it has its answers."""

    @property
    def asks(self) -> bool:
        """Whether a whole request has come and not been answered yet."""
        return b"\n" in self.received

    @property
    def reading(self) -> bool:
        """Whether to read more from the client. Enough is read if a whole request waits and the buffer is
        full.
        """
        return not self.finished and not (self.asks and len(self.received) > LINE_MAX_BYTES)

    @property
    def ready(self) -> bool:
        """Whether a part of an answer can be made now."""
        return (
            not self.waiting
            and (self.answer is not None or self.asks)
            and len(self.unsent) < UNSENT_MAX_BYTES
        )


class ControlServer:
    """Calls `handler` for requests on a UNIX socket: the socket `inherited`, or a new one at `path` with mode
    0660.

    No user can take all connections from root or from the API, whose user is `api_uid`. Only the API's user
    and the daemon's own user may name another author of a request. `reads` has the methods that change
    nothing; they may run within a step. Raises `ControlError` if the server cannot listen.
    """

    def __init__(
        self,
        path: Path,
        handler: Handler,
        selector: selectors.BaseSelector,
        inherited: socket.socket | None = None,
        api_uid: int | None = None,
        reads: frozenset[str] = frozenset(),
    ) -> None:
        self._made = path if inherited is None else None
        self._handler = handler
        self._selector = selector
        # The clients are in the order of service: the one that was served last is at the end.
        self._clients: dict[int, _Client] = {}
        self._look_at_s = 0.0
        self._reads = reads
        self._in_step = False
        self._pumped_s = 0.0
        self._kept = {0: ROOT_SLOTS}
        self._speakers = {os.geteuid()}
        if api_uid is not None:
            self._kept[api_uid] = API_SLOTS
            self._speakers.add(api_uid)
        self._listener = listen(path) if inherited is None else inherited
        self._listener.setblocking(False)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    def close(self) -> None:
        """Accept no more clients, answer pending requests within `LAST_S`, hang up, and remove the server's
        own socket.

        The path of an inherited socket stays. A client that connects to it waits for the next daemon.
        """
        self._selector.unregister(self._listener)
        self._listener.close()
        if self._made is not None:
            with contextlib.suppress(OSError):
                self._made.unlink()
        until_s = time.monotonic() + LAST_S
        while self._clients and time.monotonic() < until_s:
            for fileno in list(self._clients):
                self._ready(fileno)
            self.pump(until_s)
            for client in list(self._clients.values()):
                if client.answer is None and not client.asks and not client.unsent:
                    self._drop(client)
            if self._clients:
                time.sleep(WAIT_S)
        for client in list(self._clients.values()):
            self._drop(client)

    def pump(self, until_s: float) -> bool:
        """Make and send answers until `until_s` (`time.monotonic`), for at most `TURN_S`. Returns whether
        answers are left to make.

        The clients take turns, and each gets one part of an answer. So a short answer does not wait for a
        long list. A new client does not wait either, because the loop accepts clients after `TURN_S`.
        """
        until_s = min(until_s, time.monotonic() + TURN_S)
        self._drop_idle()
        for client in self._clients.values():
            client.waiting = False
        more = any(client.ready for client in self._clients.values())
        while more and time.monotonic() < until_s:
            more = False
            for fileno, client in list(self._clients.items()):
                if client.ready:
                    if time.monotonic() >= until_s:
                        more = True
                        break
                    self._advance(client)
                    self._clients[fileno] = self._clients.pop(fileno)
                    if client.answer is None:
                        self._flush(client)
                    more = more or client.ready
        for client in list(self._clients.values()):
            self._flush(client)
        self._pumped_s = time.monotonic()
        return more

    def breathe(self) -> None:
        """Answer requests that only read, between two parts of a step. Do nothing if `pump` has ended less
        than `BREATHE_AFTER_S` ago.
        """
        if time.monotonic() - self._pumped_s < BREATHE_AFTER_S:
            return
        for _ in range(_ROUNDS):
            ours = [key for key, _ in self._selector.select(0) if key.data in (self._accept, self._ready)]
            for key in ours:
                key.data(key.fd)
            if not ours:
                break
        self._in_step = True
        try:
            self.pump(time.monotonic() + BREATH_S)
        finally:
            self._in_step = False

    def _may_run(self, method: str) -> bool:
        return not self._in_step or method in self._reads

    def _advance(self, client: _Client) -> None:
        if client.answer is None:
            line, _, rest = bytes(client.received).partition(b"\n")
            client.received = bytearray(rest)
            if not line.strip():
                return
            client.answer = answer(
                self._handler, line, client.caller, self._may_run,
                speaks_for_others=client.caller.uid in self._speakers,
            )  # fmt: skip
        part = next(client.answer, None)
        if part is None:
            client.answer = None
        else:
            client.waiting = not part
            client.unsent += part

    def _accept(self, _: int) -> None:
        with contextlib.suppress(OSError):
            connection, _address = self._listener.accept()
            connection.setblocking(False)
            caller = _credentials(connection)
            full = self._full_for(caller.uid)
            if full:
                with connection:
                    connection.send(error(None, UNAVAILABLE, full))
                return
            client = _Client(connection, caller, time.monotonic())
            self._clients[connection.fileno()] = client
            self._selector.register(connection, selectors.EVENT_READ, self._ready)

    def _full_for(self, uid: int) -> str:
        """The reason why the user `uid` gets no further connection; empty if the user gets one."""
        beyond = Counter(client.caller.uid for client in self._clients.values())
        for user, kept in self._kept.items():
            if user == uid and beyond[user] < kept:
                return ""
            beyond[user] = max(beyond[user] - kept, 0)
        if beyond[uid] >= USER_MAX:
            return f"uid {uid} has {USER_MAX + self._kept.get(uid, 0)} connections, as many as a user gets"
        if beyond.total() >= CLIENTS_MAX:
            return f"{beyond.total()} clients are connected"
        return ""

    def _ready(self, fileno: int) -> None:
        client = self._clients.get(fileno)
        if client is None or not client.reading:
            # The client is gone, or only its output can go on now, and `pump` sends that.
            return
        try:
            data = client.socket.recv(LINE_MAX_BYTES)
        except BlockingIOError:
            return
        except OSError:
            self._drop(client)
            return
        client.active_s = time.monotonic()
        client.received += data
        client.finished = not data
        if len(client.received) > LINE_MAX_BYTES and not client.asks:
            client.unsent += error(None, INVALID, f"a request has {LINE_MAX_BYTES} bytes at most")
            client.received.clear()
            client.finished = True
        self._watch(client)

    def _drop_idle(self) -> None:
        now_s = time.monotonic()
        if now_s < self._look_at_s:
            return
        self._look_at_s = now_s + IDLE_S / 10
        for client in list(self._clients.values()):
            if now_s - client.active_s > IDLE_S:
                self._drop(client)

    def _flush(self, client: _Client) -> None:
        try:
            while client.unsent:
                sent = client.socket.send(client.unsent)
                del client.unsent[:sent]
                client.active_s = time.monotonic()
        except BlockingIOError:
            pass
        except OSError:
            self._drop(client)
            return
        if client.finished and not client.unsent and client.answer is None and not client.asks:
            self._drop(client)
        else:
            self._watch(client)

    def _watch(self, client: _Client) -> None:
        events = selectors.EVENT_READ if client.reading else 0
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
    """Listen on a UNIX socket at `path`. Replaces a socket on which nobody listens. Raises `ControlError` if
    another daemon listens, or if the path cannot be used.
    """
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            contextlib.suppress(FileNotFoundError, ConnectionRefusedError),
            socket.socket(socket.AF_UNIX) as probe,
        ):
            probe.connect(str(path))
            raise ControlError(f"another daemon serves {path}")
        _unlink_socket(path)
        # The socket is never open to everybody, not even between bind and chmod.
        before = os.umask(0o777 & ~SOCKET_MODE)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        path.chmod(SOCKET_MODE)
        listener.listen(CLIENTS_MAX + ROOT_SLOTS + API_SLOTS)
    except OSError as error:
        listener.close()
        raise ControlError(f"cannot listen on {path}: {reason(error)}") from error
    except ControlError:
        listener.close()
        raise
    return listener


def _unlink_socket(path: Path) -> None:
    """Remove a socket that an earlier daemon left at `path`. Raises `ControlError` if the path is not a
    socket.
    """
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise ControlError(
                f"cannot listen on {path}: something that is no socket is there; name another path"
            )
        path.unlink()


def api_uid() -> int | None:
    """The id of the user as whom the API runs; None if there is no such user."""
    try:
        return pwd.getpwnam(API_USER).pw_uid
    except KeyError:
        return None


def _credentials(connection: socket.socket) -> Caller:
    return Caller(*peer_of(connection))
