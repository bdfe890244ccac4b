# SPDX-License-Identifier: Apache-2.0
"""Generic netlink over a plain socket: families, requests, dumps, multicast, extended errors.

The module has only the parts that the client of the kernel module needs, and knows nothing of `mutant`.
Formats: `linux/netlink.h`, `linux/genetlink.h`.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ltp_switcher.errors import DatapathError

NETLINK_GENERIC: Final = 16
SOL_NETLINK: Final = 270
NETLINK_ADD_MEMBERSHIP: Final = 1
NETLINK_CAP_ACK: Final = 10
NETLINK_EXT_ACK: Final = 11
NETLINK_GET_STRICT_CHK: Final = 12
SO_RCVBUFFORCE: Final = 33

NLMSG_ERROR: Final = 2
NLMSG_DONE: Final = 3
NLMSG_OVERRUN: Final = 4
NLM_F_REQUEST: Final = 0x01
NLM_F_ACK: Final = 0x04
NLM_F_DUMP_INTR: Final = 0x10
NLM_F_DUMP: Final = 0x300
NLM_F_CAPPED: Final = 0x100
NLM_F_ACK_TLVS: Final = 0x200

GENL_ID_CTRL: Final = 16
CTRL_CMD_GETFAMILY: Final = 3
CTRL_ATTR_FAMILY_ID: Final = 1
CTRL_ATTR_FAMILY_NAME: Final = 2
CTRL_ATTR_VERSION: Final = 3
CTRL_ATTR_MCAST_GROUPS: Final = 7
CTRL_ATTR_MCAST_GRP_NAME: Final = 1
CTRL_ATTR_MCAST_GRP_ID: Final = 2

NLMSGERR_ATTR_MSG: Final = 1
NLMSGERR_ATTR_OFFS: Final = 2

NLA_TYPE_MASK: Final = 0x3FFF
ATTRIBUTE_MAX_BYTES: Final = 0xFFFF - 4
"""Largest size of an attribute in bytes, because its length field has 16 bits."""

ANSWER_S: Final = 5
"""Time after which a request without an answer is given up, in seconds."""

_HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence, port
_GENL = struct.Struct("=BBH")  # command, version, reserved
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_U32 = struct.Struct("=I")
_S32 = struct.Struct("=i")
_MESSAGE_AT = _HEADER.size
_PAYLOAD_AT = _HEADER.size + _GENL.size

Attributes = dict[int, memoryview]


class NetlinkError(DatapathError):
    """The kernel answered a request with an error.

    `errno` is the kernel's error number, as a positive number. `reason` is the kernel's extended text, or
    empty. `offset` is the place in bytes of the part of the request to which the kernel objects; None if the
    kernel names no part.
    """

    def __init__(self, code: int, reason: str = "", offset: int | None = None) -> None:
        self.errno = code
        self.reason = reason
        self.offset = offset
        name = errno.errorcode.get(code, str(code))
        super().__init__(f"{name}: {reason or os.strerror(code)}")


@dataclass(frozen=True, slots=True)
class Family:
    """A generic netlink family, as the kernel knows it. `groups` has the ids of multicast groups by name."""

    name: str
    id: int
    version: int
    groups: dict[str, int] = field(default_factory=dict)


class Message(NamedTuple):
    """One message of the family: its command and its payload after the generic header."""

    command: int
    payload: memoryview


def attribute(kind: int, payload: bytes | bytearray | memoryview) -> bytes:
    """Encode one attribute, padded to 4 bytes. Raises `DatapathError` if the payload does not fit."""
    length = len(payload)
    if length > ATTRIBUTE_MAX_BYTES:
        raise DatapathError(
            f"attribute {kind} of {length} bytes; a netlink attribute holds {ATTRIBUTE_MAX_BYTES}"
        )
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + length, kind) + payload + bytes(-length % 4)


def parse_attributes(data: memoryview) -> Attributes:
    """Return the payloads of attributes by type. If a type is repeated, its last attribute counts. Raises
    `DatapathError` on a malformed list.
    """
    return dict(iterate_attributes(data))


def find_attribute(data: memoryview, wanted: int) -> memoryview | None:
    """Return the payload of the first attribute of this type, or None. Raises `DatapathError` if the list
    before it is malformed.
    """
    at, end = 0, len(data)
    while at + 4 <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < 4 or at + length > end:
            raise DatapathError(f"malformed netlink attribute of length {length} at byte {at} of {end}")
        if kind & NLA_TYPE_MASK == wanted:
            return data[at + 4 : at + length]
        at += (length + 3) & ~3
    return None


def iterate_attributes(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yield every attribute in the order of the list, as (type, payload). Raises `DatapathError` on a
    malformed list.
    """
    at, end = 0, len(data)
    while at + 4 <= end:
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < 4 or at + length > end:
            raise DatapathError(f"malformed netlink attribute of length {length} at byte {at} of {end}")
        yield kind & NLA_TYPE_MASK, data[at + 4 : at + length]
        at += (length + 3) & ~3


