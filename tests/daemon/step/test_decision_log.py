# SPDX-License-Identifier: Apache-2.0
"""Lines about decisions, and their rate limit."""

from __future__ import annotations

import logging

import numpy as np
import pytest
from support.records import flow, record

from ltp_switcher.arrays import Slots
from ltp_switcher.daemon.datapath.types import RecordArray
from ltp_switcher.daemon.step.decision_log import DecisionLog
from ltp_switcher.daemon.step.flow_table import FlowTable

NAMES = {1: "cubic", 2: "bbr", 3: "ltp"}


def table_of(*cookies: int) -> tuple[FlowTable, Slots, RecordArray]:
    """A table of these flows, their slots, and their records."""
    table = FlowTable()
    slots = np.array([table.add(flow(cookie), 0) for cookie in cookies])
    return table, slots, np.concatenate([record(cookie, want_arm=1) for cookie in cookies])


def test_a_flow_that_is_not_known_does_not_spend_the_rate_limit(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    decisions = DecisionLog(NAMES, 0.001, "active")
    table, slots, records = table_of(7, 8)
    arms = np.array([2, 3], np.uint8)
    table.info[slots[0]] = None
    decisions.decided(table, slots[:1], records[:1], arms[:1], lambda _: "it was told so")
    assert not caplog.messages
    decisions.decided(table, slots, records, arms, lambda slot: f"{table.cookie[slot]} was told so")
    (line,) = caplog.messages
    assert line.startswith("flow 8 ")
    assert "cubic -> ltp: 8 was told so" in line
    # The first change was held back, and the second one is among the changes of this line.
    assert "2 other changes" in line
