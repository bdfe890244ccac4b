# SPDX-License-Identifier: Apache-2.0
"""A process that answers netlink requests as the module does, with the flows of a `Crowd`.

The process is at the other end of a socket pair. So the daemon's side sends, receives and parses real
messages. Its processor time includes the same copies as with a real netlink socket.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np
import numpy.typing as npt

from ltp_switcher.daemon.datapath import protocol
from ltp_switcher.daemon.datapath.netlink import (
    CTRL_ATTR_FAMILY_ID,
    CTRL_ATTR_VERSION,
    GENL_ID_CTRL,
    NLM_F_DUMP,
    NLMSG_DONE,
    NLMSG_ERROR,
    Attributes,
    attribute,
    parse_attributes,
)
from ltp_switcher.daemon.datapath.protocol import Cmd
from ltp_switcher.daemon.service.bench.crowd import Crowd

FAMILY_ID: Final = 0x20
DATAGRAM_BYTES: Final = 32_000
"""Bytes that the kernel puts into one message of a dump."""
_HEADER = struct.Struct("=IHHII")
_GENL = struct.Struct("=BBH")
_HEADERS: Final = _HEADER.size + _GENL.size


@contextmanager
def stand_in(crowd: Crowd, start_ns: int, step_ns: int) -> Iterator[socket.socket]:
    """Start the process, and lend the daemon's end of the socket pair. The process stops when the context
    ends.

    The process answers each request `step-get` as if `step_ns` had passed since the one before. Its clock
    begins at `start_ns`.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for end in (ours, theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    child = os.fork()
    if not child:
        ours.close()
        try:
            _Answers(theirs, crowd, start_ns, step_ns).serve()
        finally:
            os._exit(0)
    theirs.close()
    try:
        yield ours
    finally:
        ours.close()
        os.waitpid(child, 0)


class _Answers:
    """The module's side of the conversation."""

    def __init__(self, end: socket.socket, crowd: Crowd, now_ns: int, step_ns: int) -> None:
        self._end = end
        self._crowd = crowd
        self._now_ns = now_ns
        self._step_ns = step_ns
        self._header = (0, 0)
        self._commands: dict[int, Callable[[Attributes], None]] = {
            Cmd.SESSION_OPEN: self._session,
            Cmd.STEP_GET: self._step,
            Cmd.SELECT: self._select,
            Cmd.CONTROL: self._control,
            Cmd.FLOW_GET: self._flow,
            Cmd.CONFIG_GET: self._config,
        }

    def serve(self) -> None:
        """Answer until the other end is closed."""
        while request := self._end.recv(1 << 17):
            _, kind, flags, sequence, _ = _HEADER.unpack_from(request)
            command, _, _ = _GENL.unpack_from(request, _HEADER.size)
            self._header = (sequence, flags)
            attributes = parse_attributes(memoryview(request)[_HEADERS:])
            if kind == GENL_ID_CTRL:
                found = attribute(CTRL_ATTR_FAMILY_ID, struct.pack("=H", FAMILY_ID))
                self._reply(1, found + attribute(CTRL_ATTR_VERSION, struct.pack("=I", 1)), kind)
            elif command in self._commands:
                self._commands[command](attributes)
            else:
                self._done()

    def _send(self, kind: int, payload: bytes) -> None:
        sequence, _ = self._header
        self._end.send(_HEADER.pack(_HEADER.size + len(payload), kind, 0, sequence, 0) + payload)

    def _reply(self, command: int, payload: bytes, kind: int = FAMILY_ID) -> None:
        self._send(kind, _GENL.pack(command, 1, 0) + payload)

    def _session(self, attributes: Attributes) -> None:
        quarters = attributes.get(protocol.SessionAttr.RTT_QUARTERS)
        self._crowd.rtt_quarters = quarters[0] if quarters else 0
        self._done()

    def _done(self) -> None:
        sequence, _ = self._header
        self._send(NLMSG_ERROR, struct.pack("=i", 0) + _HEADER.pack(_HEADER.size, 0, 0, sequence, 0))

    def _step(self, _: Attributes) -> None:
        self._now_ns += self._step_ns
        records = self._crowd.step(self._now_ns).tobytes()
        size = protocol.RECORD_DTYPE.itemsize
        head = attribute(protocol.StepAttr.RECORD_SIZE, struct.pack("=I", size))
        head += attribute(protocol.StepAttr.RECORD_VERSION, struct.pack("=I", protocol.RECORD_VERSION))
        page = DATAGRAM_BYTES // size * size
        for at in range(0, len(records), page):
            part = attribute(protocol.StepAttr.RECORDS, records[at : at + page])
            self._reply(Cmd.STEP_GET, head + part)
        self._send(NLMSG_DONE, struct.pack("=i", 0))

    def _select(self, attributes: Attributes) -> None:
        commands = _array(attributes, protocol.CommandAttr.COMMANDS, protocol.COMMAND_DTYPE)
        self._crowd.select(commands)
        kinds = protocol.CommandAttr
        self._count(Cmd.SELECT, len(commands), kinds.APPLIED, kinds.UNKNOWN, kinds.REFUSED)

    def _control(self, attributes: Attributes) -> None:
        controls = _array(attributes, protocol.ControlAttr.CONTROLS, protocol.CONTROL_DTYPE)
        self._crowd.control(controls)
        kinds = protocol.ControlAttr
        self._count(Cmd.CONTROL, len(controls), kinds.APPLIED, kinds.UNKNOWN, kinds.REFUSED, kinds.CLAMPED)

    def _count(self, command: int, applied: int, *kinds: int) -> None:
        counts = [applied, *[0] * (len(kinds) - 1)]
        parts = [attribute(kind, struct.pack("=I", n)) for kind, n in zip(kinds, counts, strict=True)]
        self._reply(command, b"".join(parts))

    def _flow(self, attributes: Attributes) -> None:
        _, flags = self._header
        if flags & NLM_F_DUMP != NLM_F_DUMP:
            cookie = int.from_bytes(attributes[protocol.FlowAttr.COOKIE], "little")
            if not 1 <= cookie <= len(self._crowd.records):
                self._send(NLMSG_ERROR, struct.pack("=i", -errno.ENOENT))
                return
            self._reply(Cmd.FLOW_GET, self._described(cookie - 1))
            return
        for row in range(len(self._crowd.records)):
            self._reply(Cmd.FLOW_GET, self._described(row))
        self._send(NLMSG_DONE, struct.pack("=i", 0))

    def _described(self, row: int) -> bytes:
        """A flow of its own /24, as the module describes it."""
        kinds = protocol.FlowAttr
        parts = {
            kinds.COOKIE: struct.pack("=Q", row + 1),
            kinds.NETNS: struct.pack("=Q", 1),
            kinds.FAMILY: struct.pack("=H", socket.AF_INET),
            kinds.SADDR: bytes((198, 51, 100, 1)),
            kinds.DADDR: struct.pack(">I", (10 << 24) + (row << 8) + 1),
            kinds.SPORT: struct.pack("=H", 443),
            kinds.DPORT: struct.pack("=H", 50_000),
            kinds.AGE_NS: struct.pack("=Q", 10**9),
            kinds.REASON: struct.pack("=I", 0),
            kinds.RECORD: self._crowd.records[row].tobytes(),
        }
        return b"".join(attribute(kind, data) for kind, data in parts.items())

    def _config(self, _: Attributes) -> None:
        kinds = protocol.ConfigAttr
        values = {
            kinds.DEFAULT_ARM: protocol.ArmId.CUBIC,
            kinds.FALLBACK_ARM: protocol.ArmId.CUBIC,
            kinds.WATCHDOG_MS: 0,
            kinds.RESTORE: protocol.RestoreMode.REBASE,
            kinds.HANDOVER: protocol.HandoverMode.BDP,
            kinds.FLOWS_MAX: 1 << 19,
        }
        parts = [attribute(kind, struct.pack("=I", value)) for kind, value in values.items()]
        self._reply(Cmd.CONFIG_GET, b"".join(parts))


def _array(attributes: Attributes, kind: int, dtype: npt.DTypeLike) -> npt.NDArray[np.void]:
    return np.frombuffer(bytes(attributes[kind]), dtype=dtype)
