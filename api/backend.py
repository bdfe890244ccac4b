# SPDX-License-Identifier: Apache-2.0
"""The API's client of the daemon: answers become typed objects, and refusals become problems."""

from __future__ import annotations

import asyncio
import contextlib
import json
from pathlib import Path
from typing import Annotated, TypeVar, cast

from fastapi import Depends, Request
from pydantic import TypeAdapter, ValidationError

from ltp_switcher.api.problems import FieldProblem, ProblemError
from ltp_switcher.daemon.control.caller import Author
from ltp_switcher.daemon.control.client import (
    ControlClient,
    ControlInvalidError,
    ControlNotFoundError,
    ControlRefusedError,
    ControlStaleError,
    ControlUnavailableError,
    Json,
    parse_answer,
    result_of,
    unavailable,
)
from ltp_switcher.errors import ControlError

TIMEOUT_S = 12.0
"""Longest time for a request in seconds. A restart of the daemon takes 8 s on a slow, emulated machine."""
RETRY_AFTER_S = 1
ANSWER_MAX_BYTES = 1 << 20
"""Largest answer in bytes that the API parses on the event loop."""
AT_ONCE_MAX = 8
"""Largest number of simultaneous connections from an event loop, beside the connections of threads. The
`API_SLOTS` of the daemon's server suffice for all of them.
"""
M = TypeVar("M")


class DaemonClient:
    """A client of a daemon's control socket. A call blocks for at most `timeout_s` seconds.

    Each call opens its own connection, so that calls from many threads do not wait for one another. If the
    daemon fails or refuses a call, the methods raise `ProblemError`, except for `told`.
    """

    def __init__(
        self, control_socket: Path, timeout_s: float = TIMEOUT_S, author: Author | None = None
    ) -> None:
        self._path = control_socket
        self._timeout_s = timeout_s
        self._author = author
        self._at_once = asyncio.Semaphore(AT_ONCE_MAX)

    def on_behalf_of(self, author: Author) -> DaemonClient:
        """Return a client that makes requests for another author. The daemon records the author's name with
        each change.
        """
        client = DaemonClient(self._path, self._timeout_s, author)
        client._at_once = self._at_once
        return client

    def call(self, method: str, **params: Json) -> Json:
        """Call a control method of the daemon, and return its result without checking the result's form."""
        try:
            with ControlClient(self._path, timeout_s=self._timeout_s, on_behalf_of=self._author) as client:
                return client.call(method, **params)
        except ControlError as error:
            raise _problem(error) from error

    def told(self, method: str, **params: Json) -> Json:
        """Call a control method as `call` does. If the daemon refuses, raise its `ControlError`, so that the
        caller can store the refusal.
        """
        with ControlClient(self._path, timeout_s=self._timeout_s, on_behalf_of=self._author) as client:
            return client.call(method, **params)

    def ask(self, shape: type[M], method: str, **params: Json) -> M:
        """Call a control method and check the form of its result. `shape` is a pydantic model, or a list of a
        model.
        """
        return _typed(shape, method, self.call(method, **params))

    async def ask_at_once(self, shape: type[M], method: str) -> M:
        """Do as `ask` does, but on the event loop, for requests that must not wait for a free thread."""
        try:
            async with asyncio.timeout(self._timeout_s), self._at_once:
                try:
                    result = await self._exchange(method)
                except (BrokenPipeError, ConnectionResetError):
                    # The daemon ended before it answered. Under systemd its socket stays, and the next daemon
                    # is starting.
                    result = await self._exchange(method)
        except OSError as error:
            raise _problem(unavailable(self._path, self._timeout_s, error)) from error
        except ControlError as error:
            raise _problem(error) from error
        return _typed(shape, method, result)

    async def _exchange(self, method: str) -> Json:
        reader, writer = await asyncio.open_unix_connection(str(self._path), limit=ANSWER_MAX_BYTES)
        try:
            with contextlib.suppress(BrokenPipeError):
                writer.write(json.dumps({"id": 1, "method": method}).encode() + b"\n")
            text = await reader.readline()
        finally:
            writer.close()
        if not text:
            raise ConnectionResetError("the daemon closed the connection")
        return result_of(parse_answer(text, 1))


def _typed(shape: type[M], method: str, result: Json) -> M:
    try:
        return TypeAdapter(shape).validate_python(result)
    except ValidationError as error:
        raise ProblemError(
            502,
            "unexpected-answer",
            f"the daemon's answer to {method} is not as expected; are both of the same version? "
            f"({error.error_count()} differences, the first at {error.errors()[0]['loc']})",
        ) from error


def _problem(error: ControlError) -> ProblemError:
    if isinstance(error, ControlInvalidError):
        fields = []
        if error.field is not None:
            fields = [FieldProblem(field=error.field, value=error.value, allowed=error.allowed or "")]
        return ProblemError(422, "invalid-value", str(error), fields=fields)
    if isinstance(error, ControlStaleError):
        return ProblemError(412, "precondition-failed", str(error))
    if isinstance(error, ControlRefusedError):
        return ProblemError(409, "refused", str(error))
    if isinstance(error, ControlNotFoundError):
        return ProblemError(404, "not-found", str(error))
    if isinstance(error, ControlUnavailableError):
        return ProblemError(
            503, "daemon-unavailable", str(error), headers={"retry-after": str(RETRY_AFTER_S)}
        )
    return ProblemError(502, "daemon-failed", str(error))


async def _daemon(request: Request) -> DaemonClient:
    # This is not a plain function, because a plain one would take a thread of its own.
    daemon = cast(DaemonClient, request.app.state.daemon)
    author = getattr(request.state, "author", None)
    return daemon if author is None else daemon.on_behalf_of(author)


DaemonDep = Annotated[DaemonClient, Depends(_daemon)]
