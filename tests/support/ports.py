# SPDX-License-Identifier: Apache-2.0
"""A port for a program that has to be told one before it starts."""

from __future__ import annotations

import socket


def free_port() -> int:
    """A port of the loopback on which nobody listens now."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])
