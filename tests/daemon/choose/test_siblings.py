# SPDX-License-Identifier: Apache-2.0
"""Siblings: flows of a prefix that share a queue are one player, others are not."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.records import record
from support.rule_flows import BBR, LTP, STEP_S, UNCHECKED, VEGAS, times_s

from ltp_switcher.arrays import Bools, Floats
from ltp_switcher.daemon.choose.path.looks import read
from ltp_switcher.daemon.choose.players.siblings import Siblings
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.datapath.protocol import FlowFlags

FIELDS = {
    "time_ns": 0, "interval_ns": 1, "silent": 2, "rtt_samples": 3, "rtt_stat.min": 4, "rtt_stat.sum": 5,
    "srtt_stat.max": 6, "total_delivered": 7, "total_lost": 8, "lost_without_queue": 9,
    "srtt_us": 10, "mss": 11, "rtt_floor_us": 12, "bdp": 13, "round_trips": 14,
}  # fmt: skip
"""Rows of what `read` gives, told here once more."""


def step_of(rtts_ms: list[float], totals: list[int], at_s: float, lost: int = 0) -> np.ndarray:
    """The records of flows with these RTTs, that have delivered and each lost so many packets."""
    rows = []
    for i, (rtt_ms, total) in enumerate(zip(rtts_ms, totals, strict=True)):
        rtt_us = round(rtt_ms * 1e3)
        made = record(
            i + 1, time_ns=10**9 + round(at_s * 1e9), interval_ns=round(STEP_S * 1e9), rtt_samples=5,
            srtt_us=rtt_us, mss=1448, total_delivered=total, total_lost=lost,
            rtt_floor_us=rtt_us, round_trips=100, bdp=7 + i,
        )  # fmt: skip
        made["credit"]["time_ns"][0, 1] = round(STEP_S * 1e9) - 1000 * i
        made["rtt_stat"] = made["srtt_stat"] = (rtt_us, rtt_us, 5 * rtt_us)
        rows.append(made)
    return np.concatenate(rows)


def no_flags(n: int) -> Bools:
    return np.zeros(n, np.bool_)


def folded(siblings: Siblings, slots: np.ndarray, records: np.ndarray) -> tuple[np.ndarray, Floats]:
    seen, idle, _ = read(records)
    made = siblings.fold(slots, seen, idle, no_flags(len(slots)))
    return made.players, made.seen


Prefixes = st.lists(st.sampled_from("abcd"), min_size=1, max_size=12)


@given(Prefixes, st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_a_player_has_the_packets_of_all_its_flows(prefixes: list[str], seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = len(prefixes)
    siblings, slots = Siblings(), rng.permutation(n)
    siblings.open(slots, prefixes)
    rtts_ms = rng.uniform(10.0, 90.0, n).tolist()
    sent = rng.integers(1, 100, (2, n)).cumsum(axis=0)
    folded(siblings, slots, step_of(rtts_ms, sent[0].tolist(), 0.0))
    players, seen = folded(siblings, slots, step_of(rtts_ms, sent[1].tolist(), 1.0))
    of = siblings.player[slots]
    assert sorted(set(of.tolist())) == sorted(players.tolist())
    assert len(players) == len(set(prefixes))
    for player, row in zip(players.tolist(), seen.T, strict=True):
        mine = of == player
        assert len({prefix for prefix, here in zip(prefixes, mine, strict=True) if here}) == 1
        assert row[FIELDS["total_delivered"]] == (sent[1] - sent[0])[mine].sum()
        assert row[FIELDS["bdp"]] == (7 + np.arange(n))[mine].sum()
        least_us = min(round(rtt * 1e3) for rtt, here in zip(rtts_ms, mine, strict=True) if here)
        assert row[FIELDS["rtt_stat.min"]] == row[FIELDS["rtt_floor_us"]] == least_us
        assert row[FIELDS["rtt_samples"]] == 5 * mine.sum()
        assert row[FIELDS["silent"]] == pytest.approx(1000 * np.arange(n)[mine].mean())


@given(st.lists(st.tuples(st.floats(1, 300), st.integers(0, 999)), min_size=1, max_size=9))
@settings(max_examples=30, deadline=None)
def test_a_flow_alone_is_seen_as_it_is(flows: list[tuple[float, int]]) -> None:
    """Only the counters differ: they begin at 0."""
    siblings, slots = Siblings(), np.arange(len(flows))
    siblings.open(slots, [str(slot) for slot in slots])
    before = step_of([rtt for rtt, _ in flows], [total for _, total in flows], 0.0)
    after = step_of([rtt for rtt, _ in flows], [total + 60 for _, total in flows], 1.0)
    first = folded(siblings, slots, before)[1]
    players, seen = folded(siblings, slots, after)
    assert players.tolist() == siblings.player[slots].tolist()
    same = [row for name, row in FIELDS.items() if not name.startswith("total")]
    np.testing.assert_array_equal(seen[same], read(after)[0][same])
    np.testing.assert_array_equal((seen - first)[[7, 8]], (read(after)[0] - read(before)[0])[[7, 8]])


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"), st.integers(0, 99)), max_size=60))
@settings(max_examples=60, deadline=None)
def test_flows_that_come_and_go_leave_no_player_behind(events: list[tuple[bool, str, int]]) -> None:
    siblings, free, there = Siblings(), list(range(60)), {}
    for comes, prefix, which in events:
        if comes:
            slot = free.pop(which % len(free))
            founded = siblings.open(np.array([slot]), [prefix])
            assert bool(founded.size) is (prefix not in there.values())
            there[slot] = prefix
        elif there:
            slot = list(there)[which % len(there)]
            siblings.close(np.array([slot]))
            del there[slot]
            free.append(slot)
        players = {slot: int(siblings.player[slot]) for slot in there}
        assert len(set(players.values())) == len(set(there.values()))
        assert all(siblings.prefix(players[slot]) == prefix for slot, prefix in there.items())
        assert siblings.several == sum(list(there.values()).count(p) > 1 for p in set(there.values()))
    siblings.close(np.array(list(there), np.int64))
    assert siblings.open(np.array([0]), ["a"]).tolist() == siblings.player[[0]].tolist()
    assert siblings.several == 0


def play(
    rtts_ms: list[float], rates_pps: list[float], *, duration_s: float, slots: np.ndarray | None = None
) -> tuple[RuleChooser, np.ndarray]:
    """Flows to one prefix from the same moment on: the chooser, and the arms, shape (steps, flows)."""
    chooser = RuleChooser([BBR, LTP, VEGAS], UNCHECKED)
    slots = np.arange(len(rtts_ms)) if slots is None else slots
    chooser.open(slots, ["a"] * len(rtts_ms))
    arms = []
    for step in range(1, round(duration_s / STEP_S)):
        totals = [int(rate * step * STEP_S) for rate in rates_pps]
        arms.append(chooser.step(slots, step_of(rtts_ms, totals, step * STEP_S)).arms)
    return chooser, np.array(arms)


def test_siblings_change_their_arms_together_and_a_new_one_joins_them_at_once() -> None:
    chooser, arms = play([40.0, 41.0, 42.0], [1000.0] * 3, duration_s=4.0)
    assert (arms == arms[:, :1]).all()
    assert [arm for _, arm in times_s(arms[:, 0])] == [BBR, LTP]
    chooser.open(np.array([7]), ["a"])
    chooser.open(np.array([8]), ["b"])
    records = step_of([40.0, 40.0], [10, 10], 4.0)
    assert chooser.step(np.array([7, 8]), records).arms.tolist() == [LTP, BBR]
    together = chooser.together(np.array([0, 7, 8]))
    assert together is not None
    assert (together[0] == together[1], together[0] == together[2]) == (True, False)


@pytest.mark.parametrize(("lost_pps", "then"), [(20, [BBR, LTP]), (0, [BBR, LTP, BBR])])
def test_several_flows_empty_the_queue_that_they_keep_and_a_longer_path_is_probed(
    lost_pps: int, then: list[int]
) -> None:
    """From 5 s on the RTT is 100 ms, until the windows are small. A full queue loses packets."""
    chooser, slots = RuleChooser([BBR, LTP, VEGAS], UNCHECKED), np.arange(3)
    chooser.open(slots, ["a"] * 3)
    arms, small_s = [], []
    for step in range(1, round(9.0 / STEP_S)):
        now_s = step * STEP_S
        rtts_ms = [100.0 if now_s > 5.0 and not small_s else 40.0] * 3
        totals, lost = [int(700 * now_s)] * 3, int(lost_pps * max(0.0, now_s - 5.0))
        records = step_of(rtts_ms, totals, now_s, lost)
        records["rtt_floor_us"], records["bdp"] = 40_000, 28
        arms.append(chooser.step(slots, records).arms)
        if chooser.drains(slots, records).all():
            small_s.append(now_s)
    assert [arm for _, arm in times_s(np.array(arms)[:, 0])][:3] == then
    assert bool(small_s) is (lost_pps > 0)


@pytest.mark.parametrize("idle_s", [(0.0, 9.0), (4.5, 9.0), (3.4, 3.5)])
def test_a_new_flow_beside_siblings_with_little_to_send_probes_until_it_is_two_seconds_old(
    idle_s: tuple[float, float],
) -> None:
    """It may be a short transfer, and there is no window to share. In the last case a sibling fills one."""
    chooser = RuleChooser([BBR, LTP, VEGAS], UNCHECKED)
    old, both = np.arange(1), np.array([0, 7])
    chooser.open(old, ["a"])
    told = []
    for step in range(1, round(9.0 / STEP_S)):
        at_s = step * STEP_S
        if at_s < 6.0:
            records, slots = step_of([40.0], [30 * step], at_s), old
        else:
            records, slots = step_of([40.0, 40.0], [30 * step, step], at_s), both
        if step == round(6.0 / STEP_S):
            chooser.open(np.array([7]), ["a"])
        if idle_s[0] <= at_s < idle_s[1]:
            records["flags"][0] = FlowFlags.APP_LIMITED
        arms = chooser.step(slots, records).arms.tolist()
        if len(slots) == 2:
            assert arms[0] == LTP
            probes = arms[1] == BBR
            assert chooser.free(both).tolist() == [True, not probes]
            reasons = chooser.reason(both).code.tolist()
            assert (reasons[0] == reasons[1]) is not probes
            told.append(probes)
    youth_s = STEP_S * sum(told)
    assert told == sorted(told, reverse=True)
    assert youth_s == pytest.approx(0.0 if idle_s[1] < 6.0 else 2.0, abs=2 * STEP_S)


@pytest.mark.parametrize("comes_and_goes", [True, False])
def test_siblings_that_come_and_go_are_no_swing_of_the_rate(comes_and_goes: bool) -> None:
    """A second flow doubles the sum every second for a while. If it stays open, the path itself swings."""
    chooser = RuleChooser([BBR, LTP, VEGAS], UNCHECKED)
    old, both = np.arange(1), np.array([0, 7])
    chooser.open(old, ["a"])
    told, there, sent = [], False, 0
    for step in range(1, round(14.0 / STEP_S)):
        at_s = step * STEP_S
        sends = at_s > 4.0 and at_s % 1.2 < 0.6
        opens = at_s > 4.0 and (sends or not comes_and_goes)
        if opens and not there:
            chooser.open(np.array([7]), ["a"])
            sent = 0
        if there and not opens:
            chooser.close(np.array([7]))
        there = opens
        sent += 30 * sends
        records = (
            step_of([40.0, 40.0], [30 * step, sent], at_s) if there else step_of([40.0], [30 * step], at_s)
        )
        told.append(int(chooser.step(both if there else old, records).arms[0]))
    expected = [BBR, LTP] if comes_and_goes else [BBR, LTP, VEGAS]
    assert [arm for _, arm in times_s(np.array(told))] == expected


def test_a_flow_whose_rtt_is_another_one_plays_alone() -> None:
    chooser, _ = play([40.0, 40.0, 90.0, 90.0], [500.0] * 4, duration_s=6.0)
    together = chooser.together(np.arange(4))
    assert together is not None
    assert together[0] == together[1]
    assert together[2] == together[3] != together[0]
    alone, _ = play([40.0, 90.0], [500.0] * 2, duration_s=6.0)
    assert alone.together(np.arange(2)) is None
    # 60 packets/s need 0.16 s for ten packets, which is more than the RTTs differ by.
    slow, _ = play([40.0, 90.0], [30.0] * 2, duration_s=6.0)
    assert slow.together(np.arange(2)) is not None


def test_the_reward_is_that_of_the_sum_times_jain() -> None:
    """At full rate and lowest RTT a player of flows with 3:1 has Jain's (3 + 1)^2 / (2 (9 + 1)) = 0.8."""
    chooser, _ = play([40.0, 40.0], [3000.0, 1000.0], duration_s=3.0)
    decision = chooser.step(np.arange(2), step_of([40.0, 40.0], [9000, 3000], 3.0))
    assert decision.reward == pytest.approx([0.8, 0.8], abs=0.02)


