# SPDX-License-Identifier: Apache-2.0
"""Jury before standing queues: whose they are, and their end in the simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.jury_intervals import echo, interval

from ltp_switcher.arrays import Bools, Floats
from ltp_switcher.policies.jury import evaluate, make_arm
from ltp_switcher.policies.jury.signals import JurySignals
from ltp_switcher.policies.jury.standing import (
    FULL_S,
    OWN_S,
    STANDS_RTTS,
    STANDS_S,
    YIELD_S,
    StandingQueues,
)
from ltp_switcher.policies.simulator.controllers import INITIAL_WINDOW
from ltp_switcher.policies.simulator.paths import NEVER, Flows
from ltp_switcher.policies.simulator.simulator import Roster, Simulator

LENGTH_S = 0.03
LEAST_S = 0.04


def watch(rtts_s: Floats, least_s: float = LEAST_S, lost_pkts: float = 0.0) -> tuple[Bools, Bools]:
    """One flow with these RTTs, an interval each, and losses: whether a queue stood, whether it yielded."""
    queues, slot = StandingQueues(), np.array([0])
    queues.reset(slot)
    sent = echo(0, np.array([1000.0]))
    seen = replace(interval(0, sent, sent), rtt_min_s=np.array([least_s]), lost_pkts=np.array([lost_pkts]))
    stood, yielded = [], []
    for rtt_s in rtts_s:
        now = replace(seen, rtt_s=np.array([rtt_s]))
        stands, yields = queues.update(slot, now)
        stood.append(stands[0])
        yielded.append(yields[0])
    return np.array(stood), np.array(yielded)


def sawtooth(low: float, high: float, period_s: float, duration_s: float) -> Floats:
    at_s = np.arange(0.0, duration_s, LENGTH_S)
    return LEAST_S * (low + (high - low) * (at_s % period_s) / period_s)


def test_a_queue_stands_once_it_has_for_long() -> None:
    stood, yielded = watch(sawtooth(1.4, 2.0, 4.0, 60.0))
    begins = round(STANDS_S / LENGTH_S)
    assert not stood[: begins - 1].any()
    assert stood[begins + 1 :].all()
    assert not yielded.any()


def test_a_queue_that_is_ever_empty_does_not_stand() -> None:
    assert not watch(sawtooth(1.0, 2.0, 5.0, 60.0))[0].any()


def test_long_round_trips_are_waited_for() -> None:
    stood, _ = watch(20.0 * sawtooth(1.4, 2.0, 5.0, 20.0), least_s=20.0 * LEAST_S)
    assert stood.argmax() == pytest.approx(STANDS_RTTS * 20.0 * LEAST_S / LENGTH_S, abs=2)


def test_a_flow_yields_to_a_queue_that_loses_and_stays_full() -> None:
    stood, yielded = watch(np.full(400, 2.0 * LEAST_S), lost_pkts=1.0)
    begins = max(STANDS_S, FULL_S) / LENGTH_S
    assert yielded.argmax() == pytest.approx(begins, abs=2)
    # For as long as it does.
    again = np.flatnonzero(np.diff(yielded.astype(int)) > 0)
    assert np.diff(again) == pytest.approx(FULL_S / LENGTH_S, abs=2)
    assert yielded[: int(1.5 * begins)].sum() == pytest.approx(YIELD_S / LENGTH_S, abs=1)
    assert not (stood & yielded).any()


def test_a_full_queue_without_a_loss_is_another_s() -> None:
    # Cubic's stays near its last maximum for many seconds on long paths.
    stood, yielded = watch(np.full(600, 2.0 * LEAST_S))
    assert stood[-300:].all()
    assert not yielded.any()


def test_queues_after_one_that_was_the_flow_s_own_are_its_own_until_it_had_time_to_drain() -> None:
    full = round(6.0 / LENGTH_S)
    rtts_s = np.concatenate((np.full(full, 2.0 * LEAST_S), sawtooth(1.4, 1.8, 4.0, OWN_S + 10.0)))
    stood, yielded = watch(rtts_s, lost_pkts=1.0)
    assert yielded.any()
    ends = yielded.argmax() + round(OWN_S / LENGTH_S)
    assert not stood[yielded.argmax() : ends - 2].any()
    assert stood[ends + 2 :].all()


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=300), st.floats(0.001, 1.0))
def test_a_flow_yields_only_where_the_rtt_is_high(queueing: list[float], least_s: float) -> None:
    rtts_s = least_s * (1.0 + np.array(queueing))
    stood, yielded = watch(rtts_s, least_s, lost_pkts=1.0)
    assert not (stood | yielded)[rtts_s <= 1.29 * least_s].any()


def test_before_the_first_ack_nothing_stands() -> None:
    stood, yielded = watch(np.zeros(300), least_s=np.inf)
    assert not (stood | yielded).any()


def test_where_its_start_has_filled_the_link_a_flow_holds_what_that_holds() -> None:
    signals, slot = JurySignals(), np.array([0])
    signals.begin(slot, np.array([400.0]))
    yes = np.array([[1.0, 1.0]], np.float32)
    for index in range(12):
        delivered = echo(index - 5, np.array([9000.0]), delivered_pps=np.array([5000.0]), rtt_s=0.05)
        now = interval(index, delivered, echo(index - 6, np.array([9000.0]), rtt_s=0.05))
        signals.observe(slot, now)
        window_pkts = signals.control(slot, now, yes)[0, 0]
        if index < 6:
            assert window_pkts == pytest.approx(5000.0 * 0.04)
    assert window_pkts != pytest.approx(5000.0 * 0.04)


def test_beside_cubic_jury_holds_its_own() -> None:
    paths = evaluate.uniform(np.array([50.0]), np.array([60.0]))
    run = evaluate.play(make_arm(), paths, np.zeros((2, 1)), 40.0, cubic=1)
    jury, cubic = run.since(15.0).share.mean(axis=0)
    assert (jury / cubic > 0.35).all()
    assert (jury / cubic < 2.0).all()


def test_a_queue_that_cubic_has_left_drains() -> None:
    paths = evaluate.uniform(np.array([50.0]), np.array([60.0]))
    start_s, stop_s = np.zeros((4, 1)), np.array([[NEVER], [NEVER], [NEVER], [20.0]])
    roster = Roster(window=3, cubic=1)
    simulator = Simulator(
        paths, Flows(start_s, stop_s, np.full((4, 1), np.nan)), roster, seed=1, interval_s=LENGTH_S
    )
    arm, slots = make_arm(), np.arange(3)
    arm.begin(slots, np.full(3, INITIAL_WINDOW))
    inflation = []
    while simulator.now_s < 55.0:
        seen = simulator.step()
        simulator.set_window(arm.decide(slots, seen.flat(3)).reshape(3, 1))
        inflation.append(seen.rtt_s[0, 0] / 0.06)
    assert np.mean(inflation[200:400]) > 1.3
    assert np.mean(inflation[-300:]) < 1.1
