# SPDX-License-Identifier: Apache-2.0
"""The kernel's main routing table, read and changed through pyroute2."""

from __future__ import annotations

import contextlib
import errno
import ipaddress
import select
import socket
import struct
from collections.abc import Iterator, Mapping
from typing import Final, cast

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from ltp_switcher.daemon.routes.plan import CONGESTION_CONTROL, Hop, Network, Route
from ltp_switcher.errors import DatapathError

_MAIN: Final = 254
_UNICAST: Final = 1
_ONLINK: Final = 4
_CACHED: Final = 0x200
_GROUPS: Final = 0x1 | 0x40 | 0x400
"""Events of links, IPv4 routes and IPv6 routes (linux/rtnetlink.h, RTMGRP_*)."""
_SETTLE_S: Final = 0.2

_Attributes = Mapping[str, object]


class RoutingTable:
    """The main table of this network namespace. Raises `DatapathError` where the kernel refuses."""

    def __init__(self) -> None:
        self._route = IPRoute()

    def close(self) -> None:
        """Give the socket back."""
        self._route.close()

    def read(self) -> list[Route]:
        """All unicast routes of IPv4 and IPv6, in the kernel's order."""
        with _refusals("read the routes"):
            messages = [
                message
                for family in (socket.AF_INET, socket.AF_INET6)
                for message in self._route.get_routes(family=family, table=_MAIN)
            ]
        return [route for route in map(_parsed, messages) if route is not None]

    def add(self, route: Route) -> None:
        """Add a route."""
        with _refusals(f"add the route for {route.prefix}"):
            self._route.route("add", **_request(route))

    def remove(self, route: Route) -> None:
        """Remove a route; one that is gone already is none to remove."""
        with _refusals(f"remove the route for {route.prefix}", ignored=errno.ESRCH):
            self._route.route("del", **_request(route))

    def device_name(self, index: int) -> str:
        """The name of an interface, or its number if it has gone."""
        try:
            return socket.if_indextoname(index)
        except OSError:
            return str(index)


class RouteEvents:
    """Tells when links or routes change."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        self._socket.bind((0, _GROUPS))

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()

    def wait(self, timeout_s: float) -> bool:
        """Wait for a change, `timeout_s` at most, and until no more have come for 0.2 s. Whether one came."""
        if not select.select([self._socket], [], [], timeout_s)[0]:
            return False
        while select.select([self._socket], [], [], _SETTLE_S)[0]:
            # What has overflowed counts as a change as well.
            with contextlib.suppress(OSError):
                self._socket.recv(1 << 16)
        return True


def _parsed(message: object) -> Route | None:
    head = cast("Mapping[str, object]", message)
    attributes = dict(cast("list[tuple[str, object]]", head["attrs"]))
    if head["type"] != _UNICAST or attributes.get("RTA_TABLE", _MAIN) != _MAIN:
        return None
    if cast("int", head["flags"]) & _CACHED:
        return None
    metrics = _metrics(attributes)
    congestion = metrics.pop("cc_algo", None)
    return Route(
        prefix=_prefix(head, attributes),
        hops=_hops(head, attributes),
        protocol=cast("int", head["proto"]),
        priority=cast("int", attributes.get("RTA_PRIORITY", 0)),
        source=cast("str | None", attributes.get("RTA_PREFSRC")),
        metrics=tuple(sorted((name, cast("int", value)) for name, value in metrics.items())),
        congestion=cast("str | None", congestion),
    )


def _prefix(head: _Attributes, attributes: _Attributes) -> Network:
    # The default route names no destination.
    if "RTA_DST" not in attributes:
        return ipaddress.ip_network((0, 0) if head["family"] == socket.AF_INET else (b"\0" * 16, 0))
    return ipaddress.ip_network(f"{attributes['RTA_DST']}/{head['dst_len']}")


def _metrics(attributes: _Attributes) -> dict[str, object]:
    nested = attributes.get("RTA_METRICS")
    if nested is None:
        return {}
    pairs = cast("list[tuple[str, object]]", cast("Mapping[str, object]", nested)["attrs"])
    # A lock is a mask over the other metrics, which pyroute2 cannot send.
    return {name.removeprefix("RTAX_").lower(): value for name, value in pairs if name != "RTAX_LOCK"}


def _hops(head: _Attributes, attributes: _Attributes) -> tuple[Hop, ...]:
    several = attributes.get("RTA_MULTIPATH")
    if several is None:
        return (_hop(attributes, cast("int", attributes.get("RTA_OIF", 0)), 1, cast("int", head["flags"])),)
    return tuple(
        _hop(
            dict(cast("list[tuple[str, object]]", one["attrs"])),
            cast("int", one["oif"]),
            cast("int", one["hops"]) + 1,
            cast("int", one["flags"]),
        )
        for one in cast("list[Mapping[str, object]]", several)
    )


def _hop(attributes: _Attributes, device: int, weight: int, flags: int) -> Hop:
    gateway = attributes.get("RTA_GATEWAY")
    if gateway is None and "RTA_VIA" in attributes:
        gateway = cast("Mapping[str, object]", attributes["RTA_VIA"])["addr"]
    return Hop(device, cast("str | None", gateway), weight, bool(flags & _ONLINK))


def _request(route: Route) -> dict[str, object]:
    """A route in pyroute2's words."""
    four = route.prefix.version == 4
    asked: dict[str, object] = {
        "family": socket.AF_INET if four else socket.AF_INET6,
        "dst": str(route.prefix),
        "table": _MAIN,
        "proto": route.protocol,
        "priority": route.priority,
        "metrics": {**dict(route.metrics), **({"cc_algo": route.congestion} if route.congestion else {})},
    }
    if route.source is not None:
        asked["prefsrc"] = route.source
    if len(route.hops) == 1:
        asked |= _next(route.hops[0], four=four)
    else:
        asked["multipath"] = [
            {"hops": hop.weight - 1, **_next(hop, four=four)} for hop in route.hops
        ]  # fmt: skip
    if four and all(hop.gateway is None for hop in route.hops):
        asked["scope"] = "link"
    return asked


def _next(hop: Hop, *, four: bool) -> dict[str, object]:
    asked: dict[str, object] = {"oif": hop.device}
    if hop.gateway is not None and four and ":" in hop.gateway:
        asked["via"] = {"family": socket.AF_INET6, "addr": hop.gateway}
    elif hop.gateway is not None:
        asked["gateway"] = hop.gateway
    if hop.onlink:
        asked["flags"] = ["onlink"]
    return asked


@contextlib.contextmanager
def _refusals(doing: str, ignored: int = 0) -> Iterator[None]:
    try:
        yield
    except NetlinkError as error:
        if error.code == ignored:
            return
        raise DatapathError(f"cannot {doing}: {_reason(error)}") from error
    except (OSError, struct.error) as error:
        raise DatapathError(f"cannot {doing}: {error}") from error


def _reason(error: NetlinkError) -> str:
    if error.code in (errno.EPERM, errno.EACCES):
        return "this needs root, or CAP_NET_ADMIN"
    if error.code == errno.EINVAL:
        return (
            f"the kernel says “invalid argument”; is the congestion control {CONGESTION_CONTROL} there? "
            "Load it with `modprobe tcp_mutant`"
        )
    return str(error.args[-1])
