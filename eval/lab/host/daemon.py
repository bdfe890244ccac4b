# SPDX-License-Identifier: Apache-2.0
"""The daemon beside the guest: a process of the host whose clock, sockets and waiting are the guest's.

While the daemon works, the guest stands still at one moment of its time; see handover.c. The guest's agent
makes each of the daemon's system calls; see ../guest/agent. In the guest, the daemon's own work would take
time. A model knows this time, and the guest sleeps for it after the records of a step are read.

The daemon runs in the guest's own Python. It sees no other part of this package.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import select
import selectors
import signal
import socket
import struct
import sys
import time
import types
from collections.abc import Callable
from pathlib import Path
from typing import Final

MAILBOX_BYTES: Final = 1 << 20
_CLOCKS: Final = struct.Struct("=qqq")  # monotonic_ns, real_ns, result
_CALL: Final = struct.Struct("=qQ6q")  # number, in_data, arguments
_CALL_AT: Final = _CLOCKS.size
_DATA_AT: Final = _CALL_AT + _CALL.size
_ROOM_AT: Final = 1 << 19
"""Offset of the bytes that a system call writes, in the mailbox's data."""

# Numbers of system calls on x86-64: asm/unistd_64.h.
_READ, _WRITE, _CLOSE, _RT_SIGPROCMASK, _SOCKET, _SENDTO, _RECVFROM = 0, 1, 3, 14, 41, 44, 45
_BIND, _SETSOCKOPT, _CLOCK_NANOSLEEP, _EXIT_GROUP, _OPENAT = 49, 54, 230, 231, 257
_NEWFSTATAT, _PPOLL, _SIGNALFD4 = 262, 271, 289

_AT_FDCWD: Final = -100
_CLOCK_MONOTONIC, _TIMER_ABSTIME = 1, 1
_POLLIN: Final = 1
_POLLFD: Final = struct.Struct("=ihh")
_TIMESPEC: Final = struct.Struct("=qq")
_S: Final = 1_000_000_000
_STAT_BYTES, _ST_INO_AT = 144, 8
_SIGINFO_BYTES: Final = 128
GUEST: Final = 1 << 20
"""Number that is added to a descriptor of the guest, so that it differs from the host's descriptors."""


class Room(int):
    """Argument of a system call: a buffer in the mailbox that the call fills, by its size in bytes."""


class Kernel:
    """The guest's kernel, as the daemon calls it. A system call takes its time in the guest. All other work
    takes the time that `spend` is told.
    """

    def __init__(self, memory: mmap.mmap, turns: socket.socket) -> None:
        self._memory = memory
        self._turns = turns
        self._spent_ns = 0
        self._now_ns = self._real_ns = self._result = 0

    def begin(self) -> None:
        """Wait for the guest's agent."""
        self._await_turn()

    def end(self, status: int) -> None:
        """Let the agent exit. No call is possible after this."""
        self._write_call(_EXIT_GROUP, status)
        self._turns.send(b"\0")

    def monotonic_ns(self) -> int:
        """The guest's CLOCK_MONOTONIC."""
        return self._now_ns + self._spent_ns

    def real_ns(self) -> int:
        """The guest's CLOCK_REALTIME."""
        return self._real_ns + self._spent_ns

    def spend(self, ns: int) -> None:
        """Count this time as spent: the guest sleeps for it before the next call."""
        self._spent_ns += ns

    def call(self, number: int, *arguments: int | bytes) -> int:
        """Make a system call in the guest, and return its result.

        Raises:
            OSError: the call failed.
        """
        if self._spent_ns:
            until = _TIMESPEC.pack(*divmod(self.monotonic_ns(), _S))
            self._call(_CLOCK_NANOSLEEP, _CLOCK_MONOTONIC, _TIMER_ABSTIME, until, 0)
            self._spent_ns = 0
        return self._call(number, *arguments)

    def written(self, length: int) -> bytes:
        """The first `length` bytes that the last system call wrote into its `Room`, the buffer among its
        arguments.
        """
        return self._memory[_DATA_AT + _ROOM_AT : _DATA_AT + _ROOM_AT + length]

    def first(self, length: int) -> bytes:
        """The first `length` bytes of the last call's first argument in memory, which the call may have
        changed.
        """
        return self._memory[_DATA_AT : _DATA_AT + length]

    def _call(self, number: int, *arguments: int | bytes) -> int:
        self._write_call(number, *arguments)
        self._turns.send(b"\0")
        self._await_turn()
        if self._result < 0:
            raise OSError(-self._result, os.strerror(-self._result))
        return self._result

    def _write_call(self, number: int, *arguments: int | bytes) -> None:
        values, in_data, at = [0] * 6, 0, 0
        for index, argument in enumerate(arguments):
            if isinstance(argument, int) and not isinstance(argument, Room):
                values[index] = argument
                continue
            in_data |= 1 << index
            if isinstance(argument, Room):
                values[index] = _ROOM_AT
                continue
            self._memory[_DATA_AT + at : _DATA_AT + at + len(argument)] = argument
            values[index] = at
            at += (len(argument) + 7) & ~7
        _CALL.pack_into(self._memory, _CALL_AT, number, in_data, *values)

    def _await_turn(self) -> None:
        """Wait until the guest hands over control. If the guest is switched off instead, end this process."""
        if not self._turns.recv(1):
            sys.stderr.flush()
            os._exit(0)
        self._now_ns, self._real_ns, self._result = _CLOCKS.unpack_from(self._memory)


