# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from support.records import NETNS, flow, record

from ltp_switcher.daemon.step.flow_table import UNKNOWN, FlowTable, destination_prefix

COOKIES = st.integers(1, 40)


class TableAgainstDict(RuleBasedStateMachine):
    """Whatever comes and goes, the table holds what a dict would hold, each flow in a slot of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.table = FlowTable()
        self.model: set[int] = set()
        self.acked: dict[int, int] = {}

    @rule(cookie=COOKIES)
    def add(self, cookie: int) -> None:
        slot = self.table.add(flow(cookie), 0)
        assert (slot is None) == (cookie in self.model)
        if slot is not None:
            self.model.add(cookie)
            self.acked[cookie] = 0

    @rule(cookie=COOKIES)
    def remove(self, cookie: int) -> None:
        assert (self.table.remove(cookie) is None) == (cookie not in self.model)
        self.model.discard(cookie)

    @rule(cookies=st.sets(COOKIES, max_size=10))
    def resync(self, cookies: set[int]) -> None:
        before = set(self.model)
        changes = self.table.resync([flow(cookie) for cookie in cookies], 0)
        assert len(changes.closed) == len(before - cookies)
        assert len(changes.opened) == len(cookies - before)
        self.acked |= dict.fromkeys(cookies - before, 0)
        self.model = set(cookies)

    @rule(cookies=st.sets(COOKIES, max_size=10))
    def observe(self, cookies: set[int]) -> None:
        known = sorted(cookies & self.model)
        if known:
            records = np.concatenate([record(cookie, arm=3, acked_bytes=1000) for cookie in known])
            self.table.observe(self.table.slots_of(records["cookie"]), records)
            for cookie in known:
                self.acked[cookie] += 10_000_000

    @invariant()
    def agrees(self) -> None:
        assert len(self.table) == len(self.model)
        slots = self.table.slots()
        assert len(set(slots)) == len(slots)
        cookies = np.arange(1, 41, dtype=np.uint64)
        found = self.table.slots_of(cookies)
        times = self.table.arm_time_ns()
        for cookie, slot in zip(cookies.tolist(), found.tolist(), strict=True):
            assert (slot != UNKNOWN) == (cookie in self.model)
            if slot != UNKNOWN:
                assert self.table.cookie[slot] == cookie
                assert times[slot, 3] == self.acked[cookie]


TableAgainstDict.TestCase.settings = settings(max_examples=30, stateful_step_count=25)
TestTableAgainstDict = TableAgainstDict.TestCase


def test_goodput_is_what_was_acknowledged_between_two_marks() -> None:
    table = FlowTable()
    slot = table.add(flow(7), 0)
    assert slot is not None
    table.mark(1_000_000_000)
    records = record(7, total_acked_bytes=500_000)
    table.observe(np.array([slot]), records)
    table.mark(3_000_000_000)
    assert table.goodput_Bps[slot] == 250_000


def test_gaps_between_acks_add_up_and_fade() -> None:
    table = FlowTable()
    slot = table.add(flow(7), 0)
    assert slot is not None
    told = record(7)
    told["ack_gaps"][0, [0, 9]] = 30, 2
    for _ in range(2):
        table.observe(np.array([slot]), told)
    assert table.ack_gaps[slot, [0, 9]].tolist() == [60, 4]
    assert table.ack_gaps[slot].sum() == 64
    for second in range(1, 11):
        table.mark(second * 10**9)
    # Ten seconds later a ninth is left, and a new flow in the slot has none.
    assert table.ack_gaps[slot, 0] == pytest.approx(60 * 0.8**10)
    table.remove(7)
    assert table.add(flow(8), 0) == slot
    assert not table.ack_gaps[slot].any()


def test_time_under_arms_outlives_the_flow() -> None:
    table = FlowTable()
    slot = table.add(flow(7), 0)
    table.observe(np.array([slot]), record(7, arm=2, interval_ns=2_000_000_000))
    table.remove(7)
    assert table.total_arm_time_s()[2] == pytest.approx(2.0)
    assert table.add(flow(8), 0) == slot
    assert table.arm_time_ns()[slot].sum() == 0


@pytest.mark.parametrize(
    ("remote", "home", "prefix"),
    [
        ("192.0.2.77", NETNS, "192.0.2.0/24"),
        ("192.0.2.77", 2, "192.0.2.0/24@4026531840"),
        ("2001:db8:1:2::3", NETNS, "2001:db8:1::/48"),
    ],
)
def test_flows_to_one_network_share_a_prefix(remote: str, home: int, prefix: str) -> None:
    assert destination_prefix(flow(1, remote), home) == prefix
