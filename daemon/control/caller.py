# SPDX-License-Identifier: Apache-2.0
"""The author of a request."""

from __future__ import annotations

import socket
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass

Author = tuple[int, int] | str
"""The author of a request to a server that passes the request on: a process by user and process id, or the
name of an API token.
"""


@dataclass(frozen=True, slots=True)
class Caller:
    """The process that makes a request, as the kernel knows the peer of a UNIX socket
    (SO_PEERCRED, unix(7)).
    """

    uid: int
    pid: int
    via: Caller | None = None
    """The peer of the control socket, if it speaks for another process. The kernel vouches for the peer
    alone.
    """
    token: str | None = None
    """Name of the API token that the process reports; None without a token."""

    def __str__(self) -> str:
        return in_words(asdict(self))


def in_words(caller: Mapping[str, object]) -> str:
    """A caller in words for people, from a JSON object with `uid`, `pid`, `token` and `via`."""
    words = f"uid {caller.get('uid')}, pid {caller.get('pid')}"
    if caller.get("token") is not None:
        words += f", token {caller['token']}"
    via = caller.get("via")
    return f"{words}, by way of {in_words(via)}" if isinstance(via, Mapping) else words


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """The user id and the process id of the peer of a UNIX socket. Raises `OSError`."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    pid, uid, _ = struct.unpack("iII", credentials)
    return uid, pid