def test_a_sibling_that_starves_is_no_sign_of_a_rival() -> None:
    """Half of the flows fall to a tenth behind a queue, and the others take what they leave."""
    chooser = RuleChooser([BBR, LTP, VEGAS], UNCHECKED)
    slots = np.arange(2)
    chooser.open(slots, ["a", "a"])
    arms, totals = [], np.zeros(2)
    for step in range(1, round(25.0 / STEP_S)):
        late = step * STEP_S > 5.0
        totals += STEP_S * 1000.0 * (np.array([0.1, 1.9]) if late else np.ones(2))
        rtt_ms = 46.0 if late else 40.0
        arms.append(
            chooser.step(slots, step_of([rtt_ms] * 2, totals.astype(int).tolist(), step * STEP_S)).arms
        )
    assert [arm for _, arm in times_s(np.array(arms)[:, 0])] == [BBR, LTP]


def test_the_oldest_flow_stands_for_the_others_until_it_ends() -> None:
    siblings = Siblings()
    siblings.open(np.array([5, 2]), ["a", "a"])
    players = siblings.player[[5, 2]]
    assert players[0] == players[1]
    ages = [siblings.oldest(int(players[0]))]
    siblings.close(np.array([5]))
    ages.append(siblings.oldest(int(players[0])))
    assert ages == [5, 2]
    assert siblings.prefix(int(players[0])) == "a"
    # A slot that comes again is a new flow, and the youngest.
    siblings.open(np.array([5]), ["a"])
    assert siblings.oldest(int(players[0])) == 2


