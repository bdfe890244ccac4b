# SPDX-License-Identifier: Apache-2.0
"""Hosts that are known by themselves: which, how many, and their entries of the table."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.records import NETNS, flow
from support.told import Module, outcome, row

from ltp_switcher.daemon.gain.outcomes import PREFIX_KEY, prefix_key
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.daemon.step.learning import hosts as watching
from ltp_switcher.daemon.step.learning import places
from ltp_switcher.daemon.step.learning.hosts import Watched
from ltp_switcher.daemon.step.learning.live import LiveLearner
from ltp_switcher.errors import ArtifactError

from .test_live import BBR, GAINS, VEGAS, A, free, made, none, rows_of, run

FIRST, SECOND, LONG = "192.0.2.7/32", "192.0.2.8/32", "2001:db8:7::9/128"


@pytest.fixture
def enough(monkeypatch: pytest.MonkeyPatch) -> int:
    """Five visits are enough here."""
    monkeypatch.setattr(watching, "ENOUGH", 5)
    return 5


def known(live: LiveLearner) -> set[str]:
    return {live.prefixes.texts[number] for number in live.prefixes.numbers().tolist()}


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), max_size=60), st.integers(1, 5))
def test_a_host_is_told_of_once_it_has_had_enough_visits(told: list[tuple[int, int]], cut: int) -> None:
    """However the flows are cut into looks, and however many flows a visit has."""
    watched, found = Watched(), Counter[int]()
    visits, last = Counter[int](), dict[int, int]()
    expected = Counter[int]()
    for host, visit in told:
        visits[host] += last.get(host) != visit
        last[host] = visit
        if visits[host] >= watching.ENOUGH:
            expected[host] += 1
            del visits[host], last[host]
    for begin in range(0, len(told), cut):
        part = told[begin : begin + cut]
        keys = places.hosts_of(np.concatenate([outcome(f"192.0.2.{host}") for host, _ in part]))
        for place in watched.count(keys, np.array([visit for _, visit in part])).tolist():
            found[part[place][0]] += 1
    assert set(found) == set(expected)


def test_watched_hosts_are_bounded_and_the_one_unseen_for_longest_goes(enough: int) -> None:
    watched = Watched(most=10)
    for visit in range(1, 4):
        for number in (0, *range(visit * 10, visit * 10 + 8)):
            watched.count(places.hosts_of(outcome(f"192.0.2.{number}")), np.array([visit]))
            assert len(watched) <= 10
    found = [watched.count(places.hosts_of(outcome("192.0.2.0")), np.array([visit])).size for visit in (4, 5)]
    assert found == [0, 1]


def test_a_host_unlike_its_prefix_has_its_own_arm(enough: int) -> None:
    """The decision suits one host of a prefix. On the other one Vegas earns four times as much."""
    module = Module({FIRST: GAINS, SECOND: {**GAINS, VEGAS: 1.4}, A: GAINS}, BBR)
    live = made(module)
    live.prefixes._most = 64
    now_s = run(live, module, 12)
    assert {FIRST, SECOND, A} <= known(live)
    numbers = [live.prefixes.find(text) for text in (FIRST, SECOND)]
    live.learner.purse.earn(np.array(numbers), np.array([1000.0, 1000.0]))
    # Its prefix runs Vegas, and the first host leaves it when its own visits show the loss.
    now_s = run(live, module, 90, now_s)
    plans = {one.prefix: one for one in live.of(live.prefixes.numbers(), now_s)}
    assert (plans[SECOND].incumbent, plans[FIRST].incumbent) == (VEGAS, 0)
    # The longest prefix counts in the module, and each host draws for itself.
    assert {FIRST, SECOND, A} <= module.table.keys()
    assert VEGAS in module.table[SECOND]["choice"]["arm"]


def test_a_single_host_is_its_prefix(enough: int) -> None:
    module = Module({FIRST: GAINS}, BBR)
    live = made(module)
    run(live, module, 3 * enough)
    assert known(live) == {A}


def test_hosts_are_told_apart_in_both_families(enough: int) -> None:
    module = Module({FIRST: GAINS, SECOND: GAINS, LONG: GAINS, "2001:db8:7::a/128": GAINS}, BBR)
    live = made(module)
    run(live, module, 2 * enough)
    assert known(live) == {A, FIRST, SECOND, "2001:db8:7::/48", LONG, "2001:db8:7::a/128"}


def test_a_prefix_has_no_more_than_16_hosts(enough: int) -> None:
    module = Module({f"192.0.2.{host}/32": GAINS for host in range(1, 25)}, BBR)
    live = made(module)
    run(live, module, 2 * enough)
    assert len(known(live)) == 17
    assert live.prefixes.single_hosts == 16


def test_hosts_take_no_room_from_prefixes(enough: int) -> None:
    module = Module({f"192.0.2.{host}/32": GAINS for host in range(1, 9)}, BBR)
    live = made(module)
    live.prefixes._most = 8
    run(live, module, 2 * enough)
    assert len(live.prefixes) == 4


def test_a_forgotten_prefix_takes_its_hosts_and_their_entries_along(enough: int) -> None:
    module = Module({FIRST: GAINS, SECOND: GAINS}, BBR)
    live = made(module)
    live.prefixes._most = 8
    now_s = run(live, module, 2 * enough)
    assert known(live) == {A, FIRST, SECOND}
    table = FlowTable(home_netns=NETNS)
    for number in range(8):
        now_s += 100.0
        live.take(rows_of(row(now_s, f"10.0.{number}.9", visit=1)), table, free, now_s)
        for _ in range(10):
            live.plan(free, now_s)
    assert not {A, FIRST, SECOND} & (known(live) | module.table.keys())
    assert live.prefixes.single_hosts == 0


def test_a_restart_keeps_hosts(enough: int) -> None:
    module = Module({FIRST: GAINS, SECOND: GAINS}, BBR)
    live = made(module)
    now_s = run(live, module, 2 * enough)
    again = made(module)
    assert again.restore(live.state())
    assert known(again) == known(live)
    # The mean effects over all prefixes come from what is saved, with the first plan.
    for of in (live, again):
        of.learner._widen(now_s)
    first, second = (
        {one.prefix: one.effects for one in of.of(of.prefixes.numbers(), now_s)} for of in (live, again)
    )
    assert first == second
    number = again.prefixes.find(A)
    assert number is not None
    assert again.prefixes.and_hosts(number).size == 3


def test_the_state_of_an_earlier_release_has_no_hosts() -> None:
    module = Module({A: GAINS, "2001:db8:7::/48": GAINS}, BBR)
    live = made(module)
    run(live, module, 3)
    saved = live.state()
    names = [live.prefixes.texts[number] for number in range(len(live.prefixes))]
    keys = np.array([prefix_key(name) for name in names], PREFIX_KEY)
    again = made(module)
    assert again.restore({**saved, "keys": keys.view(np.uint8).reshape(len(names), PREFIX_KEY.itemsize)})
    assert known(again) == {A, "2001:db8:7::/48"}


def test_a_host_without_its_prefix_is_damage(enough: int) -> None:
    module = Module({FIRST: GAINS, SECOND: GAINS}, BBR)
    live = made(module)
    run(live, module, 2 * enough)
    saved = live.state()
    number = live.prefixes.find(A)
    seen_s = saved["prefix_seen_s"].copy()
    seen_s[number] = 0.0
    with pytest.raises(ArtifactError):
        made(module).restore({**saved, "prefix_seen_s": seen_s})


def test_a_flow_to_a_host_has_the_host_s_place(enough: int) -> None:
    module = Module({FIRST: GAINS, SECOND: GAINS}, BBR)
    live, table = made(module), FlowTable(home_netns=NETNS)
    run(live, module, 2 * enough)
    slots = [
        table.add(flow(cookie, address, arm=VEGAS), 0)
        for cookie, address in ((1, "192.0.2.7"), (2, "192.0.2.99"))
    ]
    assert [live.place_of(table, slot) for slot in slots] == [FIRST, A]


def test_hosts_of_a_ruled_prefix_get_no_plan(enough: int) -> None:
    module = Module({FIRST: GAINS, SECOND: GAINS}, BBR)
    live = made(module)
    now_s = run(live, module, 2 * enough)
    assert FIRST in module.table
    live.release(none)
    assert module.table == {}
    for _ in range(20):
        live.plan(none, now_s)
    assert module.table == {}


def test_other_hosts_of_the_fleet_hear_of_prefixes_alone(enough: int) -> None:
    module = Module({FIRST: GAINS, SECOND: GAINS}, BBR)
    live = made(module)
    now_s = run(live, module, 2 * enough)
    numbers, _ = live.lessons(-1, now_s)
    assert [live.prefixes.texts[number] for number in numbers.tolist()] == [A]
