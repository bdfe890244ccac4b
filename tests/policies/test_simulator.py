# SPDX-License-Identifier: Apache-2.0
"""The simulator against theory, its own books, and itself."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ltp_switcher.errors import InvalidValueError
from ltp_switcher.policies.simulator import Flows, Paths, Roster, SimulatedInterval, Simulator, Steps
from ltp_switcher.policies.simulator.bottleneck import most_over

MIXED = Roster(window=1, aimd=1, cubic=2, fixed=1)


def mixed(seed: int, **link: float) -> Simulator:
    """One slot of every kind on four links of which each differs in rate and RTT."""
    base = Paths.uniform(4, **link)
    paths = Paths(
        rate_mbps=base.rate_mbps * np.array([0.2, 1.0, 2.0, 3.0]),
        rtt_ms=base.rtt_ms * np.array([1.0, 2.0, 0.5, 1.5]),
        buffer_pkts=base.buffer_pkts,
        loss=base.loss,
        jitter_ms=base.jitter_ms,
        trace=base.trace,
        trace_start_ms=base.trace_start_ms,
    )
    flows = Flows(
        start_s=np.linspace(0.0, 0.4, 20).reshape(5, 4),
        stop_s=np.full((5, 4), 1.5),
        rtt_ms=np.full((5, 4), np.nan),
        rate_mbps=np.full((5, 4), 3.0),
    )
    return Simulator(paths, flows, MIXED, seed=seed)


def run(
    simulator: Simulator, duration_s: float, warm_up_s: float = 0.0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Utilisation of each link, mean RTT in ms and loss of each flow, from `warm_up_s` on."""
    acked, weighted, lost, capacity = 0.0, 0.0, 0.0, 0.0
    while simulator.now_s < duration_s:
        seen = simulator.step()
        if seen.end_s > warm_up_s:
            acked = acked + seen.acked_pkts
            weighted = weighted + seen.acked_pkts * seen.rtt_s
            lost = lost + seen.lost_pkts
            capacity = capacity + seen.capacity_pps * seen.length_s
    acked = np.asarray(acked)
    return acked.sum(axis=0) / capacity, weighted / acked * 1e3, lost / (acked + lost)


@given(
    seed=st.integers(0, 1000),
    rate_mbps=st.floats(2, 200),
    rtt_ms=st.floats(4, 120),
    buffer_bdp=st.floats(0.1, 3),
    loss=st.floats(0, 0.05),
    jitter_ms=st.floats(0, 5),
    window=st.floats(2, 500),
)
@settings(max_examples=15, deadline=None)
def test_every_packet_is_delivered_dropped_queued_or_on_its_way(
    seed: int,
    rate_mbps: float,
    rtt_ms: float,
    buffer_bdp: float,
    loss: float,
    jitter_ms: float,
    window: float,
) -> None:
    simulator = mixed(
        seed, rate_mbps=rate_mbps, rtt_ms=rtt_ms, buffer_bdp=buffer_bdp, loss=loss, jitter_ms=jitter_ms
    )
    acked, lost, sent = 0.0, 0.0, 0.0
    for _ in range(30):
        simulator.set_window(np.full((1, 4), window))
        seen = simulator.step()
        link = simulator.bottleneck
        acked, lost, sent = acked + seen.acked_pkts, lost + seen.lost_pkts, sent + seen.sent_pkts
        np.testing.assert_allclose(
            link.offered.sum(axis=0), link.dropped.sum(axis=0) + link.departed + link.queued, atol=1e-6
        )
        np.testing.assert_allclose(sent, link.offered, atol=1e-6)
        np.testing.assert_allclose(link.offered, acked + lost + seen.in_flight_pkts, atol=1e-6)
        assert (link.queued >= 0).all()
        # A dropped packet leaves as a whole, so the queue is over its limit by the packets in question.
        assert (link.queued <= simulator.paths.buffer_pkts + most_over(MIXED.count)).all()
        assert (seen.acked_pkts >= -1e-9).all()
        assert (seen.in_flight_pkts >= -1e-6).all()


