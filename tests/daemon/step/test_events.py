# SPDX-License-Identifier: Apache-2.0
"""The ring of events: numbers, replay, and the limits on memory and rate."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from ltp_switcher.daemon.step import events
from ltp_switcher.daemon.step.events import EventRing


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The time of the ring, s; it stands still until the test moves it."""
    now = SimpleNamespace(s=1000.5)
    fake = SimpleNamespace(
        monotonic=lambda: now.s, time=lambda: 1.7e9 + now.s, time_ns=lambda: int((1.7e9 + now.s) * 1e9)
    )
    monkeypatch.setattr(events, "time", fake)
    return now


def test_numbers_follow_one_another_and_a_reader_continues(clock: SimpleNamespace) -> None:
    ring = EventRing()
    first = ring.next
    for mode in ("off", "advise"):
        ring.tell("mode-changed", after=mode)
    replay = ring.since(first)
    assert [event["after"] for event in replay.events] == ["off", "advise"]
    assert [event["number"] for event in replay.events] == [first, first + 1]
    assert (replay.next, replay.missed) == (first + 2, False)
    assert ring.since(replay.next).events == []
    assert [event["after"] for event in ring.since(first + 1).events] == ["advise"]


def test_a_reader_of_an_earlier_daemon_is_told_that_it_missed_something(clock: SimpleNamespace) -> None:
    before = EventRing()
    before.tell("mode-changed", after="off")
    clock.s += 1.0
    after = EventRing()
    after.tell("mode-changed", after="active")
    assert after.next > before.next
    for number in (before.next, 0, after.next + 1):
        replay = after.since(number)
        assert replay.missed
        assert [event["after"] for event in replay.events] == ["active"]


def test_memory_is_bounded_and_pages_are_too(clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "KEPT", 30)
    monkeypatch.setattr(events, "PAGE", 8)
    ring = EventRing()
    first = ring.next
    for number in range(100):
        ring.add("flow-opened", cookie=str(number))
    seen, replay = [], ring.since(first)
    assert replay.missed
    while replay.events:
        assert len(replay.events) <= 8
        seen += [event["cookie"] for event in replay.events]
        replay = ring.since(replay.next)
        assert not replay.missed
    assert seen == [str(number) for number in range(70, 100)]


def test_one_kind_at_a_high_rate_leaves_room_for_others_and_is_counted(clock: SimpleNamespace) -> None:
    ring = EventRing()
    first = ring.next
    for _ in range(1000):
        ring.tell("flow-opened")
    ring.tell("mode-changed")
    kinds = [event["kind"] for event in ring.since(first).events]
    assert (kinds.count("flow-opened"), kinds.count("mode-changed")) == (50, 1)
    clock.s += 1.0
    last = ring.since(first).events[-1]
    assert (last["kind"], last["of"], last["count"]) == ("events-left-out", "flow-opened", 950)
    assert ring.room("flow-opened", 7) == 7
