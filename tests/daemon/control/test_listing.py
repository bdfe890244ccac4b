# SPDX-License-Identifier: Apache-2.0
"""Pages of flows."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.fake_kernel import ARMS
from support.records import flow

from ltp_switcher.daemon.control.listing import Query, median_rtt_ms, select
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.errors import InvalidValueError

NETWORKS = [
    "0.0.0.0/0", "198.51.0.0/17", "198.51.100.0/24", "198.51.100.7/32", "255.255.255.255", "::/0",
    "2001:db8::/32", "2001:db8:0:1::/64", "2001:db8:0:1::/96", "::/96", "2001:db8::7/128",
    "128.0.0.0/1", "8000::/1",
]  # fmt: skip


@pytest.fixture
def table() -> FlowTable:
    """Flows to addresses in and around the networks, in no order."""
    rng = random.Random(3)
    addresses = {"0.0.0.0", "255.255.255.255", "::", "::1", "ffff:" * 7 + "ffff"}  # noqa: S104
    for text in NETWORKS:
        network = ipaddress.ip_network(text)
        for at in (network.network_address, network.broadcast_address):
            addresses.add(str(at))
            for step in (-1, 1, 7):
                if 0 <= int(at) + step < 2**network.max_prefixlen:
                    addresses.add(str(at + step))
    made = FlowTable()
    for address in sorted(addresses):
        made.add(flow(rng.getrandbits(64) or 1, address, arm=rng.choice([1, 2])), 0)
    return made


@pytest.mark.parametrize("text", NETWORKS)
def test_a_prefix_chooses_as_ipaddress_does(table: FlowTable, text: str) -> None:
    network = ipaddress.ip_network(text)
    slots, total, _ = select(table, Query.of({"prefix": text, "limit": 1000}, ARMS))
    found = {table.info[slot].remote_address for slot in slots}
    every = [info.remote_address for info in table.info if info is not None]
    assert found == {address for address in every if ipaddress.ip_address(address) in network}
    assert total == len(found)


def test_pages_follow_one_another_by_cookie(table: FlowTable) -> None:
    cookies = sorted(int(table.cookie[slot]) for slot in table.slots())
    found: list[int] = []
    while True:
        slots, total, _ = select(table, Query.of({"limit": 7, "offset": len(found)}, ARMS))
        assert total == len(cookies)
        if not slots.size:
            break
        found += [int(table.cookie[slot]) for slot in slots]
    assert found == cookies


def test_pages_by_cursor_hold_each_flow_once_while_others_come_and_go(table: FlowTable) -> None:
    rng = random.Random(7)
    standing = sorted(int(table.cookie[slot]) for slot in table.slots())
    found: list[int] = []
    cursor: int | None = 0
    while cursor is not None:
        slots, _, cursor = select(table, Query.of({"limit": 7, "cursor": str(cursor)}, ARMS))
        found += [int(table.cookie[slot]) for slot in slots]
        for _ in range(3):
            table.add(flow(rng.getrandbits(64) or 1), 0)
        gone = rng.choice(found)
        table.remove(gone)
        standing = [cookie for cookie in standing if cookie != gone or cookie in found]
    assert found == sorted(set(found))
    assert set(standing) <= set(found)


def test_the_last_page_has_no_cursor_and_neither_has_another_order(table: FlowTable) -> None:
    count = len(table.slots())
    for params, known in (
        ({"limit": count - 1}, True), ({"limit": count}, False), ({"limit": 1, "order": "goodput"}, False),
    ):  # fmt: skip
        assert (select(table, Query.of(params, ARMS))[2] is not None) == known  # type: ignore[arg-type]


def test_an_arm_chooses_and_goodput_orders(table: FlowTable) -> None:
    table.goodput_Bps[table.slots()] = [random.Random(1).random() for _ in table.slots()]
    slots, total, _ = select(table, Query.of({"arm": "bbr", "order": "goodput", "limit": 1000}, ARMS))
    assert total == sum(int(table.record["arm"][slot]) == 2 for slot in table.slots()) > 0
    goodputs = table.goodput_Bps[slots].tolist()
    assert goodputs == sorted(goodputs, reverse=True)


@given(st.integers(0, 2**32 - 1), st.integers(0, 12))
def test_every_order_is_that_of_the_flows_own_values(seed: int, count: int) -> None:
    rng = random.Random(seed)
    table = FlowTable()
    for cookie in range(1, count + 1):
        table.add(flow(cookie, rng.choice(["192.0.2.9", "192.0.2.10", "2001:db8::1"])), 0)
    for slot in table.slots():
        table.born_ns[slot] = rng.randrange(4)
        table.goodput_Bps[slot] = rng.randrange(4)
        for field in ("srtt_us", "min_rtt_us", "total_lost", "total_delivered", "switches"):
            table.record[field][slot] = rng.randrange(4)
    flows = {slot: table.record[slot] for slot in table.slots()}
    # The value of a flow for each order; the largest comes first, and an unknown one last.
    values: dict[str, Callable[[int], float | None]] = {
        "goodput": lambda slot: float(table.goodput_Bps[slot]),
        "rtt": lambda slot: int(flows[slot]["srtt_us"]) or None,
        "min_rtt": lambda slot: int(flows[slot]["min_rtt_us"]) or None,
        "loss": lambda slot: (
            int(flows[slot]["total_lost"])
            / max(int(flows[slot]["total_lost"] + flows[slot]["total_delivered"]), 1)
        ),
        "switches": lambda slot: int(flows[slot]["switches"]),
        "age": lambda slot: 9 - int(table.born_ns[slot]),
    }
    for order, value in values.items():
        for reverse in (False, True):
            query = Query.of({"order": order, "reverse": reverse, "limit": 1000}, ARMS)
            slots, total, cursor = select(table, query)
            assert (sorted(slots), total, cursor) == (sorted(flows), count, None)
            found = [value(slot) for slot in slots]
            known = [one for one in found if one is not None]
            assert found == sorted(known, reverse=not reverse) + [None] * (count - len(known))


def test_addresses_are_ordered_as_numbers_and_cookies_both_ways(table: FlowTable) -> None:
    def found(**params: object) -> list[int]:
        return [int(slot) for slot in select(table, Query.of({"limit": 1000, **params}, ARMS))[0]]  # type: ignore[dict-item]

    infos = [table.info[slot] for slot in found(order="remote")]
    remotes = [ipaddress.ip_address(info.remote_address) for info in infos if info is not None]
    assert remotes == sorted(remotes, key=lambda address: (address.version, int(address)))
    assert found(order="remote", reverse=True) == found(order="remote")[::-1]
    assert found(reverse=True) == found()[::-1]


def test_the_median_rtt_is_of_all_flows_that_have_one() -> None:
    table = FlowTable()
    assert median_rtt_ms(table) is None
    for cookie, rtt_us in enumerate([9000, 0, 1000, 4000, 50_000], 1):
        slot = table.add(flow(cookie), 0)
        table.record["srtt_us"][slot] = rtt_us
    assert median_rtt_ms(table) == pytest.approx(6.5)


@pytest.mark.parametrize(
    ("params", "field", "allowed"),
    [
        ({"arm": "bbrr"}, "arm", "did you mean bbr"),
        ({"arm": 2}, "arm", "one of cubic"),
        ({"prefix": "10.0.0.1/8"}, "prefix", "host bits set"),
        ({"prefix": 7}, "prefix", "a network such as"),
        ({"limit": 0}, "limit", "from 1 to 1000"),
        ({"limit": 1001}, "limit", "from 1 to 1000"),
        ({"limit": True}, "limit", "whole number"),
        ({"offset": -1}, "offset", "from 0"),
        ({"cursor": 7}, "cursor", "next_cursor"),
        ({"cursor": "x"}, "cursor", "next_cursor"),
        ({"cursor": "9" * 20}, "cursor", "next_cursor"),
        ({"cursor": "7", "order": "goodput"}, "cursor", "in the order of cookies"),
        ({"cursor": "7", "offset": 1}, "cursor", "without an offset"),
        ({"cursor": "7", "reverse": True}, "cursor", "not reversed"),
        ({"order": "pacing"}, "order", "cookie, remote, goodput, rtt"),
        ({"reverse": 1}, "reverse", "true or false"),
    ],
)
def test_a_wrong_query_is_named(params: dict[str, object], field: str, allowed: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        Query.of(params, ARMS)  # type: ignore[arg-type]
    assert caught.value.field == field
    assert allowed in caught.value.allowed
