# SPDX-License-Identifier: Apache-2.0
"""The benchmark's crowd reports at every step, or by its round trips, through its stand-in for the module."""

from __future__ import annotations

import numpy as np

from ltp_switcher.daemon.datapath import Datapath
from ltp_switcher.daemon.datapath.netlink import GenericNetlink
from ltp_switcher.daemon.service.bench.__main__ import measure
from ltp_switcher.daemon.service.bench.crowd import Crowd
from ltp_switcher.daemon.service.bench.stand_in import stand_in
from ltp_switcher.daemon.service.bench.visits import measure as measure_visits

STEP_NS = 10_000_000


def reports(rtt_quarters: int, steps: int = 40, flows: int = 100) -> list[np.ndarray]:
    """The records of each step of a crowd, over real messages."""
    with stand_in(Crowd(flows, 1, 10**9), 10**9, STEP_NS) as end:
        datapath = Datapath(GenericNetlink(end))
        datapath.open_session(rtt_quarters=rtt_quarters)
        made = [datapath.close_step() for _ in range(steps)]
        datapath.close()
    return made


def test_a_crowd_reports_at_every_step_or_by_the_round_trips() -> None:
    assert [len(step) for step in reports(0)] == [100] * 40
    steps = reports(1)
    assert len(steps[0]) == 100
    for cookie in range(1, 101):
        rows = np.concatenate([step[step["cookie"] == cookie] for step in steps])
        apart_ns = np.diff(rows["time_ns"].astype(np.int64))
        quarter_ns = rows["srtt_us"][:-1].astype(np.int64) * 250
        # At the first step that comes after it.
        assert (apart_ns >= quarter_ns).all()
        assert (apart_ns < quarter_ns + STEP_NS).all()
        assert (rows["interval_ns"][1:] == apart_ns).all()
        assert (np.diff(rows["total_delivered"].astype(np.int64)) == rows["delivered"][1:]).all()


def test_a_result_counts_records_and_controls() -> None:
    result = measure(60, 30, 1)
    assert 15 < result.records_a_step < 40
    assert 10 <= result.controls_a_step <= 21
    assert 0 < result.p50_ms <= result.p99_ms <= result.max_ms


def test_the_visits_of_the_benchmark_draw_lots_and_teach() -> None:
    took_ms, live = measure_visits(prefixes=5, a_second=4, seconds=120)
    assert took_ms.shape == (120, 2)
    # Each of the five prefixes is given ten thousand flows. Those of the last twelve seconds are open.
    assert live.learner.purse.totals[0] == 50_000 + 4 * 108
    assert 0 < live.trials < live.visits / 2
    assert len(live.prefixes) == 5
