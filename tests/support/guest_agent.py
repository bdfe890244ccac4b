# SPDX-License-Identifier: Apache-2.0
"""The guest's agent and QEMU's plugin in one: a process that makes system calls on this machine's kernel.

Arguments: the file of the shared memory, and the descriptor of the socket over which the turns go.
"""

from __future__ import annotations

import ctypes
import mmap
import socket
import struct
import sys
import time
from pathlib import Path

NO_CALL = -1
CALL_AT, DATA_AT = 24, 88


def main(path: Path, descriptor: int) -> None:
    """Make calls until the socket is closed."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    turns = socket.socket(fileno=descriptor)
    with path.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), 0)
    data_at = ctypes.addressof(ctypes.c_char.from_buffer(memory)) + DATA_AT
    result = 0
    while True:
        clocks = (time.clock_gettime_ns(clock) for clock in (time.CLOCK_MONOTONIC, time.CLOCK_REALTIME))
        struct.pack_into("=qqqq", memory, 0, *clocks, result, NO_CALL)
        turns.send(b"\0")
        if not turns.recv(1):
            return
        number, in_data, *given = struct.unpack_from("=qQ6q", memory, CALL_AT)
        values = [value + data_at if in_data >> at & 1 else value for at, value in enumerate(given)]
        result = libc.syscall(ctypes.c_long(number), *map(ctypes.c_long, values))
        if result < 0:
            result = -ctypes.get_errno()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
