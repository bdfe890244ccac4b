# SPDX-License-Identifier: Apache-2.0
"""Connections to the control socket that say nothing, as many as one can hold, all of one user."""

from __future__ import annotations

import contextlib
import os
import selectors
import socket
import time
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from typing import Final

CLIENTS: Final = 100
NOBODY: Final = 65534
AGAIN_S: Final = 0.1


def start(path: str) -> BaseProcess:
    """The process. It has the socket's group and, where we are root, a user of its own."""
    process = get_context("fork").Process(target=_hold, args=(path,), daemon=True)
    process.start()
    return process


def _hold(path: str) -> None:
    if os.getuid() == 0:
        os.setgroups([])
        os.setresuid(NOBODY, NOBODY, NOBODY)
    selector = selectors.DefaultSelector()
    while True:
        while len(selector.get_map()) < CLIENTS:
            client = socket.socket(socket.AF_UNIX)
            client.connect(path)
            selector.register(client, selectors.EVENT_READ)
        for key, _ in selector.select(AGAIN_S):
            client = key.fileobj  # type: ignore[assignment]
            with contextlib.suppress(ConnectionResetError):
                if client.recv(4096):
                    continue
            selector.unregister(client)
            client.close()
        time.sleep(AGAIN_S)
