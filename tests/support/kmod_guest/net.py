# SPDX-License-Identifier: Apache-2.0
"""Namespaces, a link with a rate and a delay between two of them, and connections with real data."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
import termios
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

CLONE_NEWNET = 0x40000000
CLONE_NEWUSER = 0x10000000
SO_COOKIE = 57
SO_MAX_PACING_RATE = 47
TCP_CC_INFO = 26
NETNS = Path("/var/run/netns")
TICK_S = 0.002
EVENTS_S = 0.1
"""The kernel tells events a little later, in a work item of its own."""
OUTSTANDING_BYTES = 128 << 10
"""What a client may have in its buffer, sent or not: it bounds the window, and the wait for a flow's end.

SO_SNDBUF does not: with 64 KiB of it, Linux 7.2 queued 4 MB of a plain Reno flow, and 6.12 queued 1.4 MB."""

_libc = ctypes.CDLL(None, use_errno=True)
_BLOCK = bytes((i * i + i // 7) & 0xFF for i in range(65536))


def ip(arguments: str) -> None:
    """Run iproute2's `ip`."""
    subprocess.run(["ip", *arguments.split()], check=True)


def tc(arguments: str) -> None:
    """Run iproute2's `tc`."""
    subprocess.run(["tc", *arguments.split()], check=True)


def _call(result: int, what: str) -> None:
    if result:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def unshare(flags: int) -> None:
    """Call unshare(2)."""
    _call(_libc.unshare(flags), "unshare")


def enter(name: str) -> None:
    """Move this process into a named network namespace for good."""
    there = os.open(NETNS / name, os.O_RDONLY)
    _call(_libc.setns(there, CLONE_NEWNET), f"setns {name}")
    os.close(there)


@contextmanager
def namespace(name: str) -> Iterator[None]:
    """Be in a named network namespace for a while."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY)
    enter(name)
    try:
        yield
    finally:
        _call(_libc.setns(home, CLONE_NEWNET), "setns home")
        os.close(home)


def disconnect(sock: socket.socket) -> None:
    """Call connect(2) to AF_UNSPEC, which takes a TCP socket back to closed."""
    unspecified = ctypes.create_string_buffer(16)
    _call(_libc.connect(sock.fileno(), unspecified, 16), "connect AF_UNSPEC")


CA_CWR, CA_RECOVERY, CA_LOSS = 2, 3, 4
"""Values of `TcpInfo.ca_state`."""


@dataclass(frozen=True)
class TcpInfo:
    """What `struct tcp_info` says of the totals, of the window, and of what limited the socket."""

    ca_state: int
    ssthresh: int
    total_retrans: int
    bytes_acked: int
    delivered: int
    snd_cwnd: int
    srtt_us: int
    reordering: int
    reord_seen: int
    busy_us: int
    receiver_us: int
    buffer_us: int

    @classmethod
    def of(cls, sock: socket.socket) -> TcpInfo:
        """Read it from a socket."""
        raw = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232)
        return cls(
            ca_state=raw[1],
            ssthresh=struct.unpack_from("=I", raw, 76)[0],
            total_retrans=struct.unpack_from("=I", raw, 100)[0],
            bytes_acked=struct.unpack_from("=Q", raw, 120)[0],
            delivered=struct.unpack_from("=I", raw, 192)[0],
            snd_cwnd=struct.unpack_from("=I", raw, 80)[0],
            srtt_us=struct.unpack_from("=I", raw, 68)[0],
            reordering=struct.unpack_from("=I", raw, 88)[0],
            reord_seen=struct.unpack_from("=I", raw, 220)[0],
            busy_us=struct.unpack_from("=Q", raw, 168)[0],
            receiver_us=struct.unpack_from("=Q", raw, 176)[0],
            buffer_us=struct.unpack_from("=Q", raw, 184)[0],
        )


def vegas_base_us(sock: socket.socket) -> int:
    """The RTT that the socket's Vegas takes for the path's, by `struct tcpvegas_info`."""
    return int(struct.unpack_from("=III", sock.getsockopt(socket.IPPROTO_TCP, TCP_CC_INFO, 16))[2])


def bbr_bdp_packets(sock: socket.socket) -> float:
    """The bandwidth-delay product of the socket's BBR, by `struct tcp_bbr_info`."""
    rate_bytes_s, min_rtt_us = struct.unpack_from("=QI", sock.getsockopt(socket.IPPROTO_TCP, TCP_CC_INFO, 20))
    mss_bytes = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG)
    return float(rate_bytes_s * min_rtt_us / 1e6 / mss_bytes)


