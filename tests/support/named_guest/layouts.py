# SPDX-License-Identifier: Apache-2.0
"""Ten layouts of routes and rules: `use` leaves each byte by byte as it was, and named flows run `mutant`."""

from __future__ import annotations

import errno
import os
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from kmod_guest.harness import Check, Context, require, sh
from kmod_guest.net import congestion, namespace

from .world import PEER, cli, is_mutant, nothing_left, reset

NAMED = {socket.AF_INET: "203.0.113.5", socket.AF_INET6: "2001:db8:5::5"}
OTHER = {socket.AF_INET: "198.51.100.5", socket.AF_INET6: "2001:db8:6::5"}
PREFIXES = "203.0.113.0/24 2001:db8:5::/48"
PORT = 7000
SYSCTLS = Path("/proc/sys/net")
ROUTES = 20_000
SO_MARK, SO_BINDTODEVICE = 36, 25

Prepare = Callable[[socket.socket], object]


@dataclass(frozen=True)
class Layout:
    """Commands that make a layout and unmake it, and how an application's socket differs, if it does.

    Attributes:
        steered: families whose named flows run `mutant`; flows of others fail as before.
    """

    make: tuple[str, ...]
    unmake: tuple[str, ...]
    prepare: Prepare = lambda sock: None
    steered: tuple[int, ...] = (socket.AF_INET, socket.AF_INET6)
    files: Mapping[str, Callable[[], str]] = field(default_factory=dict)


FOUR, SIX = (socket.AF_INET,), (socket.AF_INET6,)
UPLINK = ("ip route add default via 10.1.0.2", "ip -6 route add default via 2001:db8:1::2")
NO_UPLINK = ("ip route del default via 10.1.0.2", "ip -6 route del default via 2001:db8:1::2")


def _many_routes() -> str:
    lines = [f"route add {11 + n // 65536}.{n >> 8 & 255}.{n & 255}.0/24 via 10.1.0.2" for n in range(ROUTES)]
    return "\n".join(lines) + "\n"


LAYOUTS: dict[str, Layout] = {
    "a_full_tunnel_of_a_vpn": Layout(
        (
            *UPLINK, "ip route add default dev tun0 table 51820", "ip rule add not fwmark 51820 table 51820",
            "ip rule add table main suppress_prefixlength 0",
        ),
        (
            "ip rule del table main suppress_prefixlength 0", "ip rule del not fwmark 51820 table 51820",
            "ip route del default dev tun0 table 51820", *NO_UPLINK,
        ),
    ),
    "a_vrf": Layout(
        (
            "ip link add vrf0 type vrf table 10", "ip link set vrf0 up", "ip link set tun0 master vrf0",
            "ip route add default via 10.9.0.2 table 10", "ip -6 address add 2001:db8:9::1/64 dev tun0 nodad",
            "ip -6 route add default via 2001:db8:9::2 table 10",
        ),
        ("ip link set tun0 nomaster", "ip link del vrf0"),
        lambda sock: sock.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, b"vrf0"),
    ),
    "a_blackhole": Layout(
        (*UPLINK, "ip route add blackhole 203.0.0.0/16", "ip -6 route add unreachable 2001:db8:5::/40"),
        ("ip route del blackhole 203.0.0.0/16", "ip -6 route del unreachable 2001:db8:5::/40", *NO_UPLINK),
        steered=(),
    ),
    "several_paths_by_the_number_of_a_nexthop": Layout(
        (
            *UPLINK, "ip nexthop add id 5 via 10.1.0.2 dev near0",
            "ip nexthop add id 6 via 10.9.0.2 dev tun0", "ip nexthop add id 7 group 5/6",
            "ip route add 203.0.113.0/24 nhid 7",
            "sysctl -qw net.ipv4.nexthop_compat_mode=0",
        ),
        (
            "sysctl -qw net.ipv4.nexthop_compat_mode=1", "ip route del 203.0.113.0/24", "ip nexthop flush",
            *NO_UPLINK,
        ),
    ),
    "an_encapsulation": Layout(
        (*UPLINK, "ip -6 route add 2001:db8:5::/48 encap seg6 mode encap segs 2001:db8:1::2 dev near0"),
        ("ip -6 route del 2001:db8:5::/48", *NO_UPLINK),
    ),
    "routes_by_source": Layout(
        (
            "ip route add default via 10.9.0.2", "ip route add default via 10.1.0.2 table 1001",
            "ip rule add from 10.1.0.1 lookup 1001",
            "ip -6 route add default from 2001:db8:1::1 via 2001:db8:1::2",
        ),
        (
            "ip -6 route del default from 2001:db8:1::1", "ip rule del from 10.1.0.1 lookup 1001",
            "ip route del default via 10.1.0.2 table 1001", "ip route del default via 10.9.0.2",
        ),
        lambda sock: sock.bind(("10.1.0.1" if sock.family == socket.AF_INET else "2001:db8:1::1", 0)),
    ),
    "a_route_for_a_type_of_service": Layout(
        (*UPLINK, "ip route add 203.0.0.0/16 tos 0x10 via 10.9.0.2"),
        ("ip route del 203.0.0.0/16 tos 0x10", *NO_UPLINK),
        lambda sock: sock.family == SIX[0] or sock.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0x10),
    ),
    "policy_rules": Layout(
        (
            "ip route add default via 10.1.0.2 table 52", "ip rule add pref 5270 fwmark 7 lookup 52",
            "ip -6 route add default via 2001:db8:1::2 table 52",
            "ip -6 rule add pref 5270 fwmark 7 lookup 52",
        ),
        (
            "ip rule del pref 5270", "ip -6 rule del pref 5270", "ip route del default via 10.1.0.2 table 52",
            "ip -6 route del default via 2001:db8:1::2 table 52",
        ),
        lambda sock: sock.setsockopt(socket.SOL_SOCKET, SO_MARK, 7),
    ),
    "twenty_thousand_routes": Layout(
        (*UPLINK, "ip -batch /run/routes"), ("ip route flush root 11.0.0.0/8", *NO_UPLINK),
        files={"/run/routes": _many_routes},
    ),
    "ipv6_alone": Layout(
        ("ip address del 10.1.0.1/24 dev near0", "ip address del 10.9.0.1/24 dev tun0", UPLINK[1]),
        (NO_UPLINK[1], "ip address add 10.1.0.1/24 dev near0", "ip address add 10.9.0.1/24 dev tun0"),
        steered=SIX,
    ),
}  # fmt: skip


