# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the kernel module, at the netlink socket: the daemon's own client sends and parses bytes.

Formats: `kmod-mutant/mutant.yaml`, `linux/netlink.h`, `linux/genetlink.h`.
"""

from __future__ import annotations

import errno
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np

from load.stream import Stream, address_of
from ltp_switcher.daemon.datapath import netlink, protocol
from ltp_switcher.daemon.datapath.netlink import attribute, parse_attributes
from ltp_switcher.daemon.datapath.protocol import (
    ArmAttr,
    Cmd,
    CommandAttr,
    ConfigAttr,
    ControlAttr,
    FlowAttr,
    PinAttr,
    StepAttr,
)

FAMILY_ID: Final = 31
GROUP_ID: Final = 5
RECORDS_A_MESSAGE: Final = 45
"""Records that fit the 32 KB that the kernel gives a message of a dump."""
CHURN_STEPS: Final = 10
_HEADER = struct.Struct("=IHHII")
_GENL = struct.Struct("=BBH")
_MULTI: Final = 2


def u16(value: int) -> bytes:
    return struct.pack("=H", value)


def u32(value: int) -> bytes:
    return struct.pack("=I", value)


def u64(value: int) -> bytes:
    return struct.pack("=Q", value)


class RefusedError(Exception):
    """The kernel's answer is this error number."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Module:
    """The module with the flows of a stream, of which `churn` end and begin every `CHURN_STEPS` steps."""

    def __init__(self, stream: Stream, churn: int = 0) -> None:
        self.stream = stream
        self._churn = churn
        self._steps = 0
        self._netns = Path("/proc/self/ns/net").stat().st_ino
        self._config = {
            ConfigAttr.DEFAULT_ARM: 1, ConfigAttr.FALLBACK_ARM: 1, ConfigAttr.WATCHDOG_MS: 1000,
            ConfigAttr.RESTORE: 0, ConfigAttr.HANDOVER: 1, ConfigAttr.FLOWS_MAX: 1 << 20,
        }  # fmt: skip
        self._events: list[socket.socket] = []
        self._identity: dict[int, bytes] = {}
        self._dumps: dict[int, Callable[[], Iterator[bytes]]] = {
            Cmd.ARM_GET: self._arms, Cmd.FLOW_GET: self._flows, Cmd.STEP_GET: self._step,
            # No flow ends with an outcome, and none begins by a table.
            Cmd.START_GET: lambda: iter([]), Cmd.OUTCOME_GET: lambda: iter([]),
        }  # fmt: skip
        self._requests: dict[int, Callable[[netlink.Attributes], bytes]] = {
            Cmd.FLOW_GET: lambda given: self._flow(self._place(given[FlowAttr.COOKIE])),
            Cmd.CONFIG_GET: lambda _: self._get_config(),
            Cmd.CONFIG_SET: self._set_config, Cmd.SELECT: self._select, Cmd.CONTROL: self._control,
            Cmd.PIN: self._pin, Cmd.UNPIN: self._unpin,
            Cmd.SESSION_OPEN: lambda _: b"", Cmd.SESSION_CLOSE: lambda _: b"", Cmd.START_SET: lambda _: b"",
        }  # fmt: skip

    def _get_config(self) -> bytes:
        # What a later module tells is off, or has not happened.
        values = dict.fromkeys(ConfigAttr, 0) | self._config | {ConfigAttr.FLOWS: len(self.stream)}
        return b"".join(attribute(kind, u32(value)) for kind, value in values.items())

    def socket(self, _: int) -> NetlinkSocket:
        """Open a socket, in place of `netlink.open_socket`."""
        return NetlinkSocket(self)

    def subscribe(self, end: socket.socket) -> None:
        """Tell births and deaths to this socket, too."""
        self._events.append(end)

    def answer(self, request: bytes) -> Iterator[bytes]:
        """The datagrams that answer a request."""
        _, family, flags, sequence, _ = _HEADER.unpack_from(request)
        command = request[_HEADER.size]
        given = parse_attributes(memoryview(request)[_HEADER.size + _GENL.size :])
        try:
            if family == netlink.GENL_ID_CTRL:
                yield message(netlink.GENL_ID_CTRL, 1, _family(), sequence)
            elif flags & netlink.NLM_F_DUMP == netlink.NLM_F_DUMP:
                for payload in self._dumps[command]():
                    yield message(FAMILY_ID, command, payload, sequence, _MULTI)
                yield _HEADER.pack(_HEADER.size + 4, netlink.NLMSG_DONE, _MULTI, sequence, 0) + u32(0)
            else:
                payload = self._requests[command](given)
                if not flags & netlink.NLM_F_ACK:
                    yield message(FAMILY_ID, command, payload, sequence)
                else:
                    yield _error(0, request, sequence)
        except RefusedError as refusal:
            yield _error(refusal.number, request, sequence)

    def _step(self) -> Iterator[bytes]:
        self._steps += 1
        if self._churn and self._steps % CHURN_STEPS == 0:
            self._replace()
        records = self.stream.close_step()
        head = attribute(StepAttr.RECORD_SIZE, u32(protocol.RECORD_DTYPE.itemsize))
        head += attribute(StepAttr.RECORD_VERSION, u32(protocol.RECORD_VERSION))
        for first in range(0, len(records), RECORDS_A_MESSAGE):
            batch = records[first : first + RECORDS_A_MESSAGE].tobytes()
            yield head + attribute(StepAttr.RECORDS, batch)

    def _replace(self) -> None:
        for place in self.stream.choose(self._churn):
            self._tell(Cmd.FLOW_DEATH, self._flow(place))
            self.stream.begin(place)
            self._tell(Cmd.FLOW_BIRTH, self._flow(place))

    def _tell(self, event: int, payload: bytes) -> None:
        for end in self._events:
            try:
                end.send(message(FAMILY_ID, event, payload, 0))
            except BlockingIOError:
                continue

    def _arms(self) -> Iterator[bytes]:
        for arm in protocol.ArmId:
            if arm == protocol.ArmId.NONE:
                continue
            kind = protocol.ArmKind.LEARNED if arm >= protocol.ArmId.LTP else protocol.ArmKind.KERNEL
            yield (
                attribute(ArmAttr.ID, u32(arm))
                + attribute(ArmAttr.NAME, arm.name.lower().encode() + b"\0")
                + attribute(ArmAttr.STATE, u32(protocol.ArmState.AVAILABLE))
                + attribute(ArmAttr.KIND, u32(kind))
            )

    def _flows(self) -> Iterator[bytes]:
        # All at once: the kernel does this in no time either.
        for place, record in enumerate(self.stream.look()):
            yield self._described(place, record)

    def _flow(self, place: int) -> bytes:
        return self._described(place, self.stream.look(place)[0])

    def _described(self, place: int, record: np.void) -> bytes:
        cookie = int(self.stream.cookie[place])
        if cookie not in self._identity:
            self._identity[cookie] = self._identify(place, cookie)
        age_ns = int(record["time_ns"]) - int(self.stream.born_ns[place])
        return (
            self._identity[cookie]
            + attribute(FlowAttr.AGE_NS, u64(age_ns))
            + attribute(FlowAttr.RECORD, record.tobytes())
        )

    def _identify(self, place: int, cookie: int) -> bytes:
        # A flow that comes to a place goes where the one before it went.
        family, remote = address_of(place)
        local = socket.inet_pton(family, "192.0.2.1" if family == socket.AF_INET else "2001:db8::1")
        return b"".join(
            (
                attribute(FlowAttr.COOKIE, u64(cookie)),
                attribute(FlowAttr.NETNS, u64(self._netns)),
                attribute(FlowAttr.FAMILY, u16(family)),
                attribute(FlowAttr.SADDR, local),
                attribute(FlowAttr.DADDR, remote),
                attribute(FlowAttr.SPORT, u16(443)),
                attribute(FlowAttr.DPORT, u16(1024 + cookie % 60_000)),
                attribute(FlowAttr.REASON, u32(0)),
            )
        )

    def _place(self, cookie: memoryview) -> int:
        try:
            return self.stream.index[netlink.read_uint(cookie)]
        except KeyError:
            raise RefusedError(errno.ENOENT) from None

    def _set_config(self, given: netlink.Attributes) -> bytes:
        self._config.update({ConfigAttr(k): netlink.read_uint(v) for k, v in given.items()})
        return b""

    def _select(self, given: netlink.Attributes) -> bytes:
        commands = np.frombuffer(given[CommandAttr.COMMANDS], protocol.COMMAND_DTYPE)
        found = [self.stream.index.get(cookie, -1) for cookie in commands["cookie"].tolist()]
        places = np.array(found, np.int64)
        known = places >= 0
        free = known & (self.stream.flags[places] & protocol.FlowFlags.PINNED == 0)
        self.stream.want[places[free]] = commands["arm"][free]
        self.stream.flags[places[free]] |= np.uint32(protocol.FlowFlags.STEERED)
        counts = (int(free.sum()), int((~known).sum()), int((known & ~free).sum()))
        kinds = (CommandAttr.APPLIED, CommandAttr.UNKNOWN, CommandAttr.REFUSED)
        return b"".join(attribute(kind, u32(count)) for kind, count in zip(kinds, counts, strict=True))

    def _control(self, given: netlink.Attributes) -> bytes:
        count = len(given[ControlAttr.CONTROLS]) // protocol.CONTROL_DTYPE.itemsize
        return attribute(ControlAttr.APPLIED, u32(count)) + b"".join(
            attribute(kind, u32(0))
            for kind in (ControlAttr.UNKNOWN, ControlAttr.REFUSED, ControlAttr.CLAMPED)
        )

    def _pin(self, given: netlink.Attributes) -> bytes:
        place = self._place(given[PinAttr.COOKIE])
        self.stream.want[place] = netlink.read_uint(given[PinAttr.ARM])
        self.stream.flags[place] |= np.uint32(protocol.FlowFlags.PINNED)
        return b""

    def _unpin(self, given: netlink.Attributes) -> bytes:
        self.stream.flags[self._place(given[PinAttr.COOKIE])] &= ~np.uint32(protocol.FlowFlags.PINNED)
        return b""


