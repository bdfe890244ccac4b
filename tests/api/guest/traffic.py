# SPDX-License-Identifier: Apache-2.0
"""Flows over the loopback that never end: one to 127.0.0.2, one to 127.0.0.3, under `mutant`."""

from __future__ import annotations

import selectors
import socket
import threading

CHUNK = b"x" * 65_536
PORT = 5001


def sink() -> None:
    """Read whatever comes."""
    selector = selectors.DefaultSelector()
    listener = socket.create_server(("0.0.0.0", PORT))  # noqa: S104
    selector.register(listener, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is listener:
                selector.register(listener.accept()[0], selectors.EVENT_READ)
            else:
                key.fileobj.recv(1 << 20)


def source(address: str) -> None:
    """Write as fast as the flow takes it."""
    with socket.socket() as flow:
        flow.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"mutant")
        flow.connect((address, PORT))
        while True:
            flow.sendall(CHUNK)


threading.Thread(target=sink).start()
for remote in ("127.0.0.2", "127.0.0.3"):
    threading.Thread(target=source, args=(remote,)).start()
