# SPDX-License-Identifier: Apache-2.0
"""Flows that must not be lost: numbered data over some connections, checked at the other end.

`flows.py sink ADDRESS` reads. `flows.py source ADDRESS STATE` writes with COUNT connections, half of them
under the machine's default congestion control. Every half second it tells about them in STATE, as JSON.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import time
from pathlib import Path

PORT = 7000
COUNT = 6
BLOCK = 8192
# Enough to be steered, and little enough for an emulated processor.
BLOCKS_PER_S = 12
ACK = b"."


def block(number: int) -> bytes:
    """Block `number` of a flow: every byte of it depends on the number."""
    return number.to_bytes(8, "big") * (BLOCK // 8)


def serve(flow: socket.socket) -> None:
    """Answer each right block with a byte, and end the flow at a wrong one."""
    number = 0
    with flow, flow.makefile("rb") as data:
        while len(got := data.read(BLOCK)) == BLOCK and got == block(number):
            flow.sendall(ACK)
            number += 1


def sink(address: str) -> None:
    """Serve every flow that comes."""
    listener = socket.create_server((address, PORT))
    while True:
        threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()


class Flow(threading.Thread):
    """A connection that never ends by itself. `acknowledged`: blocks that the other end has checked."""

    def __init__(self, address: str, name: str) -> None:
        super().__init__(daemon=True)
        self.acknowledged = 0
        self.error = ""
        self.flow = socket.socket()
        if name:
            self.flow.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
        self.flow.connect((address, PORT))

    def run(self) -> None:
        """Write blocks at the set rate until something fails."""
        threading.Thread(target=self.count, daemon=True).start()
        try:
            number = 0
            while True:
                self.flow.sendall(block(number))
                number += 1
                time.sleep(1 / BLOCKS_PER_S)
        except OSError as error:
            self.error = str(error)

    def count(self) -> None:
        """Count the other end's answers."""
        try:
            while got := self.flow.recv(4096):
                self.acknowledged += len(got)
            self.error = self.error or "the other end ended the flow"
        except OSError as error:
            self.error = str(error)


def source(address: str, state: Path) -> None:
    """Keep the flows going, and tell about them."""
    flows = [Flow(address, "mutant" if number % 2 else "") for number in range(COUNT)]
    for flow in flows:
        flow.start()
    while True:
        told = {
            "acknowledged": [flow.acknowledged for flow in flows],
            "errors": [flow.error for flow in flows if flow.error],
            "congestion": sorted(
                {
                    flow.flow.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0").decode()
                    for flow in flows
                }
            ),
        }
        partial = state.with_suffix(".partial")
        partial.write_text(json.dumps(told))
        os.replace(partial, state)  # noqa: PTH105
        time.sleep(0.5)


if sys.argv[1] == "sink":
    sink(sys.argv[2])
else:
    source(sys.argv[2], Path(sys.argv[3]))
