# SPDX-License-Identifier: Apache-2.0
"""The author of a request."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """A process at a UNIX socket, as the kernel knows it (SO_PEERCRED, unix(7))."""

    uid: int
    pid: int
    via: Caller | None = None
    """The control socket's own peer, where it speaks for another process. Only it is certain."""

    def __str__(self) -> str:
        words = f"uid {self.uid}, pid {self.pid}"
        return words if self.via is None else f"{words}, by way of {self.via}"


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """User and process of the peer of a UNIX socket. Raises `OSError`."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid, _ = struct.unpack("iII", credentials)
    return uid, pid