class NetlinkSocket:
    """A netlink socket of the stand-in, as far as `netlink` uses one."""

    def __init__(self, module: Module) -> None:
        self._module = module
        self._answer: Iterator[bytes] = iter(())
        self._read, self._write = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._write.setblocking(False)
        self._write.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)

    def send(self, request: bytes) -> int:
        self._answer = self._module.answer(request)
        return len(request)

    def recv_into(self, buffer: bytearray) -> int:
        datagram = next(self._answer)
        buffer[: len(datagram)] = datagram
        return len(datagram)

    def setsockopt(self, level: int, option: int, value: int) -> None:
        if (level, option) == (netlink.SOL_NETLINK, netlink.NETLINK_ADD_MEMBERSHIP):
            assert value == GROUP_ID
            self._module.subscribe(self._write)

    def recv(self, size: int) -> bytes:
        return self._read.recv(size)

    def setblocking(self, flag: bool) -> None:
        self._read.setblocking(flag)

    def fileno(self) -> int:
        return self._read.fileno()

    def close(self) -> None:
        self._read.close()
        self._write.close()


def message(family: int, command: int, payload: bytes, sequence: int, flags: int = 0) -> bytes:
    """One generic netlink message."""
    length = _HEADER.size + _GENL.size + len(payload)
    return _HEADER.pack(length, family, flags, sequence, 0) + _GENL.pack(command, 1, 0) + payload


def _error(number: int, request: bytes, sequence: int) -> bytes:
    body = struct.pack("=i", -number) + request[: _HEADER.size]
    header = _HEADER.pack(_HEADER.size + len(body), netlink.NLMSG_ERROR, netlink.NLM_F_CAPPED, sequence, 0)
    return header + body


def _family() -> bytes:
    group = attribute(netlink.CTRL_ATTR_MCAST_GRP_NAME, protocol.GROUP_EVENTS.encode() + b"\0")
    group += attribute(netlink.CTRL_ATTR_MCAST_GRP_ID, u32(GROUP_ID))
    return (
        attribute(netlink.CTRL_ATTR_FAMILY_NAME, protocol.FAMILY_NAME.encode() + b"\0")
        + attribute(netlink.CTRL_ATTR_FAMILY_ID, u16(FAMILY_ID))
        + attribute(netlink.CTRL_ATTR_VERSION, u32(protocol.FAMILY_VERSION))
        + attribute(netlink.CTRL_ATTR_MCAST_GROUPS, attribute(1, group))
    )
