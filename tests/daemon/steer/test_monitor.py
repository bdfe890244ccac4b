# SPDX-License-Identifier: Apache-2.0
"""The monitor: records in, intervals of any length out, as the simulator knows them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.records import record

from ltp_switcher.daemon.datapath import protocol
from ltp_switcher.daemon.steer.monitor import Monitor
from ltp_switcher.policies.simulator import Flows, Paths, Roster, SimulatedInterval, Simulator

MS_NS = 1_000_000
LTP, JURY, SPINE = (int(arm) for arm in (protocol.ArmId.LTP, protocol.ArmId.JURY, protocol.ArmId.SPINE))


def simulator(interval_s: float) -> Simulator:
    """Cubic and constant rates on a short and a long path, with losses, flows that start late, and stop."""
    paths = Paths.uniform(2, rate_mbps=40, rtt_ms=40, loss=0.002)
    flows = Flows(
        start_s=np.array([[0.0, 0.0], [0.42, 0.3], [0.0, 0.66]]),
        stop_s=np.array([[4.0, 4.0], [4.0, 2.0], [4.0, 4.0]]),
        rtt_ms=np.array([[np.nan, 15.0], [90.0, np.nan], [np.nan, 130.0]]),
        rate_mbps=np.array([[np.nan, np.nan], [np.nan, np.nan], [8.0, 30.0]]),
    )
    return Simulator(paths, flows, Roster(cubic=2, fixed=1), seed=3, interval_s=interval_s)


class Kernel:
    """What the kernel would tell of the simulator's flows: whole packets, counted since the start."""

    def __init__(self, flows: int) -> None:
        self._totals = np.zeros((3, flows))

    def records(self, seen: SimulatedInterval) -> np.ndarray:
        flat = {
            name: getattr(seen, name).reshape(-1) for name in ("acked_pkts", "lost_pkts", "in_flight_pkts")
        }
        before = np.rint(self._totals)
        self._totals[:2] += (flat["acked_pkts"], flat["lost_pkts"])
        self._totals[2] = self._totals[:2].sum(axis=0) + flat["in_flight_pkts"]
        acked, lost, sent = np.rint(self._totals)
        rtt_us = np.rint(seen.rtt_s.reshape(-1) * 1e6)
        made = np.zeros(acked.size, protocol.RECORD_DTYPE)
        made["cookie"] = np.arange(acked.size) + 1
        made["interval_ns"] = round(seen.length_s * 1e9)
        made["total_delivered"], made["total_lost"] = acked, lost
        made["in_flight"] = sent - acked - lost
        made["rtt_samples"] = acked - before[0]
        made["rtt_stat"]["sum"] = rtt_us * made["rtt_samples"]
        made["srtt_us"] = rtt_us
        made["min_rtt_us"] = np.minimum(seen.rtt_min_s.reshape(-1) * 1e6, 2**32 - 1)
        made["snd_cwnd"] = np.minimum(seen.window_pkts, 2**31).reshape(-1)
        made["mss"] = 1448
        made["pacing_rate"] = 2**64 - 1
        return made


def put_echoes(records: np.ndarray, seen: SimulatedInterval) -> None:
    """Into records, `RECORD_DTYPE`, shape (n,): what the kernel would say of the simulator's echoes."""
    for slot, echo in enumerate((seen.previous_echo, seen.echo)):
        known = echo.index.reshape(-1) >= 0
        sending_pps, delivered_pps, rtt_s, loss = (
            np.where(known, getattr(echo, name).reshape(-1), 0.0)
            for name in ("sending_pps", "delivered_pps", "rtt_s", "loss")
        )
        told = records["echo"][:, slot]
        told["number"] = np.where(known, echo.index.reshape(-1), 0)
        told["delivered"] = np.rint((1.0 - loss) * 100_000) * known
        told["lost"] = np.rint(loss * 100_000) * known
        told["sending_us"] = np.rint(1e11 / np.maximum(sending_pps, 30.0)) * known
        told["acking_us"] = np.rint(told["delivered"] * 1e6 / np.maximum(delivered_pps, 30.0)) * known
        told["rtt_us_min"] = np.rint(rtt_s * 1e6)
        records["echo"][:, slot] = told


