# SPDX-License-Identifier: Apache-2.0
"""The control protocol and its client: newline-delimited JSON over a UNIX socket.

A request is `{"id":1,"method":"flows.list","params":{}}`. Its answer is `{"id":1,"result":…}` or
`{"id":1,"error":{"code":…,"message":…,"field":…,"value":…,"allowed":…}}`. The class `methods.Methods` lists
the methods.
"""

from __future__ import annotations

import contextlib
import json
import socket
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ltp_switcher.daemon.control.caller import Author
from ltp_switcher.errors import ControlError, reason

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

INVALID: Final = "invalid"
NOT_FOUND: Final = "not-found"
STALE: Final = "stale"
REFUSED: Final = "refused"
UNAVAILABLE: Final = "unavailable"
INTERNAL: Final = "internal"
LINE_MAX_BYTES: Final = 1 << 16
"""Longest request in bytes; answers may be longer."""


class ControlUnavailableError(ControlError):
    """The daemon does not run, does not answer, or cannot carry out the request now (code `unavailable`)."""


class ControlInvalidError(ControlError):
    """The daemon refuses the request's input (code `invalid`)."""

    def __init__(self, message: str, field: str | None, value: Json, allowed: str | None) -> None:
        self.field = field
        self.value = value
        self.allowed = allowed
        super().__init__(message)


class ControlNotFoundError(ControlError):
    """The daemon does not know the name in the request (code `not-found`)."""


class ControlStaleError(ControlError):
    """The value has been changed since it was read (code `stale`)."""


class ControlRefusedError(ControlError):
    """The daemon's present state does not allow the request (code `refused`)."""


class ControlInternalError(ControlError):
    """The daemon failed, and its log says why (code `internal`)."""


class ControlClient:
    """A connection to the daemon. A call opens the connection if there is none, or if it was lost.

    `on_behalf_of` is the author whose requests a server passes on with these calls.
    """

    def __init__(
        self, path: Path | str, *, timeout_s: float = 5.0, on_behalf_of: Author | None = None
    ) -> None:
        self._path = str(path)
        self._timeout_s = timeout_s
        self._socket: socket.socket | None = None
        self._received = b""
        self._id = 0
        self._for: dict[str, Json] = {}
        if isinstance(on_behalf_of, str):
            self._for = {"for": {"token": on_behalf_of}}
        elif on_behalf_of is not None:
            uid, pid = on_behalf_of
            self._for = {"for": {"uid": uid, "pid": pid}}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
            self._received = b""

    def call(self, method: str, **params: Json) -> Json:
        """Call a method and return its result.

        Raises `ControlUnavailableError`, `ControlInvalidError`, `ControlNotFoundError`,
        `ControlStaleError`, `ControlRefusedError` or `ControlInternalError`.
        """
        self._id += 1
        request = {"id": self._id, "method": method, "params": params, **self._for}
        line = json.dumps(request).encode() + b"\n"
        try:
            try:
                answer = self._exchange(line)
            except (BrokenPipeError, ConnectionResetError):
                # The daemon ended before it answered. Under systemd its socket stays, and the next daemon is
                # starting. A second call does no harm, because each method sets a state or reads one. At
                # worst the daemon refuses this call, because the first one was carried out.
                self.close()
                answer = self._exchange(line)
        except OSError as error:
            self.close()
            raise unavailable(self._path, self._timeout_s, error) from error
        return result_of(answer)

    def _exchange(self, line: bytes) -> dict[str, Json]:
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._socket.settimeout(self._timeout_s)
            self._socket.connect(self._path)
        # A daemon that hangs up may have sent the reason first.
        with contextlib.suppress(BrokenPipeError):
            self._socket.sendall(line)
        parts = [self._received]
        while b"\n" not in parts[-1]:
            chunk = self._socket.recv(1 << 18)
            if not chunk:
                raise ConnectionResetError("the daemon closed the connection")
            parts.append(chunk)
        text, _, self._received = b"".join(parts).partition(b"\n")
        return parse_answer(text, self._id)


def parse_answer(text: bytes, number: int) -> dict[str, Json]:
    """Parse the answer to the request with the id `number`. Raises `ControlInternalError` for
    any other text.
    """
    try:
        answer = json.loads(text)
    except ValueError as error:
        raise ControlInternalError(f"the daemon's answer is not JSON: {error}") from error
    if not isinstance(answer, dict) or answer.get("id") not in (number, None):
        raise ControlInternalError("the daemon answered another request")
    return answer


def unavailable(path: Path | str, timeout_s: float, error: OSError) -> ControlUnavailableError:
    """Make the error that explains to a user why the socket failed, with the remedy."""
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        advice = "is it running? (`systemctl start ltp-switcher`, or `ltp-switcher run`)"
    elif isinstance(error, PermissionError):
        advice = "not permitted: become root or a member of the socket's group"
    elif isinstance(error, TimeoutError):
        advice = f"no answer within {timeout_s:g} s"
    else:
        advice = reason(error)
    return ControlUnavailableError(f"cannot reach the daemon at {path}: {advice}")


def result_of(answer: dict[str, Json]) -> Json:
    """The result of an answer. Raises the `ControlError` that the answer reports."""
    error = answer.get("error")
    if not isinstance(error, dict):
        return answer.get("result")
    message = str(error.get("message"))
    code = error.get("code")
    if code == INVALID:
        field, allowed = error.get("field"), error.get("allowed")
        raise ControlInvalidError(
            message,
            field if isinstance(field, str) else None,
            error.get("value"),
            allowed if isinstance(allowed, str) else None,
        )
    if code == NOT_FOUND:
        raise ControlNotFoundError(message)
    if code == STALE:
        raise ControlStaleError(message)
    if code == REFUSED:
        raise ControlRefusedError(message)
    if code == UNAVAILABLE:
        raise ControlUnavailableError(message)
    raise ControlInternalError(message)
