# SPDX-License-Identifier: Apache-2.0
"""LTP's particle filter, CCmatic's belief set, and how both are judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.ltp_echoes import DT_S, echo, followed, interval

from ltp_switcher.policies.ltp import estimation
from ltp_switcher.policies.ltp.ccmatic import BeliefSets
from ltp_switcher.policies.ltp.estimator_traces import from_counters, simulate
from ltp_switcher.policies.ltp.particles import FRESH, Noise, ParticleFilter, _Pool
from ltp_switcher.policies.ltp.signals import PathSignals
from ltp_switcher.policies.simulator import Flows, Paths, Roster, SimulatedInterval, Simulator


def test_the_rate_follows_the_action() -> None:
    # Transition step: x(t2) = x(t1) a(t2). Delivery follows, as below capacity, so no particle is thrown out.
    states = [echo(0, 100.0, 100.0), echo(1, 100.0, 100.0)]
    before = followed(ParticleFilter, states, particles=2000).ranges(np.array([0])).rate[0, 1]
    after = (
        followed(ParticleFilter, [*states, echo(2, 200.0, 200.0)], particles=2000)
        .ranges(np.array([0]))
        .rate[0, 1]
    )
    assert after > 1.2 * before


def one_particle(rate: float, others: float, delay_s: float) -> _Pool:
    return _Pool(
        np.zeros(1, np.int64), *np.array([[rate], [others], [delay_s]], np.float32), np.zeros(1, bool)
    )


@pytest.mark.parametrize(
    ("seen", "odds"),
    [
        # What the particle would have caused: ΔRTT 10 ms, Δthr 1, ΔL 1, thr 0.5, RTT above the least 30 ms.
        ((0.01, 1.0, 1.0, 0.5, 0.03), 1.0),
        # Table 4: 50 a second of delay, 10 of throughput, 10 of loss; Eq. 5 takes the product.
        ((0.03, 1.0, 1.0, 0.5, 0.03), 1 + 50 * 0.02),
        ((0.01, 0.9, 1.0, 0.5, 0.03), 1 + 10 * 0.1),
        ((0.01, 1.0, 0.95, 0.5, 0.03), 1 + 10 * 0.05),
        ((0.01, 1.0, 1.0, 0.4, 0.03), 1 + 10 * 0.1),
        # Eq. 4: throughput above the largest seen speaks against the particle, below it does not.
        ((0.01, 1.0, 1.0, 0.9, 0.03), 1.0),
        ((0.01, 1.0, 1.0, 0.5, 0.07), 1 + 50 * 0.04),
        ((0.03, 0.9, 0.95, 0.4, 0.07), (1 + 1.0) * (1 + 1.0) * (1 + 0.5) * (1 + 1.0) * (1 + 2.0)),
    ],
)
def test_a_particle_survives_by_how_far_its_signals_are_from_those_seen(
    seen: tuple[float, ...], odds: float
) -> None:
    made = followed(ParticleFilter, [echo(0)], loss_jitter=0.0)
    before, after = one_particle(0.6, 0.6, 0.02), one_particle(0.6, 0.6, 0.03)
    told = made._survival(before, after, PathSignals(*np.array(seen)[:, None]))
    assert told == pytest.approx(1.0 / odds, rel=1e-4)


def test_the_model_strays_as_far_as_table_4_says() -> None:
    made = followed(ParticleFilter, [echo(0)], particles=4000)
    assert made._noise == Noise(50.0, 10.0, 10.0, 1.5, 0.02, 0.05, 0.001)
    pool = _Pool(
        np.zeros(4000, np.int64),
        *np.tile(np.array([[0.5], [0.4], [0.03]], np.float32), 4000),
        np.zeros(4000, bool),
    )
    after = made._transition(pool, np.array([1.02]), np.array([0.1]), np.array([0.5]))
    # O_j a second, within 0.1 s: 15 % up or down, evenly.
    change = after.others / 0.4 - 1.0
    assert (change.min(), change.max()) == pytest.approx((-0.15, 0.15), abs=0.001)
    assert change.std() == pytest.approx(0.15 / np.sqrt(3.0), rel=0.05)
    np.testing.assert_allclose(after.rate, 0.51, rtol=1e-6)
    # Eq. 1: the queue grows by the load beyond the capacity.
    np.testing.assert_allclose(
        after.delay_s, np.maximum(0.0, 0.03 + (0.51 + after.others - 1.0) * 0.1), atol=1e-6
    )


def test_a_delay_is_a_bound_from_below() -> None:
    # Eq. 4: what the RTT exceeds the smallest by is queuing delay.
    states = [echo(k, rtt_s=0.02 if k == 0 else 0.10) for k in range(12)]
    low, high = followed(ParticleFilter, states).ranges(np.array([0])).delay_s[0]
    assert low > 0.06
    assert high < 0.20


def test_an_answer_to_probing_tells_a_lone_flow_from_one_of_two() -> None:
    # The link is always full. Alone, a flow's throughput does not answer to its rate; as one of two it does.
    swing = [1.0 + 0.25 * (k % 2) for k in range(60)]
    alone = [echo(k, 1000.0 * s, 1000.0, 0.05) for k, s in enumerate(swing)]
    shared = [echo(k, 500.0 * s, 1000.0 * s / (s + 1.0), 0.05) for k, s in enumerate(swing)]
    first, second = (
        followed(ParticleFilter, states, particles=1000).ranges(np.array([0])) for states in (alone, shared)
    )
    assert first.rate.mean() > second.rate.mean()
    assert first.others.mean() < second.others.mean()


def test_the_queue_is_full_where_packets_are_lost_at_the_largest_delay() -> None:
    # Particle division: a loss of 20 % is explained by particles with a full queue alone.
    states = [echo(k, 1250.0, 1000.0, 0.06) for k in range(20)]
    lossy = [*states, *(echo(k, 1250.0, 1000.0, 0.06, 0.2) for k in range(20, 21))]
    quiet = followed(ParticleFilter, [*states, echo(20, 1250.0, 1000.0, 0.06)], loss_gap=100.0)
    full = followed(ParticleFilter, lossy, loss_gap=100.0)
    kept = round((1.0 - FRESH) * 400)
    assert full._full[0, :kept].mean() > quiet._full[0, :kept].mean()


def test_particles_of_a_full_queue_stay_as_often_as_others_where_some_are_drawn_anew() -> None:
    # Every particle divides, as a rate twenty times as high fills any queue, and all survive: half are full.
    states = [echo(0, 100.0, 100.0), echo(1, 2000.0, 2000.0)]
    made = followed(ParticleFilter, states, particles=2000, delay_gap=0.0, throughput_gap=0.0, loss_gap=0.0)
    kept = round((1.0 - FRESH) * 2000)
    assert made._full[0, :kept].mean() == pytest.approx(0.5, abs=0.02)
    assert not made._full[0, kept:].any()


def test_where_no_particle_survives_the_estimation_begins_anew() -> None:
    states = [echo(0), echo(1), echo(2, delivered=1e6, rtt_s=0.9)]
    ranges = followed(ParticleFilter, states, delay_gap=1e9, throughput_gap=1e9).ranges(np.array([0]))
    assert np.isfinite(ranges.rate).all()
    assert ranges.rate[0, 1] - ranges.rate[0, 0] > 0.3  # as wide as the first particles


def test_after_a_pause_the_old_particles_are_forgotten() -> None:
    narrow = followed(ParticleFilter, [echo(k, rtt_s=0.1) for k in range(20)])
    pool = narrow._delay_s.copy()
    narrow.update(np.array([0]), interval(echo(200, rtt_s=0.02), echo(19, rtt_s=0.1)))
    assert not np.isin(narrow._delay_s, pool).any()


def pair(environments: int = 3) -> estimation.Trace:
    paths = replace(
        Paths.uniform(environments, rate_mbps=40.0, rtt_ms=40.0), jitter_ms=np.full(environments, 1.0)
    )
    return simulate(
        paths, Flows.forever(2, environments), Roster(cubic=2), duration_s=5.0, interval_s=DT_S, seed=1
    )


def test_a_trace_holds_the_truth() -> None:
    trace = pair()
    late = slice(60, 150)
    np.testing.assert_allclose((trace.rate + trace.others)[late].mean(), 1.0, atol=0.1)
    assert np.nanmax(trace.delay_s) < 0.050  # one BDP of buffer, and the jitter


def test_a_trace_of_counters_holds_the_truth() -> None:
    # 1000 packets a second, half each; the queue grows by 20 packets in the second interval.
    even = np.full((4, 2), 50.0)
    queue_pkts = np.array([0.0, 20.0, 20.0, 20.0])
    rtt_s = np.array([[np.nan, 0.021], [0.041, 0.041], [0.041, 0.041], [0.041, 0.041]])
    trace = from_counters(even, 0.0 * even, rtt_s, np.full(2, 0.02), queue_pkts, np.full(4, 1e3), 0.1)
    np.testing.assert_allclose(trace.rate[:, 0], [0.5, 0.6, 0.5, 0.5])
    np.testing.assert_allclose(trace.others[:, 0], [0.5, 0.6, 0.5, 0.5])
    np.testing.assert_allclose(trace.delay_s[1:], 0.02)
    assert trace.intervals[0].echo.index.tolist() == [-1.0, 0.0]
    assert estimation.judge(ParticleFilter(0.1, seed=1, particles=50), trace).intervals == 0  # too few yet


def test_an_echo_of_counters_has_the_rtt_of_what_was_sent_not_of_what_came_back() -> None:
    # Of a link of 1000 packets a second, a tenth too much comes in the intervals 20 to 29, by 1 ms each.
    load = np.ones(40)
    load[20:30] = 1.1
    queue_pkts = 50.0 + 100.0 * np.cumsum(load - 1.0)
    fine_s = np.arange(0.0, 4.0, 0.001)
    sent_rtt_s = 0.1 + np.interp(fine_s, 0.1 * np.arange(1, 41), queue_pkts) / 1e3
    # By the ACKs' times.
    came = np.floor((fine_s + sent_rtt_s) / 0.1).astype(int)
    rtt_s = np.array([sent_rtt_s[came == k].mean() if (came == k).any() else np.nan for k in range(40)])
    even = np.full((40, 1), 100.0)
    base_rtt_s, capacity_pps = np.full(1, 0.1), np.full(40, 1e3)
    trace = from_counters(even, 0.0 * even, rtt_s[:, None], base_rtt_s, queue_pkts, capacity_pps, 0.1)
    told_s = np.array([interval.echo.rtt_s[0] for interval in trace.intervals])
    true_s = sent_rtt_s.reshape(40, 100).mean(axis=1)
    np.testing.assert_allclose(told_s[3:36], true_s[3:36], atol=0.004)
    np.testing.assert_allclose(1.0 + np.diff(told_s)[21:28] / 0.1, 1.1, atol=0.02)


def test_the_filter_covers_a_pair_of_cubics_better_than_ccmatic() -> None:
    trace = pair()
    ours = estimation.judge(ParticleFilter(DT_S, seed=1, particles=300), trace)
    theirs = estimation.judge(BeliefSets(DT_S), trace)
    assert ours.intervals == theirs.intervals > 500
    assert ours.coverage > 0.75
    assert ours.coverage > theirs.coverage


def test_ccmatic_knows_the_capacity_of_a_link_that_one_flow_fills() -> None:
    paths, flows = Paths.uniform(1, rate_mbps=40.0, rtt_ms=40.0, buffer_bdp=3.0), Flows.forever(1, 1)
    trace = simulate(paths, flows, Roster(cubic=1), duration_s=5.0, interval_s=DT_S, seed=1)
    found = estimation.judge(BeliefSets(DT_S), trace)
    assert found.rate.coverage > 0.9
    assert found.delay_s.coverage > 0.9


def test_ccmatic_gives_up_beliefs_that_contradict_new_ones() -> None:
    made = BeliefSets(DT_S)
    made.reset(np.arange(1))
    slots = np.array([0])
    for k in range(5):
        made.update(slots, interval(echo(k, 1000.0, 1000.0, 0.1), echo(k - 1)))
    for k in range(5, 8):
        made.update(slots, interval(echo(k, 100.0, 100.0, 0.1), echo(k - 1)))
    low, high = made.ranges(slots).rate[0]
    assert low <= 1.0 <= high


@pytest.mark.parametrize("step", [1, 3])
def test_estimators_take_any_interval(step: int) -> None:
    simulator = Simulator(
        Paths.uniform(2), Flows.forever(1, 2), Roster(cubic=1), seed=1, interval_s=DT_S * step
    )
    made = ParticleFilter(DT_S * step, seed=1, particles=50)
    made.reset(np.arange(2))
    for _ in range(20):
        seen: SimulatedInterval = simulator.step()
        made.update(np.arange(2), seen.flat(1))
    assert np.isfinite(made.ranges(np.arange(2)).rate).all()


def test_the_least_width_is_that_of_what_the_mean_does_not_tell() -> None:
    steps = np.arange(200)
    swings = np.where(steps % 2, 0.45, 0.55)
    truth = np.stack((swings, np.full(200, 0.3), np.full(200, np.nan)), axis=1)
    # Two flows count: one swings by a tenth, one does not.
    assert estimation.least_width(truth, 10, 0.9) == pytest.approx(0.05, abs=0.01)
    assert estimation.least_width(truth, 1, 0.9) == 0.0
    # The others may lie elsewhere: one in twenty, and its two neighbours' mean.
    rare = np.where(steps % 20 == 10, 5.0, 0.5)[:, None]
    assert estimation.least_width(rare, 3, 0.8) == 0.0
    assert estimation.least_width(rare, 3, 0.9) > 1.0
