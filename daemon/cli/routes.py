# SPDX-License-Identifier: Apache-2.0
"""`use`, `unuse`, `used`: destinations whose connections run `mutant`, by a route of their own."""

from __future__ import annotations

import argparse
import logging
import signal
from types import FrameType

from ltp_switcher.commands import printable
from ltp_switcher.daemon.cli.printing import Object, print_json, print_table
from ltp_switcher.daemon.routes import used as store
from ltp_switcher.daemon.routes.kernel import RoutingTable
from ltp_switcher.daemon.routes.plan import Network, Route, changes, prefix_of, wanted
from ltp_switcher.daemon.service import log as logs
from ltp_switcher.errors import InvalidValueError


def use(options: argparse.Namespace) -> int:
    """Add prefixes, and their routes."""
    asked = [prefix_of(text) for text in options.prefix]
    before = store.load(options.file)
    table = RoutingTable()
    try:
        prefixes = list(dict.fromkeys([*before, *asked]))
        # A prefix that cannot be used is refused before anything is changed.
        changes(prefixes, table.read())
        if prefixes != before:
            store.save(options.file, prefixes)
        store.apply(table, prefixes)
        return _show(options, table, asked)
    finally:
        table.close()


def unuse(options: argparse.Namespace) -> int:
    """Drop prefixes, and their routes."""
    before = store.load(options.file)
    asked = before if options.all else [prefix_of(text) for text in options.prefix]
    if not asked and not options.all:
        raise InvalidValueError("PREFIX", "", "a prefix that `ltp-switcher used` lists, or --all")
    for prefix in asked:
        if prefix not in before:
            allowed = ", ".join(map(str, before)) or "none: no prefix is used"
            raise InvalidValueError("PREFIX", str(prefix), allowed)
    table = RoutingTable()
    try:
        left = [prefix for prefix in before if prefix not in asked]
        store.save(options.file, left)
        removed = store.apply(table, left).remove
    finally:
        table.close()
    if options.json:
        told: list[Object] = [{"removed": str(route.prefix)} for route in removed]
        return print_json(told)
    print("\n".join(f"route for {route.prefix} removed" for route in removed) or "unchanged")
    return 0


def used(options: argparse.Namespace) -> int:
    """List the prefixes, or keep their routes in step until SIGTERM."""
    if options.follow:
        return _follow(options)
    table = RoutingTable()
    try:
        return _show(options, table, store.load(options.file))
    finally:
        table.close()


def _follow(options: argparse.Namespace) -> int:
    stopped = False

    def stop(_number: int, _frame: FrameType | None) -> None:
        nonlocal stopped
        stopped = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    logs.set_up("info")
    logging.getLogger("pyroute2").setLevel(logging.WARNING)
    store.follow(options.file, lambda: stopped)
    return 0


def _show(options: argparse.Namespace, table: RoutingTable, prefixes: list[Network]) -> int:
    routes = table.read()
    ours = [route for route in routes if route.ours]
    rows = [(prefix, [r for r in wanted(prefix, routes) if r in ours]) for prefix in prefixes]
    if options.json:
        return print_json([_told(prefix, found, table) for prefix, found in rows])
    if not rows and not options.terse:
        print("no prefixes are used; add one with `ltp-switcher use PREFIX`")
        return 0
    cells = [(str(prefix), ", ".join(_text(r, table) for r in found) or _NONE) for prefix, found in rows]
    return print_table(options, ("PREFIX", "ROUTE"), cells)


_NONE = "none yet: no route covers it; the service ltp-switcher-routes adds it once one does"


def _told(prefix: Network, found: list[Route], table: RoutingTable) -> Object:
    return {"prefix": str(prefix), "routes": [_text(route, table) for route in found]}


def _text(route: Route, table: RoutingTable) -> str:
    hops = [
        f"via {hop.gateway} dev {table.device_name(hop.device)}" if hop.gateway
        else f"dev {table.device_name(hop.device)}"
        for hop in route.hops
    ]  # fmt: skip
    return printable(f"{route.prefix} {' and '.join(hops)} congctl {route.congestion}")