@dataclass
class Flow:
    """A connection: `client` sends, `server` receives, both know a checksum of what they saw."""

    client: socket.socket
    server: socket.socket
    sent: int = 0
    received: int = 0
    sent_crc: int = 0
    received_crc: int = 0
    ended: bool = False
    talking: bool = True
    outstanding_bytes: int = OUTSTANDING_BYTES
    left_bytes: int | None = None
    """What the client still has to send; None: it has no end."""

    @property
    def cookie(self) -> int:
        """The client's socket cookie."""
        return cookie(self.client)

    @property
    def congestion(self) -> str:
        """The client's congestion control, as the application reads it."""
        return congestion(self.client)


def cookie(sock: socket.socket) -> int:
    """The kernel's name of a socket."""
    return int(struct.unpack("=Q", sock.getsockopt(socket.SOL_SOCKET, SO_COOKIE, 8))[0])


def outstanding(sock: socket.socket) -> int:
    """The bytes that a socket has taken and that the other side has not acknowledged."""
    return int(struct.unpack("=i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0])


def congestion(sock: socket.socket) -> str:
    """The congestion control of a socket."""
    name = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    return name.partition(b"\0")[0].decode()


def choose(sock: socket.socket, name: str) -> None:
    """Set the congestion control of a socket, as an application does."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())


@dataclass
class Traffic:
    """Keeps connections busy."""

    flows: list[Flow] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._buffer = bytearray(1 << 18)
        self._view = memoryview(self._buffer)

    def add(self, flow: Flow) -> None:
        """Keep a connection busy from now on."""
        flow.client.setblocking(False)
        flow.server.setblocking(False)
        self.flows.append(flow)

    def pump(self, duration_s: float, until: Callable[[], bool] | None = None) -> bool:
        """Move data for a time, or until something is the case. Returns whether it came to be."""
        deadline = time.monotonic() + duration_s
        while True:
            for flow in self.flows:
                self._move(flow)
            if until is not None and until():
                return True
            if time.monotonic() >= deadline:
                return False
            time.sleep(TICK_S)

    def abandon(self) -> None:
        """Close what is still open, whatever came of it."""
        for flow in self.flows:
            for sock in (flow.client, flow.server):
                if sock.fileno() >= 0:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("@ii", 1, 0))
                    sock.close()
        self.flows.clear()

    def send(self, flow: Flow, size: int = len(_BLOCK)) -> int:
        """Send up to `size` bytes, as many as the socket and `outstanding_bytes` allow at once; how many."""
        room = flow.outstanding_bytes - outstanding(flow.client)
        if flow.left_bytes is not None:
            room = min(room, flow.left_bytes)
        if room <= 0:
            return 0
        try:
            count = flow.client.send(_BLOCK[: min(size, room)])
        except BlockingIOError:
            return 0
        flow.sent += count
        flow.sent_crc = zlib.crc32(_BLOCK[:count], flow.sent_crc)
        if flow.left_bytes is not None:
            flow.left_bytes -= count
        return count

    def _receive(self, flow: Flow) -> int:
        try:
            count = flow.server.recv_into(self._buffer)
        except BlockingIOError:
            return 0
        flow.received += count
        flow.received_crc = zlib.crc32(self._view[:count], flow.received_crc)
        flow.ended = count == 0
        return count

    def _move(self, flow: Flow) -> None:
        if flow.talking:
            while self.send(flow) and flow.left_bytes is not None:
                pass
        if not flow.ended:
            self._receive(flow)

    def finish(self, flow: Flow, timeout_s: float = 60) -> None:
        """Stop sending, wait for the end on the other side, and compare. Raises `AssertionError`."""
        flow.talking = False
        flow.client.shutdown(socket.SHUT_WR)
        if not self.pump(timeout_s, lambda: flow.ended):
            raise AssertionError(f"{flow.received} of {flow.sent} bytes arrived within {timeout_s} s")
        self.flows.remove(flow)
        flow.server.close()
        # The other side's FIN ends this side's life as a flow.
        time.sleep(0.2)
        flow.client.close()
        if (flow.sent, flow.sent_crc) != (flow.received, flow.received_crc):
            raise AssertionError(f"sent {flow.sent} bytes, received {flow.received}, or others than sent")


@dataclass
class Link:
    """Two namespaces, `<name>a` and `<name>b`, joined by a veth pair, data going from a to b."""

    name: str
    address: str

    @classmethod
    def create(cls, name: str, number: int) -> Link:
        """Set it up, with the defaults of `shape`."""
        link = cls(name, f"10.{number}.0.2")
        for side in "ab":
            ip(f"netns add {name}{side}")
        ip(f"link add {name}va netns {name}a type veth peer name {name}vb netns {name}b")
        for side, host in (("a", 1), ("b", 2)):
            inside = f"-n {name}{side}"
            ip(f"{inside} address add 10.{number}.0.{host}/24 dev {name}v{side}")
            ip(f"{inside} link set lo up")
            ip(f"{inside} link set {name}v{side} up")
            offloads = f"ip netns exec {name}{side} ethtool -K {name}v{side} tso off gso off gro off"
            subprocess.run(offloads.split(), check=True, stdout=subprocess.DEVNULL)
        link.shape()
        return link

    def shape(
        self,
        *,
        rate_mbit: int = 20,
        delay_ms: float = 5,
        limit_packets: int = 1000,
        loss_percent: float = 0,
        early_percent: float = 0,
    ) -> None:
        """Set `rate`, `limit` and `loss` from a to b, and half of the RTT (`delay_ms`) each way. Of the
        packets, `early_percent` skip the delay, so that they overtake others. Then there is no rate.
        """
        forth = f"delay {delay_ms}ms rate {rate_mbit}mbit limit {limit_packets} loss {loss_percent}%"
        if early_percent:
            forth = f"delay {delay_ms}ms reorder {early_percent}% limit {limit_packets}"
        tc(f"-n {self.name}a qdisc replace dev {self.name}va root netem {forth}")
        tc(f"-n {self.name}b qdisc replace dev {self.name}vb root netem delay {delay_ms}ms limit 10000")

    def slow_back(self, kbit: int, limit_packets: int = 10000) -> None:
        """Give the way from b to a this rate, until `fast_back`. `shape` leaves it as it is."""
        slow = f"delay 5ms limit {limit_packets} rate {kbit}kbit"
        tc(f"-n {self.name}b qdisc change dev {self.name}vb root netem {slow}")

    def fast_back(self) -> None:
        """Take the rate of the way from b to a away. A change of the queue would keep it."""
        tc(f"-n {self.name}b qdisc del dev {self.name}vb root")
        self.shape()

    def listen(self, congestion_control: str | None = None) -> socket.socket:
        """A listener at the far side, on a port of its own."""
        with namespace(f"{self.name}b"):
            listener = socket.socket()
        if congestion_control:
            choose(listener, congestion_control)
        listener.bind((self.address, 0))
        listener.listen(64)
        return listener

    def client(self, congestion_control: str | None = None) -> socket.socket:
        """An unconnected socket at the near side."""
        with namespace(f"{self.name}a"):
            sock = socket.socket()
        if congestion_control:
            choose(sock, congestion_control)
        return sock

    def connect(self, congestion_control: str | None = None) -> Flow:
        """A connection from a to b."""
        listener = self.listen()
        client = self.client(congestion_control)
        client.connect(listener.getsockname())
        server, _ = listener.accept()
        listener.close()
        return Flow(client, server)