class GenericNetlink:
    """A socket for requests, one request at a time and from one thread at a time.

    `connected` is a socket to use in place of a new one. The process at its other end answers as the kernel
    would.
    """

    def __init__(
        self, connected: socket.socket | None = None, *, receive_buffer_bytes: int = 1 << 20
    ) -> None:
        self._socket = connected or open_socket(receive_buffer_bytes)
        self._sequence = 0
        self.dump_interrupted = False
        # The kernel sizes the messages of a dump by the largest buffer that it was offered.
        self._buffer = bytearray(1 << 16)
        self._view = memoryview(self._buffer)

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def family(self, name: str) -> Family:
        """Resolve a family and its multicast groups. Raises `NetlinkError` (ENOENT) if the kernel does not
        have it.
        """
        query = attribute(CTRL_ATTR_FAMILY_NAME, name.encode() + b"\0")
        controller = Family("nlctrl", GENL_ID_CTRL, 1)
        found = parse_attributes(self.request(controller, CTRL_CMD_GETFAMILY, query).payload)
        groups = {}
        for _, entry in iterate_attributes(found.get(CTRL_ATTR_MCAST_GROUPS, memoryview(b""))):
            group = parse_attributes(entry)
            label = bytes(group[CTRL_ATTR_MCAST_GRP_NAME]).rstrip(b"\0").decode()
            groups[label] = read_uint(group[CTRL_ATTR_MCAST_GRP_ID])
        return Family(
            name, read_uint(found[CTRL_ATTR_FAMILY_ID]), read_uint(found[CTRL_ATTR_VERSION]), groups
        )

    def request(self, family: Family, command: int, payload: bytes = b"") -> Message:
        """Send a request and return its reply. The reply's payload is valid until the next call.

        Raises `NetlinkError` if the kernel answers with an error.
        """
        # NLM_F_ACK is not set, because the reply is an answer already, and an error comes in any case.
        sequence = self._send(family, command, NLM_F_REQUEST, payload)
        while True:
            for kind, flags, start, end in self._receive(sequence):
                if kind != NLMSG_ERROR:
                    return Message(self._buffer[start], self._view[start + _GENL.size : end])
                self._raise_if_error(flags, start, end)

    def order(self, family: Family, command: int, payload: bytes = b"") -> None:
        """Send a request that has no reply, and wait until the kernel has done it. Raises `NetlinkError`."""
        sequence = self._send(family, command, NLM_F_REQUEST | NLM_F_ACK, payload)
        while True:
            for kind, flags, start, end in self._receive(sequence):
                if kind == NLMSG_ERROR:
                    self._raise_if_error(flags, start, end)
                    return

    def dump(self, family: Family, command: int, payload: bytes = b"") -> Iterator[Message]:
        """Dump a command's objects. The payload of a message is valid until the next message is asked for.

        Afterwards `dump_interrupted` says whether the kernel's list changed during the dump. Raises
        `NetlinkError` if the kernel answers with an error.
        """
        sequence = self._send(family, command, NLM_F_REQUEST | NLM_F_DUMP, payload)
        self.dump_interrupted = False
        while True:
            for kind, flags, start, end in self._receive(sequence):
                if kind == NLMSG_ERROR:
                    self._raise_if_error(flags, start, end)
                    return
                if flags & NLM_F_DUMP_INTR:
                    self.dump_interrupted = True
                if kind == NLMSG_DONE:
                    self._raise_if_error(flags, start, end, repeats_request=False)
                    return
                yield Message(self._buffer[start], self._view[start + _GENL.size : end])

    def _send(self, family: Family, command: int, flags: int, payload: bytes) -> int:
        self._sequence = sequence = (self._sequence + 1) & 0xFFFFFFFF
        header = _HEADER.pack(_PAYLOAD_AT + len(payload), family.id, flags, sequence, 0)
        try:
            self._socket.send(header + _GENL.pack(command, family.version, 0) + payload)
        except OSError as error:
            raise NetlinkError(error.errno or errno.EIO) from error
        return sequence

    def _receive(self, sequence: int) -> Iterator[tuple[int, int, int, int]]:
        """Receive a datagram. Yield its messages that answer the request `sequence`, as (type, flags, start,
        end) in the buffer.
        """
        try:
            size = self._socket.recv_into(self._buffer)
        except BlockingIOError:
            raise DatapathError(f"the kernel did not answer a netlink request within {ANSWER_S} s") from None
        except OSError as error:
            raise NetlinkError(error.errno or errno.EIO) from error
        at = 0
        while at + _MESSAGE_AT <= size:
            length, kind, flags, number, _ = _HEADER.unpack_from(self._buffer, at)
            if length < _MESSAGE_AT or at + length > size:
                raise DatapathError(f"malformed netlink message of length {length} in a datagram of {size}")
            # A message with another sequence number answers a request that was given up.
            if number == sequence:
                yield kind, flags, at + _MESSAGE_AT, at + length
            at += (length + 3) & ~3

    def _raise_if_error(self, flags: int, start: int, end: int, *, repeats_request: bool = True) -> None:
        code = -_S32.unpack_from(self._buffer, start)[0] if end - start >= 4 else 0
        if code == 0:
            return
        at = start + 4
        if repeats_request:
            request_length = _U32.unpack_from(self._buffer, at)[0]
            at += _HEADER.size if flags & NLM_F_CAPPED else (request_length + 3) & ~3
        reason, offset = "", None
        if flags & NLM_F_ACK_TLVS and at < end:
            details = parse_attributes(self._view[at:end])
            if NLMSGERR_ATTR_MSG in details:
                reason = bytes(details[NLMSGERR_ATTR_MSG]).rstrip(b"\0").decode(errors="replace")
            if NLMSGERR_ATTR_OFFS in details:
                offset = read_uint(details[NLMSGERR_ATTR_OFFS])
        raise NetlinkError(code, reason, offset)