@given(
    seed=st.integers(0, 1000),
    rate_mbps=st.floats(0.3, 3),
    rtt_ms=st.floats(5, 40),
    buffer_pkts=st.floats(1, 6),
    cubics=st.integers(1, 3),
)
@example(seed=1, rate_mbps=2.0, rtt_ms=20.0, buffer_pkts=5.0, cubics=1)
@settings(max_examples=8, deadline=None)
def test_behind_a_burst_in_a_short_slow_queue_nothing_is_heard_of_before_it_has_left_the_queue(
    seed: int, rate_mbps: float, rtt_ms: float, buffer_pkts: float, cubics: int
) -> None:
    links = Paths.uniform(50, rate_mbps=rate_mbps, rtt_ms=rtt_ms)
    links.buffer_pkts[:] = buffer_pkts
    simulator = Simulator(links, Flows.forever(cubics, 50), Roster(cubic=cubics), seed=seed, interval_s=0.001)
    for _ in range(600):
        seen = simulator.step()
        assert (seen.acked_pkts >= -1e-9).all()
        assert (seen.in_flight_pkts.sum(axis=0) >= seen.queued_pkts - 1e-6).all()


def test_all_packets_come_home_after_the_last_flow_stops() -> None:
    simulator = mixed(3, rate_mbps=20.0, rtt_ms=20.0, loss=0.01)
    while simulator.now_s < 6.0:
        seen = simulator.step()
    np.testing.assert_allclose(seen.in_flight_pkts, 0.0, atol=1e-6)
    np.testing.assert_allclose(simulator.bottleneck.queued, 0.0, atol=1e-6)


def histories(seed: int) -> list[SimulatedInterval]:
    simulator = mixed(seed, rate_mbps=30.0, rtt_ms=20.0, loss=0.02, jitter_ms=2.0)
    return [simulator.step() for _ in range(20)]


def test_equal_seeds_give_equal_runs_and_others_do_not() -> None:
    first, again, other = histories(5), histories(5), histories(6)
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one.acked_pkts, two.acked_pkts)
        np.testing.assert_array_equal(one.echo.rtt_s, two.echo.rtt_s)
    assert any((one.acked_pkts != two.acked_pkts).any() for one, two in zip(first, other, strict=True))


def test_environments_do_not_touch_each_other() -> None:
    alone = Simulator(Paths.uniform(1, rate_mbps=12.0), Flows.forever(1, 1), Roster(cubic=1), seed=0)
    links = Paths.uniform(3, rate_mbps=12.0)
    links.rate_mbps[1:] = 100.0
    beside = Simulator(links, Flows.forever(1, 3), Roster(cubic=1), seed=0)
    for _ in range(20):  # in slow start nothing random happens
        np.testing.assert_allclose(alone.step().acked_pkts[0, 0], beside.step().acked_pkts[0, 0], atol=1e-9)


def test_cubic_fills_a_link_with_one_bdp_of_buffer() -> None:
    links = Paths.uniform(3, buffer_bdp=1.0)
    links.rate_mbps[:] = 12.0, 48.0, 100.0
    links.rtt_ms[:] = 40.0, 100.0, 30.0
    links.buffer_pkts[:] = links.rate_mbps * links.rtt_ms / 12.0
    simulator = Simulator(links, Flows.forever(1, 3), Roster(cubic=1), seed=1)
    utilisation, rtt_ms, loss = run(simulator, 12.0)
    assert (utilisation >= 0.9).all()
    assert (utilisation <= 1.0 + 1e-9).all()
    assert (rtt_ms[0] > links.rtt_ms).all()
    assert (rtt_ms[0] < 2.2 * links.rtt_ms).all()
    assert (loss < 0.01).all()


def test_cubic_at_random_loss_follows_its_response_function() -> None:
    # RFC 9438 §5.1 with C 0.4 and beta 0.7, for evenly spaced losses; random ones give a little more.
    links = Paths.uniform(50, rate_mbps=200.0, rtt_ms=200.0, loss=5e-4)
    simulator = Simulator(links, Flows.forever(1, 50), Roster(cubic=1), seed=1, interval_s=0.1, tick_s=0.005)
    utilisation, _, _ = run(simulator, 60.0, warm_up_s=20.0)
    window = utilisation.mean() * 200e6 / 8 / 1500 * 0.2
    assert window == pytest.approx(1.054 * (0.2 / 5e-4) ** 0.75, rel=0.2)


def fixed(rate_mbps: float) -> tuple[Simulator, Paths]:
    links = Paths.uniform(1, rate_mbps=12.0, rtt_ms=40.0)
    flows = Flows.forever(1, 1)
    flows.rate_mbps[:] = rate_mbps
    return Simulator(links, flows, Roster(fixed=1), seed=1), links


