# SPDX-License-Identifier: Apache-2.0
"""A flow in the words and units of the API, from its record."""

from __future__ import annotations

import numpy as np
from support.records import flow, record

from ltp_switcher.daemon.control.describe import flow_json
from ltp_switcher.daemon.step.flow_table import FlowTable

S = 1_000_000_000


def test_the_causes_that_limit_a_flow_fill_its_life() -> None:
    table = FlowTable()
    # It began 1.5 s before 100 s.
    slot = table.add(flow(7), 100 * S)
    assert slot is not None
    told = record(7, time_ns=108 * S, busy_us=4_000_000, receiver_us=1_000_000, buffer_us=500_000)
    table.observe(np.array([slot]), told)
    assert flow_json(table, slot, {})["limited_s"] == {
        "window": 2.5, "receiver": 1.0, "send_buffer": 0.5, "application": 5.5,
    }  # fmt: skip


def test_a_connection_that_was_busy_before_it_ran_mutant_was_not_idle_for_less_than_no_time() -> None:
    table = FlowTable()
    slot = table.add(flow(7), 100 * S)
    assert slot is not None
    table.observe(np.array([slot]), record(7, time_ns=101 * S, busy_us=60_000_000))
    told = flow_json(table, slot, {})["limited_s"]
    assert told == {"window": 60.0, "receiver": 0.0, "send_buffer": 0.0, "application": 0.0}
