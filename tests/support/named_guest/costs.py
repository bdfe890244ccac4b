# SPDX-License-Identifier: Apache-2.0
"""The program's cost for flows that nobody named, in instructions: a nanosecond of the lab is one.

Handshakes under DCTCP as the default, and with accurate ECN, are compared byte by byte.
"""

from __future__ import annotations

import ipaddress
import json
import socket
import statistics
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path

from kmod_guest.harness import Check, Context, require, sh
from kmod_guest.net import namespace

from ltp_switcher.daemon.named.program import Program
from ltp_switcher.daemon.named.rules import Rules, flatten
from ltp_switcher.daemon.settings.policies import Policies, Policy
from ltp_switcher.daemon.settings.prefixes import prefix_of

from .winners import a_client, a_server
from .world import NAMED, OTHER, PEER, default, is_mutant, reset, using

REPORT = Path("/tmp/costs.json")  # noqa: S108
LOOPBACK, ITS_OTHER = "127.0.0.1", "127.0.0.2"
NAMED_PORT, OTHER_PORT = 22, 7010
BIRTHS, PACKETS, SYNS = 300, 2000, 600
MOST = {"birth": 2000, "birth to a named port": 2000, "birth between named ports": 2000, "syn": 1000}
NAME = "choose_mutant"
STATISTICS = Path("/proc/sys/kernel/bpf_stats_enabled")
ACCURATE_ECN = Path("/proc/sys/net/ipv4/tcp_ecn_option")


def _instructions(one: Callable[[], object], times: int) -> float:
    """The median of the instructions that a call takes."""
    taken = []
    for _ in range(times):
        began = time.perf_counter_ns()
        one()
        taken.append(time.perf_counter_ns() - began)
    return statistics.median(taken)


