# SPDX-License-Identifier: Apache-2.0
"""Which routes prefixes need: copies of the covering route, beside all others."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.routes.plan import Changes, Hop, Network, Route, changes, prefix_of, wanted
from ltp_switcher.errors import InvalidValueError

STATIC, MINE = 4, 109


def net(text: str) -> Network:
    return ipaddress.ip_network(text)


def route(prefix: str, gateway: str | None = "192.0.2.1", priority: int = 0, protocol: int = STATIC) -> Route:
    return Route(net(prefix), (Hop(2, gateway),), protocol, priority)


DEFAULT = route("0.0.0.0/0")


def test_the_longest_covering_route_is_copied_with_all_it_says() -> None:
    near = Route(
        net("203.0.0.0/16"), (Hop(3, "192.0.2.9"), Hop(4, None, 2)), STATIC, 50, "192.0.2.2", (("mtu", 1400),)
    )
    made = wanted(net("203.0.113.0/24"), [DEFAULT, near, route("203.0.113.128/25")])
    assert made == [
        Route(net("203.0.113.0/24"), near.hops, MINE, 50, "192.0.2.2", (("mtu", 1400),), "mutant")
    ]


def test_of_equal_routes_the_first_by_priority_is_copied() -> None:
    routes = [route("0.0.0.0/0", "192.0.2.1", 100), route("0.0.0.0/0", "192.0.2.2", 20)]
    assert wanted(net("198.51.100.0/24"), routes)[0].hops == (Hop(2, "192.0.2.2"),)


def test_a_prefix_with_a_route_of_its_own_is_used_by_halves() -> None:
    made = wanted(net("0.0.0.0/0"), [DEFAULT])
    assert [str(r.prefix) for r in made] == ["0.0.0.0/1", "128.0.0.0/1"]
    # A half that has a route as well is halved again.
    made = wanted(net("0.0.0.0/0"), [DEFAULT, route("0.0.0.0/1", "192.0.2.7")])
    assert [str(r.prefix) for r in made] == ["0.0.0.0/2", "64.0.0.0/2", "128.0.0.0/1"]
    assert made[0].hops == (Hop(2, "192.0.2.7"),)


def test_an_address_with_a_route_of_its_own_is_refused_with_the_remedy() -> None:
    with pytest.raises(InvalidValueError, match="congctl mutant"):
        wanted(net("198.51.100.7/32"), [DEFAULT, route("198.51.100.7/32")])


def test_families_do_not_mix() -> None:
    assert wanted(net("2001:db8::/32"), [DEFAULT]) == []
    assert changes([net("2001:db8::/32")], [DEFAULT]) == Changes((), (), (net("2001:db8::/32"),))


def test_a_new_gateway_of_the_covering_route_moves_ours() -> None:
    before = wanted(net("198.51.100.0/24"), [DEFAULT])
    moved = route("0.0.0.0/0", "192.0.2.254")
    due = changes([net("198.51.100.0/24")], [moved, *before])
    assert due.remove == tuple(before)
    assert [r.hops for r in due.add] == [(Hop(2, "192.0.2.254"),)]


def test_without_a_covering_route_ours_goes() -> None:
    ours = wanted(net("198.51.100.0/24"), [DEFAULT])
    due = changes([net("198.51.100.0/24")], ours)
    assert (due.remove, due.add, due.uncovered) == (tuple(ours), (), (net("198.51.100.0/24"),))


prefixes = st.builds(
    lambda value, length: ipaddress.ip_network((value << 24, length), strict=False),
    st.integers(0, 255),
    st.integers(0, 24),
)
tables = st.lists(
    st.builds(lambda p, n: route(str(p), f"192.0.2.{n}"), prefixes, st.integers(1, 254)), max_size=6
)


@given(st.lists(prefixes, max_size=4), tables, tables)
def test_changes_touch_no_other_route_and_a_second_time_nothing(
    used: list[Network], routes: list[Route], earlier: list[Route]
) -> None:
    stale = [r for p in used for r in wanted(p, earlier)]
    present = [*routes, *dict.fromkeys(stale)]
    due = changes(used, present)
    assert all(r.protocol == MINE for r in (*due.remove, *due.add))
    after = [r for r in present if r not in due.remove] + list(due.add)
    assert changes(used, after) == Changes((), (), due.uncovered)
    # Nobody's packets take another way: each of ours goes where its cover goes.
    for r in due.add:
        covers = [o for o in routes if r.prefix.subnet_of(o.prefix)]  # type: ignore[arg-type]
        assert r.hops == max(covers, key=lambda o: (o.prefix.prefixlen, -routes.index(o))).hops


@pytest.mark.parametrize("text", ["", "203.0.113.1/24", "203.0.113.0/33", "example.org", "::/129", "1.2.3"])
def test_no_prefix_is_an_error_that_shows_one(text: str) -> None:
    with pytest.raises(InvalidValueError, match=r"203\.0\.113\.0/24"):
        prefix_of(text)