def test_fixed_rate_below_capacity_sees_the_base_rtt() -> None:
    simulator, _ = fixed(8.0)
    utilisation, rtt_ms, loss = run(simulator, 5.0, warm_up_s=0.5)
    assert utilisation[0] == pytest.approx(8 / 12, abs=0.01)
    assert rtt_ms[0, 0] == pytest.approx(40.0 + 1.0, abs=0.1)  # and 1 ms to put a packet on the wire
    assert loss[0, 0] == 0.0


def test_fixed_rate_above_capacity_fills_the_queue_and_loses_the_rest() -> None:
    simulator, links = fixed(24.0)
    utilisation, rtt_ms, loss = run(simulator, 5.0, warm_up_s=1.0)
    assert utilisation[0] == pytest.approx(1.0, abs=0.01)
    assert loss[0, 0] == pytest.approx(0.5, abs=0.01)
    assert rtt_ms[0, 0] == pytest.approx(81.0, abs=2.0)
    assert simulator.bottleneck.queued[0] == pytest.approx(links.buffer_pkts[0], abs=2.0)


def test_random_loss_has_the_rate_that_was_asked_for() -> None:
    links = Paths.uniform(50, rate_mbps=12.0, rtt_ms=40.0, loss=0.02)
    flows = Flows.forever(1, 50)
    flows.rate_mbps[:] = 6.0
    _, _, loss = run(Simulator(links, flows, Roster(fixed=1), seed=1), 10.0)
    assert loss.mean() == pytest.approx(0.02, rel=0.05)
    # Single losses, not a smooth share: the variance between runs is that of a Poisson process.
    assert loss.std() == pytest.approx(np.sqrt(0.02 / 5000.0), rel=0.4)


def test_an_action_is_felt_one_rtt_later() -> None:
    simulator = Simulator(
        Paths.uniform(1, rate_mbps=100.0, rtt_ms=90.0), Flows.forever(1, 1), Roster(window=1), seed=1
    )
    simulator.set_window(np.full((1, 1), 100.0))
    for _ in range(20):
        before = simulator.step()
    simulator.set_window(np.full((1, 1), 200.0))
    delivered = [simulator.step().delivered_pps[0, 0] for _ in range(6)]
    steady = before.delivered_pps[0, 0]
    assert delivered[:3] == pytest.approx([steady] * 3, rel=0.01)
    assert delivered[4] == pytest.approx(2 * steady, rel=0.02)


def test_the_echo_tells_the_fate_of_what_an_interval_sent() -> None:
    simulator = Simulator(
        Paths.uniform(1, rate_mbps=100.0, rtt_ms=90.0), Flows.forever(1, 1), Roster(window=1), seed=1
    )
    sent = []
    for step in range(40):
        simulator.set_window(np.full((1, 1), 100.0 if step % 2 else 130.0))
        seen = simulator.step()
        sent.append(seen.sent_pkts[0, 0])
    index = int(seen.echo.index[0, 0])
    assert 40 - 1 - index == 3  # sent 90 ms ago
    assert seen.echo.sending_pps[0, 0] * 0.03 == pytest.approx(sent[index])
    assert seen.echo.delivered_pps[0, 0] == pytest.approx(seen.echo.sending_pps[0, 0], rel=0.05)
    assert seen.previous_echo.index[0, 0] == index - 1
    assert seen.echo.rtt_s[0, 0] == pytest.approx(0.09, abs=0.001)
    assert seen.echo.loss[0, 0] == pytest.approx(0.0, abs=1e-9)


def test_a_first_echo_does_not_count_the_round_trip_before_it() -> None:
    # Both flows send what their link takes; the second one starts as the eleventh interval does.
    starts = np.array([[0.0, 0.3]])
    flows = Flows(starts, np.full((1, 2), np.inf), np.full((1, 2), np.nan))
    flows.rate_mbps[:] = 10.0
    simulator = Simulator(Paths.uniform(2, rate_mbps=10.0, rtt_ms=100.0), flows, Roster(fixed=1), seed=1)
    first_pps = np.zeros(2)
    for _ in range(20):
        echo = simulator.step().echo
        heard = (echo.index[0] >= 0) & (first_pps == 0.0)
        first_pps[heard] = echo.delivered_pps[0, heard]
    assert first_pps == pytest.approx([10e6 / 8 / 1500] * 2, rel=0.01)


