# SPDX-License-Identifier: Apache-2.0
"""The author of a request."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

Author = tuple[int, int] | str
"""For whom a server asks: a process by user and process id, or the name of an API token."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A process at a UNIX socket, as the kernel knows it (SO_PEERCRED, unix(7))."""

    uid: int
    pid: int
    via: Caller | None = None
    """The control socket's own peer, where it speaks for another process. Only it is certain."""
    token: str | None = None
    """Name of the API token that the process says it was shown."""

    def __str__(self) -> str:
        words = f"uid {self.uid}, pid {self.pid}"
        if self.token is not None:
            words += f", token {self.token}"
        return words if self.via is None else f"{words}, by way of {self.via}"


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """User and process of the peer of a UNIX socket. Raises `OSError`."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid, _ = struct.unpack("iII", credentials)
    return uid, pid
