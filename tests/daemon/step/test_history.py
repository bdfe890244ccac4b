# SPDX-License-Identifier: Apache-2.0
"""The last minutes of flows: values, order, and the limits on memory."""

from __future__ import annotations

import numpy as np
import pytest
from support.fake_kernel import BBR, CUBIC
from support.records import flow

from ltp_switcher.daemon.step import history
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.daemon.step.history import POINTS, History

SECOND_NS = 1_000_000_000


class World:
    """Flows of which flow i delivers i × 100 packets of 1,000 bytes a second, a tenth of them lost."""

    def __init__(self, flows: int) -> None:
        self.table, self.history = FlowTable(), History()
        self.second = 0
        self.table.mark(0)
        for cookie in range(1, flows + 1):
            self.open(cookie)

    def open(self, cookie: int) -> int:
        slot = self.table.add(flow(cookie, arm=CUBIC, want_arm=CUBIC), 0)
        assert slot is not None
        self.history.open(np.array([slot]), self.table)
        return slot

    def pass_s(self, seconds: int) -> None:
        for _ in range(seconds):
            self.second += 1
            for slot in self.table.slots():
                record, cookie = self.table.record, int(self.table.cookie[slot])
                record["total_delivered"][slot] += 90 * cookie
                record["total_lost"][slot] += 10 * cookie
                record["total_acked_bytes"][slot] += 100_000 * cookie
                record["srtt_us"][slot] = 1000 * self.second
            self.table.mark(self.second * SECOND_NS)
            self.history.mark(self.table, self.second * SECOND_NS)


def test_a_point_a_second_with_its_rates_since_the_one_before() -> None:
    world = World(2)
    world.pass_s(3)
    world.table.record["arm"][1] = BBR
    world.pass_s(1)
    past = world.history.of(1)
    assert past is not None
    assert past.time_ns.tolist() == [second * SECOND_NS for second in (1, 2, 3, 4)]
    assert past.goodput_Bps == pytest.approx([200_000] * 4)
    assert past.srtt_us.tolist() == [1000, 2000, 3000, 4000]
    assert past.loss == pytest.approx([0.1] * 4)
    assert past.arm.tolist() == [CUBIC, CUBIC, CUBIC, BBR]


def test_the_oldest_points_make_room() -> None:
    world = World(1)
    world.pass_s(POINTS + 7)
    past = world.history.of(0)
    assert past is not None
    assert (past.srtt_us[0], past.srtt_us[-1], past.srtt_us.size) == (8000, 1000 * (POINTS + 7), POINTS)
    latest = world.history.of(0, 2)
    assert latest is not None
    assert latest.srtt_us.tolist() == past.srtt_us[-2:].tolist()


def test_a_flow_has_no_points_from_before_its_time() -> None:
    world = World(1)
    world.pass_s(5)
    slot = world.open(2)
    world.pass_s(2)
    past = world.history.of(slot)
    assert past is not None
    assert past.loss == pytest.approx([0.1, 0.1])
    world.table.remove(2)
    assert world.open(9) == slot
    world.pass_s(1)
    past = world.history.of(slot)
    assert past is not None
    assert past.goodput_Bps == pytest.approx([900_000])


def test_totals_by_arm() -> None:
    world = World(3)
    world.table.record["arm"][2] = BBR
    world.pass_s(2)
    totals = world.history.totals()
    assert totals.time_ns.tolist() == [SECOND_NS, 2 * SECOND_NS]
    assert totals.flows[:, [CUBIC, BBR]].tolist() == [[2, 1], [2, 1]]
    assert totals.goodput_Bps[:, [CUBIC, BBR]] == pytest.approx(np.array([[300_000, 300_000]] * 2))


def test_memory_ends_with_the_number_of_flows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "FLOWS_MAX", 8)
    world = World(20)
    world.pass_s(2)
    assert world.history.capacity <= 8
    assert world.history.of(7) is not None
    assert world.history.of(8) is None
    assert world.history.totals().flows.sum(axis=1).tolist() == [20, 20]
