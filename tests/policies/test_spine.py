# SPDX-License-Identifier: Apache-2.0
"""Spine at run time: its observations, the meaning of its actions, and the two-level network in numpy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ltp_switcher.errors import ArtifactError, InvalidValueError
from ltp_switcher.policies.runtime.arm import PARAMETERS, Law, NetworkArm
from ltp_switcher.policies.runtime.inference import Network
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.policies.simulator import Flows, Paths, Roster, Simulator
from ltp_switcher.policies.simulator.directed import directed
from ltp_switcher.policies.simulator.paths import PACKET_BYTES
from ltp_switcher.policies.spine import ARM, arm_of, make_arm
from ltp_switcher.policies.spine.actor import HierarchicalNetwork, layers
from ltp_switcher.policies.spine.signals import SCALES, STATISTICS, SpineSignals

LAWS = (Law.AIMD, Law.CUBIC)


def parts(law: Law, *, trigger_bias: float = 0.0) -> dict[str, Network]:
    """The three networks with random weights; with a large bias, the trigger is always or never up."""
    rng = np.random.default_rng(1)
    inputs = {"watcher": STATISTICS + PARAMETERS[law] + 128, "trigger": 64, "generator": 64}
    networks = {}
    for name, stack in layers(PARAMETERS[law]).items():
        arrays: dict[str, NDArray[np.generic]] = {}
        size = inputs[name]
        for number, layer in enumerate(stack):
            rows = layer.size * (4 if layer.kind == "lstm" else 1)
            for parameter in layer.parameters:
                columns = layer.size if parameter == "weight_hh" else size
                shape = (rows, columns) if parameter.startswith("weight") else (rows,)
                arrays[f"{number}.{parameter}"] = rng.normal(0.0, 0.2, shape).astype(np.float32)
            size = layer.size
        if name == "trigger":
            arrays["0.bias"] = np.full(1, trigger_bias, np.float32)
        networks[name] = Network(stack, arrays)
    return networks


def network(law: Law = Law.AIMD, *, trigger_bias: float = 0.0) -> HierarchicalNetwork:
    return HierarchicalNetwork(parts(law, trigger_bias=trigger_bias))


def intervals(count: int, rows: int = 3) -> list[Interval]:
    simulator = Simulator(Paths.uniform(rows), Flows.forever(1, rows), Roster(aimd=1), seed=1, interval_s=0.1)
    return [simulator.step().flat(1) for _ in range(count)]


INTERVAL = intervals(1, rows=1)[0]


@given(
    law=st.sampled_from(LAWS),
    actions=st.lists(st.floats(-3.0, 3.0, width=32), min_size=4, max_size=4),
)
@settings(max_examples=60, deadline=None)
def test_sub_policies_lie_in_their_ranges(law: Law, actions: list[float]) -> None:
    signals = SpineSignals(law, 0.2)
    signals.reset(np.arange(1))
    row = np.array([[*actions[: PARAMETERS[law]], 1.0]], np.float32)
    parameters = signals.control(np.array([0]), INTERVAL, row)
    assert parameters.shape == (1, PARAMETERS[law])
    for value, scale in zip(parameters[0], SCALES[law], strict=True):
        assert scale.low <= value <= scale.high


@pytest.mark.parametrize("law", LAWS)
def test_a_larger_action_is_a_larger_parameter_from_end_to_end(law: Law) -> None:
    signals = SpineSignals(law, 0.2)
    signals.reset(np.arange(5))
    column = np.linspace(-1.0, 1.0, 5, dtype=np.float32)[:, None]
    actions = np.concatenate((np.repeat(column, PARAMETERS[law], axis=1), np.ones_like(column)), axis=1)
    parameters = signals.control(np.arange(5), INTERVAL, actions)
    assert (np.diff(parameters, axis=0) > 0.0).all()
    np.testing.assert_allclose(parameters[0], [scale.low for scale in SCALES[law]])
    np.testing.assert_allclose(parameters[-1], [scale.high for scale in SCALES[law]])


@pytest.mark.parametrize(
    ("law", "middle", "quarter"),
    [
        # Half the way: the geometric mean of the range's ends; of α_loss and β, that of what is left to 1.
        # A quarter of the way: the geometric mean of the lower end and that.
        (Law.AIMD, [0.05, 0.0707107, 0.2, 0.9105573], [0.0158114, 0.0265915, 0.0632456, 0.7325039]),
        (Law.CUBIC, [0.7354249, 0.2], [0.5696483, 0.0447214]),
    ],
)
def test_equal_steps_of_an_action_are_equal_ratios(
    law: Law, middle: list[float], quarter: list[float]
) -> None:
    signals = SpineSignals(law, 0.2)
    signals.reset(np.arange(2))
    actions = np.repeat(np.array([[0.0], [-0.5]], np.float32), len(middle), axis=1)
    told = signals.control(
        np.arange(2), intervals(1, rows=2)[0], np.insert(actions, len(middle), 1.0, axis=1)
    )
    np.testing.assert_allclose(told, [middle, quarter], rtol=1e-5)


@pytest.mark.parametrize(("interval_s", "hold"), [(0.2, 5), (0.3, 4), (0.1, 10)])
def test_a_sub_policy_stays_for_a_second(interval_s: float, hold: int) -> None:
    """The trigger is always up; the policy generator still runs once a second, in whole intervals."""
    arm = arm_of(parts(Law.AIMD, trigger_bias=50.0), Law.AIMD, interval_s)
    slots = np.arange(3)
    arm.begin(slots, np.full(3, 10.0))
    changed = [~np.isnan(arm.decide(slots, interval)).any(axis=1) for interval in intervals(3 * hold + 1)]
    at = np.flatnonzero([row.all() for row in changed])
    assert np.diff(at).tolist() == [hold] * (len(at) - 1)
    assert len(at) == pytest.approx(3, abs=1)


def test_without_a_trigger_nothing_changes_and_the_sub_policy_in_force_is_seen() -> None:
    signals = SpineSignals(Law.AIMD, 0.1)
    signals.reset(np.arange(3))
    slots = np.arange(3)
    first, second = intervals(2)
    chosen = np.array(
        [[0.1, 0.2, 0.3, 0.4, 1.0], [0.5, 0.5, 0.5, 0.5, -1.0], [-1, -1, -1, -1, 1.0]], np.float32
    )
    parameters = signals.control(slots, first, chosen)
    assert np.isnan(parameters).all(axis=1).tolist() == [False, True, False]
    seen = signals.observe(slots, second)
    assert seen.shape == (3, signals.observation_size)
    np.testing.assert_allclose(
        seen[:, -4:], [[0.1, 0.2, 0.3, 0.4], [0, 0, 0, 0], [-1, -1, -1, -1]], atol=1e-6
    )
    signals.begin(np.array([0]), np.array([10.0]))
    assert (signals.observe(slots, second)[0, -4:] == 0.0).all()


def test_observations_are_finite_before_the_first_ack_and_in_silence() -> None:
    signals = SpineSignals(Law.AIMD, 0.1)
    signals.reset(np.arange(3))
    first = intervals(1)[0]
    nothing = np.zeros(3)
    silent = replace(
        first,
        acked_pkts=nothing,
        lost_pkts=nothing,
        rtt_s=np.full(3, np.nan),
        rtt_min_s=np.full(3, np.inf),
        pacing_pps=np.full(3, np.inf),
    )
    for interval in (silent, first, silent):
        assert np.isfinite(signals.observe(np.arange(3), interval)).all()


def test_normalised_statistics_are_table_1s() -> None:
    signals = SpineSignals(Law.AIMD, 0.1)
    signals.reset(np.arange(1))
    one, none = np.ones(1), np.zeros(1)
    interval = replace(
        INTERVAL,
        length_s=0.1,
        acked_pkts=100.0 * one,
        lost_pkts=none,
        rtt_s=0.06 * one,
        rtt_min_s=0.04 * one,
        window_pkts=60.0 * one,
        in_flight_pkts=50.0 * one,
        pacing_pps=1500.0 * one,
    )
    signals.observe(np.array([0]), interval)
    halved = replace(interval, acked_pkts=50.0 * one, lost_pkts=50.0 * one)
    seen = signals.observe(np.array([0]), halved)[0]
    # 1000 packets a second at most, 40 ms at least: a BDP of 40 packets.
    expected = [0.5, 0.5, 0.75, np.log10(0.04) + 1.0, 0.5, 5.0, 0.25, 0.5, np.log10(2.5)]
    np.testing.assert_allclose(seen[:STATISTICS], expected, rtol=1e-6)


def test_slots_that_stay_keep_what_they_remember() -> None:
    signals = SpineSignals(Law.CUBIC, 0.1)
    signals.reset(np.arange(3))
    interval = intervals(3)[-1]
    before = signals.observe(np.arange(3), interval)
    signals.grow(8)
    np.testing.assert_array_equal(signals.observe(np.arange(3), interval), before)


@pytest.mark.parametrize(
    ("law", "interval_s", "name"), [(Law.WINDOW, 0.2, "law"), (Law.AIMD, 0.0, "interval_s")]
)
def test_what_spine_cannot_do_is_refused(law: Law, interval_s: float, name: str) -> None:
    with pytest.raises(InvalidValueError, match=name):
        SpineSignals(law, interval_s)


def test_the_generator_runs_at_a_flows_start_and_where_it_is_triggered() -> None:
    rng = np.random.default_rng(3)
    for bias, later in ((-50.0, -1.0), (50.0, 1.0)):
        model = network(trigger_bias=bias)
        state = model.initial_state(4)
        inputs = rng.normal(size=(4, model.input_size)).astype(np.float32)
        state, outputs = model.step(state, inputs)
        assert (outputs[:, -1] == 1.0).all()
        before = state.copy()
        state, outputs = model.step(state, inputs)
        assert (outputs[:, -1] == later).all()
        held = outputs[:, :-1] == inputs[:, -4:]
        assert held.all() == (later < 0.0)
        # Eq. 8: without a trigger the generator's state stays; the watcher's moves on.
        assert (before[:, 128:-1] == state[:, 128:-1]).all() == (later < 0.0)
        assert (before[:, :64] != state[:, :64]).any()


def test_a_sub_policy_stays_for_as_long_as_it_is_held() -> None:
    model = HierarchicalNetwork(parts(Law.AIMD, trigger_bias=50.0), hold=3)
    state = model.initial_state(2)
    inputs = np.zeros((2, model.input_size), np.float32)
    triggered = []
    for step in range(10):
        if step == 5:
            # A flow that is new holds from its own start on.
            state[1] = 0.0
        state, outputs = model.step(state, inputs)
        triggered.append(outputs[:, -1] > 0.0)
    assert np.flatnonzero(np.array(triggered)[:, 0]).tolist() == [0, 3, 6, 9]
    assert np.flatnonzero(np.array(triggered)[:, 1]).tolist() == [0, 3, 5, 8]


def test_flows_do_not_disturb_each_other() -> None:
    model = network()
    rng = np.random.default_rng(4)
    together, apart = model.initial_state(5), [model.initial_state(1) for _ in range(5)]
    triggered = []
    for _ in range(20):
        inputs = rng.normal(size=(5, model.input_size)).astype(np.float32)
        together, outputs = model.step(together, inputs)
        triggered.append(outputs[:, -1])
        for flow in range(5):
            apart[flow], alone = model.step(apart[flow], inputs[flow : flow + 1])
            np.testing.assert_allclose(alone[0], outputs[flow], atol=1e-5)
    assert -1.0 in np.array(triggered[1:])
    assert 1.0 in np.array(triggered[1:])


def test_weights_that_lack_a_part_or_do_not_fit_are_refused() -> None:
    whole = parts(Law.AIMD)
    with pytest.raises(ArtifactError, match="lack trigger"):
        HierarchicalNetwork({name: part for name, part in whole.items() if name != "trigger"})
    with pytest.raises(ArtifactError, match="report of 64"):
        HierarchicalNetwork({**whole, "trigger": whole["watcher"]})


@pytest.mark.parametrize("law", LAWS)
def test_the_arm_runs_flows_in_the_simulator_and_is_silent_between_triggers(law: Law) -> None:
    roster = Roster(aimd=1) if law is Law.AIMD else Roster(cubic=1, learned_cubic=1)
    simulator = Simulator(Paths.uniform(6), Flows.forever(1, 6), roster, seed=1, interval_s=0.1)
    arm = NetworkArm(SpineSignals(law, 0.1), network(law, trigger_bias=-50.0))
    silent = []
    for _, parameters in directed(simulator, arm, duration_s=3.0):
        silent.append(np.isnan(parameters).all(axis=1))
        assert (np.isnan(parameters).any(axis=1) == silent[-1]).all()
    assert not silent[0].any()
    assert np.all(silent[1:])
    current = (
        simulator.aimd.parameters if law is Law.AIMD else np.stack((simulator.cubic.beta, simulator.cubic.c))
    )
    assert np.isfinite(current).all()


@pytest.mark.parametrize("law", LAWS)
def test_the_committed_weights_fill_a_link(law: Law) -> None:
    arm = make_arm(next(v for v in ARM.variants if v.law is law), interval_s=0.1)
    roster = Roster(aimd=1) if law is Law.AIMD else Roster(cubic=1, learned_cubic=1)
    simulator = Simulator(
        Paths.uniform(1, rate_mbps=50.0), Flows.forever(1, 1), roster, seed=1, interval_s=0.1, tick_s=0.002
    )
    acked_pkts = 0.0
    for interval, _ in directed(simulator, arm, duration_s=8.0):
        acked_pkts += float(interval.acked_pkts[0, 0]) * (simulator.now_s > 4.0)
    assert acked_pkts * PACKET_BYTES * 8 / 4.0 > 0.85 * 50e6