def test_steps_change_rate_rtt_and_loss_when_they_say() -> None:
    nan = np.nan
    links = Paths.uniform(2, rate_mbps=12.0, rtt_ms=40.0)
    steps = Steps(
        at_s=np.array([[3.0, 3.0], [6.0, np.inf]]),
        rate_mbps=np.array([[24.0, nan], [nan, nan]]),
        rtt_ms=np.array([[nan, 80.0], [nan, nan]]),
        loss=np.array([[nan, nan], [0.5, nan]]),
    )
    links = Paths(**{**links.__dict__, "steps": steps})
    flows = Flows.forever(1, 2)
    flows.rate_mbps[:] = 20.0, 6.0
    simulator = Simulator(links, flows, Roster(fixed=1), seed=1)
    first = [simulator.step() for _ in range(99)][-1]
    second = [simulator.step() for _ in range(99)][-1]
    third = [simulator.step() for _ in range(100)][-1]
    assert first.capacity_pps * 12e-3 == pytest.approx([12.0, 12.0])
    assert second.capacity_pps * 12e-3 == pytest.approx([24.0, 12.0])
    assert first.rtt_s[0, 1] == pytest.approx(0.041, abs=1e-3)
    assert second.rtt_s[0, 1] == pytest.approx(0.081, abs=1e-3)
    assert second.lost_pkts[0, 0] == 0.0
    assert third.lost_pkts[0, 0] > 0.3 * third.sent_pkts[0, 0]


def test_a_trace_lets_through_what_it_lists() -> None:
    # 1 packet a millisecond for 100 ms, then nothing for 100 ms: 6 Mbit/s on average.
    trace = np.concatenate((np.arange(1, 101), [200]))
    base = Paths.uniform(1, rtt_ms=40.0)
    links = Paths(
        rate_mbps=base.rate_mbps,
        rtt_ms=base.rtt_ms,
        buffer_pkts=np.array([300.0]),
        loss=base.loss,
        jitter_ms=base.jitter_ms,
        trace=np.zeros(1, np.int64),
        trace_start_ms=base.trace_start_ms,
        traces=(trace,),
    )
    flows = Flows.forever(1, 1)
    flows.rate_mbps[:] = 5.0
    simulator = Simulator(links, flows, Roster(fixed=1), seed=1)
    utilisation, rtt_ms, loss = run(simulator, 8.0, warm_up_s=1.0)
    assert utilisation[0] == pytest.approx(5.0 / 6.06, abs=0.02)
    assert loss[0, 0] == 0.0
    assert 40.0 < rtt_ms[0, 0] < 140.0


def test_aimd_keeps_the_delay_it_is_told_to() -> None:
    links = Paths.uniform(2, rate_mbps=50.0, rtt_ms=40.0, buffer_bdp=3.0)
    simulator = Simulator(links, Flows.forever(1, 2), Roster(aimd=1), seed=1)
    simulator.aimd.parameters[:, 0, :] = [[0.02, 0.02], [0.1, 0.1], [0.1, 0.8], [0.7, 0.7]]
    utilisation, rtt_ms, _ = run(simulator, 12.0, warm_up_s=6.0)
    assert (utilisation > 0.9).all()
    assert rtt_ms[0, 0] == pytest.approx(40.0 * 1.1, rel=0.15)
    assert rtt_ms[0, 1] == pytest.approx(40.0 * 1.8, rel=0.15)


def test_equal_cubic_flows_share_a_link() -> None:
    simulator = Simulator(
        Paths.uniform(4, rate_mbps=60.0, rtt_ms=20.0), Flows.forever(3, 4), Roster(cubic=3), seed=1
    )
    acked = sum(simulator.step().acked_pkts for _ in range(400))
    jain = acked.sum(axis=0) ** 2 / (3 * (acked**2).sum(axis=0))
    assert (jain > 0.9).all()


@pytest.mark.parametrize(
    ("field", "value"),
    [("rate_mbps", 0.0), ("rtt_ms", np.nan), ("loss", 1.5), ("buffer_pkts", 0.0), ("trace", 0)],
)
def test_a_bad_link_is_named(field: str, value: float) -> None:
    links = Paths.uniform(2).__dict__
    bad = np.full(2, value).astype(links[field].dtype)
    with pytest.raises(InvalidValueError, match=field):
        Paths(**{**links, field: bad})


def test_buffers_beyond_memory_are_refused() -> None:
    links = Paths.uniform(1000, rate_mbps=0.1, rtt_ms=30.0)
    links.buffer_pkts[:] = 1e5
    with pytest.raises(InvalidValueError, match="buffer_pkts"):
        Simulator(links, Flows.forever(8, 1000), Roster(cubic=8), seed=1)
