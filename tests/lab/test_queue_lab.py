# SPDX-License-Identifier: Apache-2.0
"""The link's queue under a queue discipline of the kernel."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.module_lab import EACH_KERNEL

from ltp_switcher.eval.lab import run_scenario
from ltp_switcher.eval.run.scenario import Flow, Link, LinkStep, Scenario
from ltp_switcher.eval.run.series import read_series

pytestmark = pytest.mark.lab

# A packet of 1,500 bytes takes 1 ms, later 0.5 ms.
DEEP = Link(rtt_ms=20.0, rate_mbps=12.0, buffer_bdp=15.0, steps=(LinkStep(4.0, 24.0),), queue="fq_codel")


@pytest.mark.parametrize("kernel", EACH_KERNEL)
def test_fq_codel_keeps_a_deep_queue_short(kernel: str) -> None:
    scenario = Scenario("managed", 6.0, DEEP, (Flow("cubic", 0.0, 6.0), Flow("cubic", 0.0, 6.0)))
    run = run_scenario(scenario, seed=3, kernel=kernel)
    flows = json.loads(run.files["flows.json"])["flows"]
    series = read_series(run.files["timeseries.csv"].decode())
    together = sum(one.delivered_pkts for one in series)
    # While the queue is not empty the link is never idle, and never faster than its rate.
    assert np.all(together[:40] <= 102)
    assert np.all(together[40:] <= 202)
    assert np.median(together[5:40]) >= 99
    # Without the discipline two flows of Cubic fill all 300 ms.
    assert max(np.nanmean(one.rtt_ms[5:]) for one in series) < 20.0 * 2
    assert max(one.queue_pkts.max() for one in series) < 150
    # What the discipline drops is counted once, on the flow that it belongs to.
    assert sum(flow["lost_pkts"] for flow in flows) > 0
    for flow, one in zip(flows, series, strict=True):
        assert flow["bytes_received_in_all"] == flow["bytes_sent"]
        assert flow["lost_pkts"] == one.lost_pkts.sum()
        assert abs(flow["lost_pkts"] - flow["retransmits"]) <= 3


@pytest.mark.parametrize("queue", ["codel", "pie"])
def test_other_disciplines_hold_the_packets_that_wait(queue: str) -> None:
    link = Link(rtt_ms=20.0, rate_mbps=12.0, buffer_bdp=15.0, queue=queue)
    run = run_scenario(Scenario("managed", 4.0, link, (Flow("cubic", 0.0, 4.0),)))
    (series,) = read_series(run.files["timeseries.csv"].decode())
    assert np.median(series.delivered_pkts[5:]) >= 95
    assert np.nanmean(series.rtt_ms[10:]) < 60.0
    assert series.queue_pkts.max() > 10