class GuestSocket:
    """A socket of the guest, with the methods that `netlink` calls."""

    kernel: Kernel

    def __init__(self, family: int, kind: int, protocol: int) -> None:
        self._fd = self.kernel.call(_SOCKET, family, kind, protocol)
        self._flags = 0

    def fileno(self) -> int:
        """The number by which `GuestSelector` knows this socket. It is no file descriptor of the host."""
        return GUEST + self._fd

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        """See `socket.setsockopt`."""
        data = struct.pack("=i", value) if isinstance(value, int) else value
        self.kernel.call(_SETSOCKOPT, self._fd, level, option, data, len(data))

    def bind(self, address: tuple[int, int]) -> None:
        """Bind to a netlink address: port and groups."""
        name = struct.pack("=HHII", socket.AF_NETLINK, 0, *address)
        self.kernel.call(_BIND, self._fd, name, len(name))

    def setblocking(self, flag: bool) -> None:
        """See `socket.setblocking`."""
        self._flags = 0 if flag else socket.MSG_DONTWAIT

    def send(self, data: bytes) -> int:
        """See `socket.send`."""
        return self.kernel.call(_SENDTO, self._fd, data, len(data), 0, 0, 0)

    def recv(self, size: int) -> bytes:
        """See `socket.recv`."""
        return self._received(size)

    def recv_into(self, buffer: bytearray) -> int:
        """See `socket.recv_into`."""
        data = self._received(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """See `socket.close`."""
        self.kernel.call(_CLOSE, self._fd)

    def _received(self, size: int) -> bytes:
        got = self.kernel.call(_RECVFROM, self._fd, Room(size), size, self._flags, 0, 0)
        return self.kernel.written(min(got, size))


class GuestSelector(selectors.SelectSelector):
    """Waits in the guest for descriptors of the guest, and for a SIGTERM to the agent. Such a signal is also
    sent to this process.

    Descriptors of the host are ready only after such a signal. Nothing else of the host may reach the daemon.
    """

    kernel: Kernel

    def __init__(self) -> None:
        super().__init__()
        wanted = struct.pack("=Q", 1 << (signal.SIGTERM - 1))
        self.kernel.call(_RT_SIGPROCMASK, signal.SIG_BLOCK, wanted, 0, len(wanted))
        self._signals = self.kernel.call(_SIGNALFD4, -1, wanted, len(wanted), 0)

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """See `BaseSelector.select`; the time is the guest's."""
        keys = {key.fd: key for key in self.get_map().values()}
        guests = [fd for fd in keys if fd >= GUEST]
        watched = [self._signals, *(fd - GUEST for fd in guests)]
        polled = b"".join(_POLLFD.pack(fd, _POLLIN, 0) for fd in watched)
        limit: int | bytes = 0
        if timeout is not None:
            limit = _TIMESPEC.pack(*divmod(max(0, round(timeout * _S)), _S))
        self.kernel.call(_PPOLL, polled, len(watched), limit, 0, 0)
        signalled, *events = [got for _, _, got in _POLLFD.iter_unpack(self.kernel.first(len(polled)))]
        ready = [fd for fd, got in zip(guests, events, strict=True) if got]
        if signalled:
            self.kernel.call(_READ, self._signals, Room(_SIGINFO_BYTES), _SIGINFO_BYTES)
            os.kill(os.getpid(), signal.SIGTERM)
            ready += select.select([fd for fd in keys if fd < GUEST], [], [], 0)[0]
        return [(keys[fd], selectors.EVENT_READ) for fd in ready]


def write_file(kernel: Kernel, path: str, content: bytes) -> None:
    """Write a small file of the guest."""
    fd = kernel.call(_OPENAT, _AT_FDCWD, path.encode() + b"\0", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    kernel.call(_WRITE, fd, content, len(content))
    kernel.call(_CLOSE, fd)


def own_namespace(kernel: Kernel) -> int:
    """Inode number of the network namespace of the agent, which is the daemon's own namespace
    in the guest.
    """
    kernel.call(_NEWFSTATAT, _AT_FDCWD, b"/proc/self/ns/net\0", Room(_STAT_BYTES), 0)
    return int(struct.unpack_from("=Q", kernel.written(_STAT_BYTES), _ST_INO_AT)[0])


def move_into(kernel: Kernel) -> None:
    """Give this process the guest's clocks and the guest's way to wait. Call this before the daemon is
    imported.
    """

    def sleep(seconds: float) -> None:
        kernel.spend(round(seconds * _S))

    clocks: dict[str, Callable[[], float]] = {
        "monotonic_ns": kernel.monotonic_ns,
        "perf_counter_ns": kernel.monotonic_ns,
        "time_ns": kernel.real_ns,
        "monotonic": lambda: kernel.monotonic_ns() / _S,
        "perf_counter": lambda: kernel.monotonic_ns() / _S,
        "time": lambda: kernel.real_ns() / _S,
    }
    for name, clock in {**clocks, "sleep": sleep}.items():
        setattr(time, name, clock)
    GuestSelector.kernel = GuestSocket.kernel = kernel
    selectors.SelectSelector = GuestSelector  # type: ignore[misc]


def main(arguments: list[str]) -> None:
    """Run the daemon.

    Args:
        arguments: settings as JSON, the path of the shared memory's file, and the descriptor of the socket
            that passes control between guest and daemon.
    """
    given = json.loads(arguments[0])
    channel, turns = Path(arguments[1]), socket.socket(fileno=int(arguments[2]))
    with channel.open("r+b") as file:
        memory = mmap.mmap(file.fileno(), MAILBOX_BYTES, offset=channel.stat().st_size - MAILBOX_BYTES)
    kernel = Kernel(memory, turns)
    move_into(kernel)

    import numpy as np

    from ltp_switcher.daemon.control.caller import Caller
    from ltp_switcher.daemon.control.methods import Methods
    from ltp_switcher.daemon.datapath import Datapath, RecordArray, netlink
    from ltp_switcher.daemon.service import daemon as service
    from ltp_switcher.daemon.service import log
    from ltp_switcher.daemon.settings import load
    from ltp_switcher.daemon.steer import LEARNED

    # The daemon's own code opens these sockets and sets their options.
    setattr(netlink, "socket", types.SimpleNamespace(**{**vars(socket), "socket": GuestSocket}))  # noqa: B010
    delays, policy, close_step = given["delays_ns"], given["policy"], Datapath.close_step

    def step_closed(datapath: Datapath) -> RecordArray:
        records = close_step(datapath)
        own = delays[policy]
        if not records.size:
            kernel.spend(own["empty"])
            return records
        kernel.spend(own["step"] + own["flow"] * len(records))
        wanted = np.bincount(records["want_arm"], minlength=256)
        for arm, name in LEARNED.items():
            if wanted[arm]:
                kernel.spend(delays[name]["step"] + delays[name]["flow"] * int(wanted[arm]))
        return records

    setattr(Datapath, "close_step", step_closed)  # noqa: B010

    # The program `ltp-switcher` freezes its objects, too.
    gc.collect()
    gc.freeze()
    kernel.begin()
    netlink.own_namespace = lambda: own_namespace(kernel)
    layers = load.layers(
        Path("daemon.toml"), {}, {"daemon.control_socket": "control.sock", "daemon.state_dir": "state"}
    )
    Path("state").mkdir()
    log.set_up(layers.config().daemon.log_level)
    daemon = service.Daemon(layers, lambda: layers)
    write_file(kernel, given["ready"], b"")
    daemon.run()
    if given["status"]:
        status = Methods(daemon).handle("status", {}, Caller(0, 0))
        write_file(kernel, given["status"], json.dumps(status).encode())
    kernel.end(0)


if __name__ == "__main__":
    main(sys.argv[1:])