class GenericNetlinkEvents:
    """A non-blocking socket subscribed to one multicast group."""

    def __init__(self, group_id: int, *, receive_buffer_bytes: int = 4 << 20) -> None:
        self._socket = open_socket(receive_buffer_bytes)
        self._socket.setblocking(False)
        try:
            self._socket.setsockopt(SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group_id)
        except OSError as error:
            self._socket.close()
            raise NetlinkError(error.errno or errno.EIO) from error

    def fileno(self) -> int:
        """Return the file descriptor on which to wait for messages."""
        return self._socket.fileno()

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()

    def read(self, limit: int = 64) -> tuple[list[Message], bool]:
        """Return the messages that have arrived, and whether the kernel had to drop some. Reading ends with
        the datagram that reaches `limit` messages.
        """
        messages: list[Message] = []
        lost = False
        while len(messages) < limit:
            try:
                datagram = memoryview(self._socket.recv(1 << 16))
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise NetlinkError(error.errno or errno.EIO) from error
                lost = True
                continue
            at = 0
            while at + _PAYLOAD_AT <= len(datagram):
                length, kind, _, _, _ = _HEADER.unpack_from(datagram, at)
                if length < _PAYLOAD_AT or at + length > len(datagram):
                    break
                if kind > NLMSG_OVERRUN:
                    start = at + _MESSAGE_AT
                    messages.append(Message(datagram[start], datagram[start + _GENL.size : at + length]))
                at += (length + 3) & ~3
        return messages, lost


def read_uint(data: memoryview) -> int:
    """Decode an unsigned integer of any width in the host's byte order."""
    return int.from_bytes(data, sys.byteorder)


def own_namespace() -> int:
    """The inode of the network namespace in which `open_socket` opens its sockets."""
    return os.stat("/proc/self/ns/net").st_ino  # noqa: PTH116 # of what it points at, not of a path


def open_socket(receive_buffer_bytes: int) -> socket.socket:
    """Open and bind a generic netlink socket, with the kernel's extended error texts and strict checks of
    requests. Raises `DatapathError`.
    """
    try:
        sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_GENERIC)
    except OSError as error:
        raise DatapathError(f"this system gives no generic netlink socket: {error.strerror}") from error
    for option in (NETLINK_CAP_ACK, NETLINK_EXT_ACK, NETLINK_GET_STRICT_CHK):
        sock.setsockopt(SOL_NETLINK, option, 1)
    try:
        sock.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, receive_buffer_bytes)
    except PermissionError:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
    # This does not use settimeout(), which costs a poll() before every receive.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("@ll", ANSWER_S, 0))
    sock.bind((0, 0))
    return sock
