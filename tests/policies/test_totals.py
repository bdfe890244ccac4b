# SPDX-License-Identifier: Apache-2.0
"""Totals of a simulation, against its intervals one by one."""

import numpy as np
import pytest

from ltp_switcher.policies.runtime.slow_start import queue_threshold_s
from ltp_switcher.policies.simulator.directed import directed
from ltp_switcher.policies.simulator.paths import Flows, Paths
from ltp_switcher.policies.simulator.simulator import Roster, SimulatedInterval, Simulator
from ltp_switcher.policies.simulator.totals import Totals


def two_cubics() -> Simulator:
    paths = Paths.uniform(3, rate_mbps=20.0, rtt_ms=30.0, loss=0.001)
    return Simulator(paths, Flows.forever(2, 3), Roster(cubic=2), seed=1, interval_s=0.1)


def test_totals_are_the_sums_after_the_warm_up() -> None:
    seen: list[SimulatedInterval] = []
    intervals = directed(two_cubics(), None, duration_s=4.0, before=seen.append)
    totals = Totals.of((interval for interval, _ in intervals), 2, 3, after_s=1.0)
    assert [round(interval.end_s, 6) for interval in seen] == [round(0.1 * n, 6) for n in range(1, 41)]
    late = seen[10:]
    assert totals.length_s == pytest.approx(3.0)
    acked = np.sum([interval.acked_pkts for interval in late], axis=0)
    rtts = np.sum([interval.acked_pkts * interval.rtt_s for interval in late], axis=0)
    np.testing.assert_allclose(totals.acked_pkts, acked)
    np.testing.assert_allclose(totals.sent_pkts, np.sum([interval.sent_pkts for interval in late], axis=0))
    np.testing.assert_allclose(totals.lost_pkts, np.sum([interval.lost_pkts for interval in late], axis=0))
    np.testing.assert_allclose(totals.rtt_s, rtts / acked)
    np.testing.assert_allclose(totals.received_mbps, acked * 1500 * 8e-6 / 3.0)
    np.testing.assert_allclose(totals.sent_mbps, totals.received_mbps * totals.sent_pkts / totals.acked_pkts)
    np.testing.assert_allclose(totals.served_pkts, 3.0 * 20e6 / 8 / 1500, rtol=1e-3)
    np.testing.assert_allclose(totals.utilisation.sum(axis=0), acked.sum(axis=0) / totals.served_pkts)


def test_a_flow_that_heard_nothing_has_no_rtt() -> None:
    assert np.isnan(Totals.none(1, 1).rtt_s).all()


def test_hystart_takes_an_eighth_within_4_and_16_ms_for_a_queue() -> None:
    least_s = np.array([0.008, 0.032, 0.080, 0.128, 0.800])
    np.testing.assert_allclose(queue_threshold_s(least_s), [0.012, 0.036, 0.090, 0.144, 0.816])
