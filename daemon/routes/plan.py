# SPDX-License-Identifier: Apache-2.0
"""Which routes a set of prefixes needs, out of the routes that are there. Pure logic."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from ltp_switcher.errors import InvalidValueError

CONGESTION_CONTROL: Final = "mutant"
PROTOCOL: Final = 109
"""The origin of our routes, as `ip route` shows it (`proto 109`); no other program's number in rt_protos."""

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Hop:
    """Where packets go next. `gateway` is None on the link itself; `device` is an interface's index."""

    device: int
    gateway: str | None = None
    weight: int = 1
    onlink: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """One unicast route of the main table.

    Attributes:
        prefix: its destinations.
        hops: more than one for a route over several paths.
        protocol: its origin, a number of rt_protos.
        priority: the least counts first.
        source: the preferred source address.
        metrics: further metrics by the kernel's names, such as ("mtu", 1400), in order.
        congestion: the congestion control of its connections, if it names one.
    """

    prefix: Network
    hops: tuple[Hop, ...]
    protocol: int
    priority: int = 0
    source: str | None = None
    metrics: tuple[tuple[str, int], ...] = ()
    congestion: str | None = None

    @property
    def ours(self) -> bool:
        """Whether this program made it."""
        return self.protocol == PROTOCOL


@dataclass(frozen=True, slots=True)
class Changes:
    """What is to be done: first `remove`, then `add`. `uncovered` are prefixes that no route covers now."""

    remove: tuple[Route, ...]
    add: tuple[Route, ...]
    uncovered: tuple[Network, ...]


def prefix_of(text: str) -> Network:
    """Return the prefix that a text names; a single address is one too. Raises `InvalidValueError`."""
    try:
        return ipaddress.ip_network(text.strip())
    except ValueError as error:
        allowed = f"a prefix such as 203.0.113.0/24 or 2001:db8::/32 ({error})"
        raise InvalidValueError("PREFIX", text, allowed) from None


def wanted(prefix: Network, routes: Iterable[Route]) -> list[Route]:
    """Return our routes for a prefix: copies of the route that covers it, with our congestion control.

    Where a route has exactly this prefix, its two halves are taken instead: they are longer, so they
    count, and the route itself stays as it is. Without a covering route there is nothing to copy.

    Raises:
        InvalidValueError: a single address has a route of its own, which has no halves.
    """
    others = [r for r in routes if not r.ours and r.prefix.version == prefix.version]
    covers = [r for r in others if _covers(r.prefix, prefix)]
    if not covers:
        return []
    cover = min(covers, key=lambda r: (-r.prefix.prefixlen, r.priority))
    if cover.prefix != prefix:
        return [replace(cover, prefix=prefix, protocol=PROTOCOL, congestion=CONGESTION_CONTROL)]
    if prefix.prefixlen == prefix.max_prefixlen:
        allowed = (
            f"no single address with a route of its own; put `congctl {CONGESTION_CONTROL}` on that route"
        )
        raise InvalidValueError("PREFIX", str(prefix), allowed)
    return [route for half in prefix.subnets() for route in wanted(half, others)]


def changes(prefixes: Iterable[Network], routes: Iterable[Route]) -> Changes:
    """Return what makes our routes those that `prefixes` need. No other route is ever part of it."""
    present = list(routes)
    needed: dict[Network, Route] = {}
    uncovered = []
    for prefix in prefixes:
        found = wanted(prefix, present)
        needed.update({route.prefix: route for route in found})
        if not found:
            uncovered.append(prefix)
    ours = {route for route in present if route.ours}
    keep = set(needed.values())
    return Changes(
        remove=tuple(sorted(ours - keep, key=_order)),
        add=tuple(sorted(keep - ours, key=_order)),
        uncovered=tuple(uncovered),
    )


def _covers(wide: Network, narrow: Network) -> bool:
    if isinstance(wide, ipaddress.IPv4Network) and isinstance(narrow, ipaddress.IPv4Network):
        return narrow.subnet_of(wide)
    if isinstance(wide, ipaddress.IPv6Network) and isinstance(narrow, ipaddress.IPv6Network):
        return narrow.subnet_of(wide)
    return False


def _order(route: Route) -> tuple[int, bytes, int]:
    return route.prefix.version, route.prefix.network_address.packed, route.prefix.prefixlen
