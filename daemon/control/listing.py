# SPDX-License-Identifier: Apache-2.0
"""A page of flows. The page is selected from arrays of all flows; only then are its flows
described as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Ints, Slots
from ltp_switcher.daemon.control.answers import Params
from ltp_switcher.daemon.control.controlled import is_number
from ltp_switcher.daemon.datapath import ArmInfo
from ltp_switcher.daemon.datapath.performance import known_rtt
from ltp_switcher.daemon.settings.prefixes import Network, prefix_of
from ltp_switcher.daemon.settings.rules import did_you_mean
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.daemon.step.history import POINTS
from ltp_switcher.errors import InvalidValueError
from ltp_switcher.measures import loss_rate

PAGE_MAX: Final = 1000
PARAMS: Final = frozenset({"arm", "prefix", "limit", "offset", "cursor", "order", "reverse", "history"})
CURSOR_RULE: Final = "the next_cursor of a page, without an offset, in the order of cookies, not reversed"
_WORD: Final = 2**64 - 1

_MEASURES: Final[Mapping[str, Callable[[FlowTable, Slots], Floats]]] = {
    "goodput": lambda table, slots: table.goodput_Bps[slots],
    "rtt": lambda table, slots: _known(table.record["srtt_us"][slots]),
    "min_rtt": lambda table, slots: _known(table.record["min_rtt_us"][slots]),
    "loss": lambda table, slots: loss_rate(
        table.record["total_lost"][slots], table.record["total_delivered"][slots]
    ),
    "switches": lambda table, slots: table.record["switches"][slots].astype(np.float64),
    "age": lambda table, slots: -table.born_ns[slots].astype(np.float64),
}
"""The values by which flows can be ordered, the largest value first; NaN where a value is unknown."""
ORDERS: Final = ("cookie", "remote", *_MEASURES)


@dataclass(frozen=True, slots=True)
class Query:
    """A request for flows. `Query.of` raises `InvalidValueError` if the request's parameters are not
    valid.
    """

    arm: int | None
    network: Network | None
    limit: int
    offset: int
    cursor: int
    """The cookie after which the page begins: every flow of the page has a larger cookie."""
    order: str
    reverse: bool
    history: int
    """Number of points of each flow's past that the answer has; a point covers one second."""

    @classmethod
    def of(cls, params: Params, arms: Sequence[ArmInfo]) -> Query:
        """Check the parameters of a request, and make its query."""
        order = params.get("order", "cookie")
        if not isinstance(order, str) or order not in ORDERS:
            raise InvalidValueError("order", order, "one of " + ", ".join(ORDERS))
        reverse = params.get("reverse", False)
        if not isinstance(reverse, bool):
            raise InvalidValueError("reverse", reverse, "true or false")
        cursor = params.get("cursor", "0")
        by_cookie = order == "cookie" and not reverse
        if not isinstance(cursor, str) or not is_number(cursor) or not by_cookie or params.get("offset"):
            if "cursor" in params:
                raise InvalidValueError("cursor", cursor, CURSOR_RULE)
            cursor = "0"
        return cls(
            arm=_arm(params, arms),
            network=_network(params),
            limit=_number(params, "limit", 100, 1, PAGE_MAX),
            offset=_number(params, "offset", 0, 0, _WORD),
            cursor=int(cursor),
            order=order,
            reverse=reverse,
            history=_number(params, "history", 0, 0, POINTS),
        )


def select(table: FlowTable, query: Query) -> tuple[Slots, int, int | None]:
    """The slots of a page in their order, shape (n,), the number of flows that match on all pages, and the
    cursor of the next page.

    Pages by cursor leave out no flow and show none twice, even while flows come and go. The cursor is None on
    the last page. It is also None for any order but rising cookies.
    """
    slots = np.array(table.slots(), np.int64)
    chosen = np.ones(slots.size, np.bool_)
    if query.arm is not None:
        chosen &= table.record["arm"][slots] == query.arm
    if query.network is not None:
        chosen &= _inside(table, slots, query.network)
    slots = slots[chosen]
    total = slots.size
    slots = slots[table.cookie[slots] > np.uint64(query.cursor)]
    end = query.offset + query.limit
    page = slots[_ranked(table, slots, query)][query.offset : end]
    more = query.order == "cookie" and not query.reverse and end < slots.size
    return page, total, int(table.cookie[page[-1]]) if more else None


def _ranked(table: FlowTable, slots: Slots, query: Query) -> Slots:
    """Indices that sort `slots` in the query's order, shape (n,). Unknown values come last in either
    direction.
    """
    if query.order in _MEASURES:
        values = _MEASURES[query.order](table, slots)
        return np.argsort(values if query.reverse else -values, kind="stable")
    cookie, (high, low) = table.cookie[slots], table.remote[slots].T
    # The last key counts first.
    keys = (cookie,) if query.order == "cookie" else (cookie, low, high, table.is_ipv6[slots])
    ranked = np.lexsort(keys)
    return ranked[::-1] if query.reverse else ranked


def _known(rtt_us: Ints) -> Floats:
    """RTTs in µs, in the shape of `rtt_us`; NaN where the kernel has none."""
    return np.where(known_rtt(rtt_us) & (rtt_us > 0), rtt_us.astype(np.float64), np.nan)


def median_rtt_ms(table: FlowTable) -> float | None:
    """Median of the smoothed RTTs of all flows with an RTT, in ms; None if there are no such flows."""
    rtt_us = table.record["srtt_us"][np.array(table.slots(), np.int64)]
    known = rtt_us[rtt_us > 0]
    return round(float(np.median(known)) / 1000, 3) if known.size else None


def _inside(table: FlowTable, slots: Slots, network: Network) -> Bools:
    six = network.version == 6
    mask, address = int(network.netmask), int(network.network_address)
    # IPv4 addresses are in the low word alone.
    masks = np.array([mask >> 64, mask & _WORD], np.uint64)
    wanted = np.array([address >> 64, address & _WORD], np.uint64)
    same = ((table.remote[slots] & masks) == wanted).all(axis=1)
    inside: Bools = same & (table.is_ipv6[slots] == six)
    return inside


def _arm(params: Params, arms: Sequence[ArmInfo]) -> int | None:
    name = params.get("arm")
    if name is None:
        return None
    ids = {arm.name: arm.id for arm in arms}
    if not isinstance(name, str) or name not in ids:
        raise InvalidValueError("arm", name, f"one of {', '.join(ids)}{did_you_mean(str(name), list(ids))}")
    return ids[name]


def _network(params: Params) -> Network | None:
    text = params.get("prefix")
    if text is None:
        return None
    return prefix_of(text, "prefix")


def _number(params: Params, name: str, usual: int, low: int, high: int) -> int:
    value = params.get(name, usual)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidValueError(name, value, f"a whole number from {low} to {high}")
    return value