def test_a_player_s_packets_never_decrease_when_flows_come_and_go() -> None:
    siblings = Siblings()
    siblings.open(np.arange(2), ["a", "a"])
    sums = []
    for step in range(6):
        if step == 3:
            siblings.close(np.array([0]))
        slots = np.arange(2) if step < 3 else np.array([1])
        totals = [100 * step + 500 * slot for slot in slots.tolist()]
        sums.append(folded(siblings, slots, step_of([40.0] * len(slots), totals, float(step)))[1][7, 0])
    assert np.diff(sums).tolist() == [200, 200, 100, 100, 100]
    assert all(later >= earlier for earlier, later in pairwise(sums))


def test_a_flow_leaves_siblings_that_have_no_rtt_yet_without_an_error() -> None:
    """Another flow of the prefix left before, and has not been heard of since its slot came again."""
    siblings, slots = Siblings(), np.arange(3)
    siblings.open(slots, ["a"] * 3)
    for step in range(1, 9):
        totals = [500 * step] * 3
        players, _ = folded(siblings, slots, step_of([40.0, 90.0, 200.0], totals, float(step)))
        siblings.look(slots, players, np.full(len(players), step * 1e9))
    assert len(set(siblings.player[slots].tolist())) == 3


def test_the_rule_tells_of_each_flow_s_player_whether_another_arm_may_run() -> None:
    """Flow 9 is the second player: its slot and its player's number differ."""
    chooser, _ = play([40.0, 41.0], [1000.0] * 2, duration_s=4.0)
    chooser.open(np.array([9]), ["b"])
    assert chooser.free(np.array([0, 1, 9])).tolist() == [True, True, False]