def test_the_monitor_measures_what_the_simulator_does() -> None:
    fine, coarse = simulator(0.010), simulator(0.030)
    kernel, monitor = Kernel(6), Monitor()
    slots = np.arange(6)
    monitor.begin(slots, np.zeros(6, protocol.RECORD_DTYPE), 0)
    compared = np.zeros(6)
    for n in range(130):
        seen = coarse.step()
        wanted = seen.flat(3)
        for step in range(3):
            made = kernel.records(fine.step())
            put_echoes(made, seen)
            # No ACK, no record; what leaves before the first ACK is known only then, so it is told here.
            told = (made["rtt_samples"] > 0) | (made["total_delivered"] == 0)
            monitor.observe(slots[told], made[told], (3 * n + step + 1) * 10 * MS_NS)
        sending, got = monitor.close((n + 1) * 30 * MS_NS)
        assert got.length_s == pytest.approx(wanted.length_s)
        heard = wanted.acked_pkts[sending] > 3.0
        rows, at = np.flatnonzero(heard), sending[heard]
        for name in ("sent_pkts", "acked_pkts", "lost_pkts", "in_flight_pkts"):
            # A packet is whole here and a fluid there, at both ends of the interval.
            assert getattr(got, name)[rows] == pytest.approx(getattr(wanted, name)[at], abs=2.01)
        assert got.rtt_s[rows] == pytest.approx(wanted.rtt_s[at], rel=0.05)
        assert got.rtt_min_s[rows] == pytest.approx(wanted.rtt_min_s[at], rel=0.05)
        # The interval in which the flow came under the arm had begun before, and makes no echo.
        same = (wanted.echo.index[at] >= 1) & (wanted.echo.sending_pps[at] > 30.0)
        rows, at = rows[same], at[same]
        compared[at] += 1
        assert (got.echo.index[rows] == wanted.echo.index[at]).all()
        for name in ("sending_pps", "delivered_pps", "rtt_s", "loss"):
            wish = getattr(wanted.echo, name)[at]
            assert getattr(got.echo, name)[rows] == pytest.approx(wish, rel=1e-3, abs=1e-5)
        after = wanted.previous_echo.index[at] >= 1
        assert got.previous_echo.rtt_s[rows[after]] == pytest.approx(
            wanted.previous_echo.rtt_s[at[after]], rel=1e-3
        )
    assert (compared > 50).all()


@given(
    data=st.lists(
        st.tuples(st.integers(0, 200), st.integers(0, 20), st.integers(0, 300), st.booleans()),
        min_size=1,
        max_size=40,
    ),
    before=st.integers(0, 10_000),
)
def test_counters_in_intervals_out(data: list[tuple[int, int, int, bool]], before: int) -> None:
    """Whatever the steps, an interval's numbers are the counters' differences over it, and sums close."""
    monitor = Monitor()
    slot = np.array([7])
    delivered, lost = before, before // 50
    began = record(1, total_delivered=delivered, total_lost=lost, in_flight=10, srtt_us=20_000)
    monitor.begin(slot, began, 0)
    now_ns, acked, gone, sent, marks = 0, 0.0, 0.0, 0.0, (delivered, lost, delivered + lost + 10)
    for more, missing, in_flight, silent in data:
        now_ns += 10 * MS_NS
        if not silent:
            delivered, lost = delivered + more, lost + missing
            made = record(
                1,
                total_delivered=delivered,
                total_lost=lost,
                in_flight=in_flight,
                rtt_samples=more,
                snd_cwnd=9,
            )
            made["rtt_stat"]["sum"] = 25_000 * more
            monitor.observe(slot, made, now_ns)
            marks = (delivered, lost, delivered + lost + in_flight)
        sending, interval = monitor.close(now_ns)
        if sending.size:
            acked += interval.acked_pkts[0]
            gone += interval.lost_pkts[0]
            sent += interval.sent_pkts[0]
            assert interval.rtt_s[0] == pytest.approx(25e-3 if acked else 20e-3)
            assert interval.length_s == pytest.approx(0.010)
    assert acked == marks[0] - before
    assert gone == marks[1] - before // 50
    assert sent <= marks[2] - before - before // 50 - 10 + 300


def echoing(number: int) -> np.ndarray:
    made = record(1, in_flight=60, rtt_samples=50)
    told = made["echo"]
    told["number"][0] = number - 1, number
    told["delivered"], told["rtt_us_min"] = 60, 25_000
    told["sending_us"], told["acking_us"] = 30_000, 40_000
    return made


