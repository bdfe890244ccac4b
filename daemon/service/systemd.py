# SPDX-License-Identifier: Apache-2.0
"""The service manager systemd: notifications to it (sd_notify(3)), and the listening sockets that it hands to
a service.

A listening socket of the manager outlives the service. While the service restarts, its clients wait, and
nobody else can listen in its place.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Mapping, MutableMapping
from typing import Final

FIRST_FD: Final = 3
"""The descriptor of the first inherited socket, SD_LISTEN_FDS_START of sd_listen_fds(3)."""


def inherited(environment: MutableMapping[str, str] | None = None) -> list[socket.socket]:
    """The listening sockets that the service manager hands to this process (sd_listen_fds(3)).

    The call removes the variables from the environment, so that no child process takes the sockets for its
    own.
    """
    environment = os.environ if environment is None else environment
    mine = environment.pop("LISTEN_PID", "") == str(os.getpid())
    count = environment.pop("LISTEN_FDS", "0")
    environment.pop("LISTEN_FDNAMES", None)
    if not mine or not count.isdigit():
        return []
    found = [socket.socket(fileno=number) for number in range(FIRST_FD, FIRST_FD + int(count))]
    for one in found:
        one.set_inheritable(False)
    return found


class ServiceManager:
    """Tells systemd about the state of the service."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        address = environment.get("NOTIFY_SOCKET", "")
        # A leading @ stands for the abstract namespace.
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) if address else None
        watched = environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        # The sign of life comes twice within the allowed time, as sd_watchdog_enabled(3) advises.
        self._interval_s = int(environment.get("WATCHDOG_USEC", "0") if watched else "0") / 2e6
        self._fed_s = 0.0

    def ready(self) -> None:
        """Tell systemd that the daemon has started, or that a reload has ended."""
        self.send("READY=1")

    def reloading(self) -> None:
        """Tell systemd that a reload has begun. `ready` ends the reload."""
        self.send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        """Tell systemd that the daemon is about to end."""
        self._offer("STOPPING=1")

    def status(self, text: str) -> None:
        """Set the line that `systemctl status` shows."""
        self._offer(f"STATUS={text}")

    def feed_watchdog(self) -> None:
        """Tell systemd that the loop still runs, if the watchdog's next message is due."""
        if self._interval_s:
            now_s = time.monotonic()
            if now_s - self._fed_s >= self._interval_s and self._offer("WATCHDOG=1"):
                self._fed_s = now_s

    def close(self) -> None:
        """Send no more messages."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def send(self, message: str) -> None:
        """Send a message. If the manager is gone, that is no error."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.sendto(message.encode(), self._address)

    def _offer(self, message: str) -> bool:
        """Send a message if the manager can take it now, because no step may wait. Return whether it was
        sent.
        """
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.sendto(message.encode(), socket.MSG_DONTWAIT, self._address)
                return True
        return False
