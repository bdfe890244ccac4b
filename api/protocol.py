# SPDX-License-Identifier: Apache-2.0
"""The HTTP protocol of the server uvicorn, with problem details for malformed requests, a deadline for
headers, and a connection limit.

A client that opens connections and sends nothing would otherwise take every descriptor of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import Counter
from functools import cache, lru_cache
from typing import Final, cast

import h11
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from ltp_switcher.api.problems import MEDIA_TYPE, ProblemError
from ltp_switcher.daemon.control.caller import peer_of

HEADERS_S: Final = 10.0
"""Longest time in seconds for the headers of a request. It counts from the opening of the connection, or from
the first byte of a later request.
"""
LINGER_S: Final = 0.5
"""Time in seconds after the end of the service in which a new connection may still send its first request."""
CONNECTIONS_MAX: Final = 256
"""Largest number of connections to one UNIX socket at a time."""
TCP_CONNECTIONS_MAX: Final = 64
"""Largest number of connections to the TCP port, which every local user reaches. The limit is separate, so
many clients of the port do not block the UNIX socket."""
ABORT: Final = "ltp_switcher.abort"
"""Key of a request's ASGI scope with a function that closes the connection at once."""


class ProblemProtocol(H11Protocol):
    """The protocol of uvicorn, with problem details also for requests that never reach the app, and with a
    deadline for every client.
    """

    _open: Counter[object] = Counter()  # noqa: RUF012 # shared by all connections of the process
    _listener: object = None
    _places = 0
    _deadline: asyncio.TimerHandle | None = None
    _last = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline, or refuse the connection if it is beyond the limit."""
        super().connection_made(transport)
        connection = transport.get_extra_info("socket")
        self._places = TCP_CONNECTIONS_MAX
        if connection.family == socket.AF_UNIX:
            self._places = CONNECTIONS_MAX
            with contextlib.suppress(OSError):
                # This is the state of each request of the connection. The routes pass the author on to the
                # daemon.
                self.app_state = {**self.app_state, "author": peer_of(connection)}
        self._listener = transport.get_extra_info("sockname")
        self._open[self._listener] += 1
        if self._open[self._listener] > self._places:
            self._refuse(_too_many(self._places), b"Service Unavailable")
        else:
            self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Count the connection no longer."""
        self._open[self._listener] -= 1
        self._unwatch()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Pass bytes on to uvicorn, and stop the deadline when the headers are complete."""
        super().data_received(data)
        if self.scope is not None:
            cast("dict[str, object]", self.scope)[ABORT] = self.transport.abort
        if self._last and self._asked:
            self.cycle.keep_alive = False
        if self.conn.their_state is not h11.IDLE:
            self._unwatch()
        elif self._deadline is None:
            self._watch()

    def on_response_complete(self) -> None:
        """Start the deadline again if a part of the next request has already come."""
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE and self._deadline is None:
            self._watch()

    def shutdown(self) -> None:
        """Close the connection. A connection without a request yet stays open for `LINGER_S` seconds."""
        if self._asked:
            super().shutdown()
        else:
            self._last = True
            self.loop.call_later(LINGER_S, self._hang_up)

    @property
    def _asked(self) -> bool:
        """Whether a first request has come. uvicorn's type says that there always is a request."""
        return cast("object", self.cycle) is not None

    def _hang_up(self) -> None:
        if not self._asked and not self.transport.is_closing():
            self.transport.close()

    def send_400_response(self, msg: str) -> None:
        """Answer a malformed request with a problem of status 400, and close the connection."""
        self._refuse(ProblemError(400, "malformed-request", msg), b"Bad Request")

    def _watch(self) -> None:
        self._deadline = self.loop.call_later(HEADERS_S, self._late)

    def _unwatch(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self) -> None:
        detail = f"the headers did not arrive within {HEADERS_S:g} s"
        self._refuse(ProblemError(408, "request-timeout", detail), b"Request Timeout")

    def _refuse(self, problem: ProblemError, reason: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            # The answer has begun or is over, so nothing else can be sent.
            self.transport.close()
            return
        body = _body(problem)
        headers = [
            ("content-type", MEDIA_TYPE),
            ("content-length", str(len(body))),
            ("connection", "close"),
        ]
        events = (
            h11.Response(status_code=problem.status, headers=headers, reason=reason),
            h11.Data(data=body),
            h11.EndOfMessage(),
        )
        # One write makes one packet, so that a client that floods the listener costs little processor time.
        self.transport.write(b"".join(self.conn.send(event) or b"" for event in events))
        self.transport.close()
        if self._asked:
            # The app may have this request already, and may be about to answer it.
            self.cycle.disconnected = True
            self.cycle.message_event.set()


@cache
def _too_many(connections: int) -> ProblemError:
    return ProblemError(503, "too-many-connections", f"{connections} clients are connected; try again later")


@lru_cache(8)
def _body(problem: ProblemError) -> bytes:
    return bytes(problem.response("").body)


def server_config(app: FastAPI, *, grace_s: int | None = None) -> uvicorn.Config:
    """Return uvicorn's settings for `app`.

    When the server stops, requests under way get `grace_s` seconds to finish; None sets no limit.
    """
    return uvicorn.Config(
        app,
        http=ProblemProtocol,
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=grace_s,
    )