def _birth(port: int, own_port: int) -> float:
    """Instructions of a flow's birth, between these ports. Both ends are of this machine."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((LOOPBACK, port))
    listener.listen()

    def one() -> None:
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        client.bind((ITS_OTHER, own_port))
        client.connect((LOOPBACK, port))
        server, _ = listener.accept()
        reset(client, server)

    _instructions(one, 20)
    found = _instructions(one, BIRTHS)
    listener.close()
    return found / 2


@contextmanager
def _packets() -> Iterator[Callable[[], None]]:
    """What sends a packet of data over a connection, reads it, and so has it acknowledged."""
    listener = socket.socket()
    listener.bind((LOOPBACK, 0))
    listener.listen()
    client = socket.socket()
    client.connect(listener.getsockname())
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    server, _ = listener.accept()

    def one() -> None:
        client.send(b"x" * 1000)
        server.recv(1000)

    yield one
    reset(client, server)
    listener.close()


def _packet() -> float:
    with _packets() as one:
        _instructions(one, 200)
        return _instructions(one, PACKETS)


def _runs() -> int:
    """How often the program has run since its runs are counted."""
    told = json.loads(sh(f"bpftool -j prog show name {NAME}").stdout)
    return int(told.get("run_cnt", 0))


def _sum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _syn(number: int, port: int) -> bytes:
    """A SYN with options as Linux sends them, from an address of the loopback that nobody has."""
    source, target = socket.inet_aton(f"127.7.{number >> 8}.{number & 255}"), socket.inet_aton(LOOPBACK)
    options = bytes([2, 4, 0x05, 0xB4, 4, 2, 8, 10, *bytes(8), 1, 3, 3, 7])
    head = struct.pack("!HHIIBBHHH", 40000, port, number, 0, (20 + len(options)) // 4 << 4, 2, 64240, 0, 0)
    pseudo = source + target + struct.pack("!BBH", 0, 6, len(head) + len(options))
    check = _sum(pseudo + head + options)
    return head[:16] + struct.pack("!H", check) + head[18:] + options


def _flood() -> float:
    """Instructions of a SYN that nobody follows up."""
    listener = socket.socket()
    listener.bind((LOOPBACK, 0))
    listener.listen(4096)
    port = listener.getsockname()[1]
    numbers = iter(range(1, SYNS + 60))

    def one() -> None:
        number = next(numbers)
        raw = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
        raw.bind((f"127.7.{number >> 8}.{number & 255}", 0))
        raw.sendto(_syn(number, port), (LOOPBACK, 0))
        raw.close()

    _instructions(one, 40)
    found = _instructions(one, SYNS)
    listener.close()
    return found


def _rules(prefixes: int, policies: str = "", ports: Sequence[tuple[int | None, int | None]] = ()) -> Rules:
    """Rules: prefixes that are other destinations, and policies for one prefix with these ports."""
    used = [ipaddress.IPv4Network(((11 << 24) + (number << 8), 24)) for number in range(prefixes)]
    named = [Policy(prefix_of(policies), port=port, local_port=own, pin="bbr") for port, own in ports]
    return flatten(used, Policies(named), {}, 1)


OF_ALL_KINDS = ((None, None), (NAMED_PORT, None), (None, NAMED_PORT), (NAMED_PORT, NAMED_PORT))
# Each port is named, and no flow between `NAMED_PORT` at both ends is.
OTHERWISE = ((NAMED_PORT, 23), (23, NAMED_PORT), (24, None), (None, 24))
CASES = {
    "one prefix": _rules(1),
    "4,096 prefixes": _rules(4096),
    "one prefix, policies of all kinds": _rules(1, "192.0.2.0/24", OF_ALL_KINDS),
    "one prefix, policies for the flow's destination and other ports": _rules(1, "127.0.0.0/8", OTHERWISE),
}
MEASURES = {
    "birth": lambda: _birth(OTHER_PORT, OTHER_PORT),
    "birth to a named port": lambda: _birth(NAMED_PORT, OTHER_PORT),
    "birth between named ports": lambda: _birth(NAMED_PORT, NAMED_PORT),
    "packet": _packet,
    "syn": _flood,
}


def unnamed_flows_cost_little(_context: Context) -> None:
    program = Program()
    before = {name: measure() for name, measure in MEASURES.items()}
    more: dict[str, dict[str, float]] = {}
    for case, rules in CASES.items():
        program.put(rules)
        more[case] = {name: measure() - before[name] for name, measure in MEASURES.items()}
    program.withdraw()
    REPORT.write_text(json.dumps({"before": before, "more": more}))
    for case, cost in more.items():
        for measure, most in MOST.items():
            require(cost[measure] <= most, f"{case}: {cost[measure]} instructions more for a {measure}")


def no_packet_runs_the_program(_context: Context) -> None:
    program = Program()
    program.put(CASES["one prefix, policies of all kinds"])
    STATISTICS.write_text("1")
    try:
        before = _runs()
        with _packets() as one:
            born = _runs()
            require(born > before, "the runs are not counted")
            for _ in range(PACKETS):
                one()
            require(_runs() == born, f"{_runs() - born} runs for {PACKETS} packets")
    finally:
        STATISTICS.write_text("0")
        program.withdraw()


def _handshakes() -> list[bytes]:
    """The SYN and SYN-ACK of a connection each way and address, without what differs by chance."""
    with namespace(PEER):
        packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
    packets.bind(("far0", 0))
    packets.setblocking(False)
    for case in (a_client, a_server):
        for address in (NAMED, OTHER):
            case(address)
    found = []
    while True:
        try:
            data = bytearray(packets.recv(2000))
        except BlockingIOError:
            packets.close()
            return found
        if data[0] >> 4 != 4 or data[9] != 6:
            continue
        tcp = (data[0] & 15) * 4
        if not data[tcp + 13] & 2:
            continue
        # Ports, sequence numbers, checksums, the datagram's number, and the time stamps.
        for start, end in ((4, 6), (10, 12), (tcp, tcp + 12), (tcp + 16, tcp + 18)):
            data[start:end] = bytes(end - start)
        place = tcp + 20
        while place < tcp + (data[tcp + 12] >> 4) * 4 and data[place]:
            kind = data[place]
            if kind == 8:
                data[place + 2 : place + 10] = bytes(8)
            place += 1 if kind == 1 else data[place + 1]
        found.append(bytes(data))


@contextmanager
def _accurate_ecn() -> Iterator[None]:
    """Both sides ask for accurate ECN (RFC 9768), which Linux knows since 7.0."""
    for inside in ("", f"ip netns exec {PEER} "):
        sh(f"{inside}sysctl -qw net.ipv4.tcp_ecn=3")
    try:
        yield
    finally:
        for inside in ("", f"ip netns exec {PEER} "):
            sh(f"{inside}sysctl -qw net.ipv4.tcp_ecn=2")


def _asks_for_ecn(syn: bytes) -> str:
    """What a SYN's or SYN-ACK's flags ask for: "", or the names of those that are set."""
    tcp = (syn[0] & 15) * 4
    flags = {"AE": syn[tcp + 12] & 1, "CWR": syn[tcp + 13] & 0x80, "ECE": syn[tcp + 13] & 0x40}
    return " ".join(name for name, is_set in flags.items() if is_set)


def handshakes_are_equal_byte_by_byte(_context: Context) -> None:
    cases = [("cubic", nullcontext(), ""), ("dctcp", nullcontext(), "CWR ECE")]
    if ACCURATE_ECN.exists():
        cases += [(name, _accurate_ecn(), "AE CWR ECE") for name in ("cubic", "dctcp")]
    for name, ecn, wanted in cases:
        with default(name), ecn:
            before = _handshakes()
            require(len(before) == 8, f"{len(before)} packets of 8")
            asked = max((_asks_for_ecn(packet) for packet in before), key=len)
            require(asked == wanted, f"handshakes under {name} ask for {asked!r} and not for {wanted!r}")
            with using():
                require(is_mutant(a_client(NAMED)), "the named flow is not under mutant")
                require(_handshakes() == before, f"other packets under {name}, with {asked!r}")


CHECKS: tuple[Check, ...] = (
    handshakes_are_equal_byte_by_byte,
    unnamed_flows_cost_little,
    no_packet_runs_the_program,
)