def test_echoes_of_another_time_are_not_the_arm_s() -> None:
    """The flow's life before it came under the arm, and marks that an earlier daemon made."""
    monitor = Monitor()
    slot = np.array([0])
    for n in range(3):
        monitor.close(n * 30 * MS_NS)
    monitor.begin(slot, echoing(2), 90 * MS_NS)
    heard = []
    for number in (2, 3, 70, 4, 5):
        monitor.observe(slot, echoing(number), (int(monitor.interval[0]) + 1) * 30 * MS_NS)
        _, interval = monitor.close((int(monitor.interval[0]) + 1) * 30 * MS_NS)
        heard.append((interval.previous_echo.index[0], interval.echo.index[0]))
    assert heard == [(-1, -1), (-1, -1), (-1, -1), (-1, 4), (4, 5)]
    assert interval.echo.sending_pps[0] == pytest.approx(60 / 0.030)
    assert interval.echo.delivered_pps[0] == pytest.approx(60 / 0.040)
    assert interval.echo.rtt_s[0] == pytest.approx(0.025)
    assert interval.echo.loss[0] == 0.0


def test_a_flow_that_stopped_is_left_and_one_that_waits_is_not() -> None:
    monitor = Monitor()
    monitor.begin(np.array([0, 1]), np.concatenate([record(1, in_flight=0), record(2, in_flight=5)]), 0)
    assert monitor.close(30 * MS_NS)[0].tolist() == [1]
    assert monitor.slots.tolist() == [0, 1]
    monitor.close(1500 * MS_NS)
    assert monitor.slots.tolist() == [1]


@pytest.mark.parametrize("apart_ms", [40, 50, 100])
def test_records_that_come_less_often_than_intervals_end_tell_of_each(apart_ms: int) -> None:
    """Else an interval without a record would be one without an ACK, and the next would have too many."""
    monitor = Monitor()
    slot = np.array([0])
    rtt_us = 4000 * (apart_ms - 5)
    monitor.begin(slot, record(1, in_flight=40, srtt_us=rtt_us), 0)
    rates = []
    for at_ms in range(10, 1510, 10):
        if at_ms % apart_ms == 0:
            made = record(1, in_flight=40, srtt_us=rtt_us, total_delivered=2 * at_ms, rtt_samples=at_ms)
            made["rtt_stat"]["sum"] = rtt_us * at_ms
            monitor.observe(slot, made, at_ms * MS_NS)
        if at_ms % 30 == 0:
            sending, interval = monitor.close(at_ms * MS_NS, rtt_quarters=1)
            assert sending.tolist() == [0]
            rates.append(interval.delivered_pps[0])
    # In the first ones nothing is known.
    assert rates[4:] == pytest.approx([2000.0] * (len(rates) - 4))


def test_a_flow_whose_record_is_overdue_is_silent() -> None:
    monitor = Monitor()
    slot = np.array([0])
    monitor.begin(slot, record(1, in_flight=40, srtt_us=200_000), 0)
    heard = []
    for at_ms in range(30, 300, 30):
        if at_ms == 60:
            monitor.observe(slot, record(1, in_flight=0, srtt_us=200_000, total_delivered=100), 50 * MS_NS)
        sending, interval = monitor.close(at_ms * MS_NS, rtt_quarters=1)
        heard.append(float(interval.acked_pkts[0]) if sending.size else 0.0)
    assert heard == pytest.approx([0.0, 60.0, 60.0, 60.0, 0.0, 0.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("rtt_us", [40_000, 119_000])
def test_where_each_interval_has_a_record_nothing_is_spread(rtt_us: int) -> None:
    """A flow whose ACKs come in bursts is one whose ACKs come in bursts."""
    seen = []
    for quarters in (0, 1):
        monitor = Monitor()
        slot = np.array([0])
        monitor.begin(slot, record(1, in_flight=40, srtt_us=rtt_us), 0)
        acked = []
        for number in range(1, 20):
            made = record(1, in_flight=40, srtt_us=rtt_us, total_delivered=100 * (number // 3))
            if number % 3:
                monitor.observe(slot, made, number * 30 * MS_NS)
            acked.append(monitor.close(number * 30 * MS_NS, rtt_quarters=quarters)[1].acked_pkts[0])
        seen.append(acked)
    assert seen[0] == seen[1]
    assert set(seen[0]) == {0.0, 100.0}