def second_link() -> None:
    """Another link to the peer, which stands for a tunnel, and the destinations behind both."""
    far = f"ip netns exec {PEER} "
    for command in (
        f"ip link add tun0 type veth peer name ftun0 netns {PEER}", "ip link set tun0 up",
        "ip address add 10.9.0.1/24 dev tun0", f"{far}ip link set ftun0 up",
        f"{far}ip address add 10.9.0.2/24 dev ftun0", f"{far}ip address add 2001:db8:9::2/64 dev ftun0 nodad",
        *(f"{far}ip address add {address} dev lo" for address in (*NAMED.values(), *OTHER.values())),
        *(f"{far}sysctl -qw net.ipv6.conf.{device}.seg6_enabled=1" for device in ("all", "far0")),
        "insmod /opt/modules/vrf.ko 2>/dev/null || modprobe vrf",
    ):  # fmt: skip
        sh(command)
    # The tunnel's own address is of its layout alone.
    sh("ip -6 address flush dev tun0 scope global")


def snapshot() -> str:
    """All routes, rules and network sysctls, and the ways to both destinations."""
    commands = [
        f"ip {family} {what}"
        for family in ("-4", "-6")
        for what in ("route show table all", "rule", "nexthop")
    ]
    for destinations in (NAMED, OTHER):
        commands += [f"ip route get {address} 2>&1" for address in destinations.values()]
    texts = [f"# {command}\n{sh(command, check=False).stdout}" for command in commands]
    for folder, _, names in sorted(os.walk(SYSCTLS)):
        for name in sorted(names):
            try:
                texts.append(f"{folder}/{name} = {Path(folder, name).read_text()}")
            except OSError:
                continue
    return "\n".join(texts)


def _listeners() -> list[socket.socket]:
    made = []
    for family in (socket.AF_INET, socket.AF_INET6):
        with namespace(PEER):
            listener = socket.socket(family)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", PORT))  # noqa: S104
        listener.listen(16)
        made.append(listener)
    return made


def _runs(layout: Layout, listener: socket.socket, address: str) -> str:
    """The congestion control of a client to an address, or the error that it gets."""
    client = socket.socket(listener.family)
    client.settimeout(5)
    try:
        layout.prepare(client)
        client.connect((address, PORT))
    except OSError as error:
        client.close()
        return errno.errorcode.get(error.errno or 0, "timed out")
    server, _ = listener.accept()
    name = congestion(client)
    reset(client, server)
    return name


def _all(layout: Layout, listeners: list[socket.socket]) -> dict[str, str]:
    return {
        destinations[listener.family]: _runs(layout, listener, destinations[listener.family])
        for listener in listeners
        for destinations in (NAMED, OTHER)
    }


def _check(name: str, layout: Layout) -> Check:
    def check(_context: Context) -> None:
        for file, content in layout.files.items():
            Path(file).write_text(content())
        for command in layout.make:
            sh(command)
        # Addresses of IPv6 are tried for a while, and then bring routes.
        time.sleep(3)
        listeners = _listeners()
        try:
            flows = _all(layout, listeners)
            before = snapshot()
            cli(f"use {PREFIXES}")
            _require_equal(before, "`use` changed")
            now = _all(layout, listeners)
            cli("unuse --all")
            _require_equal(before, "`unuse` left")
            nothing_left()
            for listener in listeners:
                named, other = NAMED[listener.family], OTHER[listener.family]
                require(now[other] == flows[other], f"{other} ran {flows[other]}, and now {now[other]}")
                if listener.family in layout.steered:
                    require(is_mutant(now[named]), f"{named} runs {now[named]}, and {flows[named]} before")
                else:
                    require(now[named] == flows[named] != "cubic", f"{named}: {flows[named]}, {now[named]}")
        finally:
            cli("unuse --all")
            for listener in listeners:
                listener.close()
            for command in layout.unmake:
                sh(command)

    check.__name__ = name
    return check


def _require_equal(before: str, what: str) -> None:
    now = snapshot()
    if now != before:
        differing = set(before.splitlines()) ^ set(now.splitlines())
        raise AssertionError(f"{what} {sorted(differing)[:6]}")


def the_second_link_is_up(_context: Context) -> None:
    second_link()


CHECKS: tuple[Check, ...] = (
    the_second_link_is_up,
    *(_check(name, layout) for name, layout in LAYOUTS.items()),
)
