# SPDX-License-Identifier: Apache-2.0
"""A page of flows: chosen, ordered and cut over all flows at once, before the first is described."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Slots
from ltp_switcher.daemon.control.answers import Params
from ltp_switcher.daemon.control.controlled import is_number
from ltp_switcher.daemon.datapath import ArmInfo
from ltp_switcher.daemon.settings.rules import did_you_mean
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.daemon.step.history import POINTS
from ltp_switcher.errors import InvalidValueError

PAGE_MAX: Final = 1000
ORDERS: Final = ("cookie", "goodput")
PARAMS: Final = frozenset({"arm", "prefix", "limit", "offset", "cursor", "order", "history"})
CURSOR_RULE: Final = "the next_cursor of a page, without an offset, in the order of cookies"
_WORD: Final = 2**64 - 1

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True, slots=True)
class Query:
    """Flows asked for. Raises `InvalidValueError` where it is `of` parameters that are not valid."""

    arm: int | None
    network: Network | None
    limit: int
    offset: int
    cursor: int
    """Only flows with a larger cookie."""
    order: str
    history: int
    """Points of history of each flow."""

    @classmethod
    def of(cls, params: Params, arms: Sequence[ArmInfo]) -> Query:
        """The query of a request, checked."""
        order = params.get("order", "cookie")
        if not isinstance(order, str) or order not in ORDERS:
            raise InvalidValueError("order", order, "one of " + ", ".join(ORDERS))
        cursor = params.get("cursor", "0")
        if not isinstance(cursor, str) or not is_number(cursor) or order != "cookie" or params.get("offset"):
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
            history=_number(params, "history", 0, 0, POINTS),
        )


def select(table: FlowTable, query: Query) -> tuple[Slots, int, int | None]:
    """The slots of a page in their order, the number of flows that match on all pages, and the next cursor.

    Pages by cursor leave no flow out and show none twice, whatever flows come and go meanwhile. None: this is
    the last page, or the order is another one.
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
    key = table.cookie[slots] if query.order == "cookie" else -table.goodput_Bps[slots]
    end = query.offset + query.limit
    page = slots[np.argsort(key, kind="stable")][query.offset : end]
    more = query.order == "cookie" and end < slots.size
    return page, total, int(table.cookie[page[-1]]) if more else None


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
    try:
        return ipaddress.ip_network(text if isinstance(text, str) else "")
    except ValueError as error:
        allowed = f"a network such as 192.0.2.0/24 or 2001:db8::/32 ({error})"
        raise InvalidValueError("prefix", text, allowed) from None


def _number(params: Params, name: str, usual: int, low: int, high: int) -> int:
    value = params.get(name, usual)
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise InvalidValueError(name, value, f"a whole number from {low} to {high}")
    return value
