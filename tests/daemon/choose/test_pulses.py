# SPDX-License-Identifier: Apache-2.0
"""When paths are asked for more."""

import numpy as np
import pytest
from support.records import record
from support.rule_flows import BBR, LTP, UNCHECKED, VEGAS, Asked, run

from ltp_switcher.daemon.choose.rule.pulses import Pulses
from ltp_switcher.daemon.datapath.commands import PINNED, commands_for
from ltp_switcher.daemon.datapath.protocol import FlowFlags, PulseKind

RTT_MS = 50
SLOT = np.array([0])
NO = np.array([False])


def asked_s(duration_s: float, *, gains: bool = False, may: bool = True) -> list[float]:
    """When a flow's path is asked, in steps of one round trip."""
    pulses, found, asks = Pulses(), [], False
    pulses.reset(SLOT)
    for step in range(1, round(duration_s * 1e3 / RTT_MS) + 1):
        flags = int(FlowFlags.GAINED) if asks and gains else 0
        records = record(1, time_ns=step * RTT_MS * 1_000_000, srtt_us=RTT_MS * 1000, flags=flags)
        asks = bool(pulses.step(SLOT, records, np.array([may]), NO, NO)[0])
        if asks:
            found.append(step * RTT_MS * 1e-3)
    return found


def test_pulses_that_find_nothing_become_rare() -> None:
    waits = np.diff(asked_s(60.0)) / (RTT_MS * 1e-3)
    assert np.round(waits).tolist() == [20] + 29 * [40]


def test_the_queue_of_the_arm_before_does_not_delay_the_first_pulse() -> None:
    pulses = Pulses()
    pulses.reset(SLOT)
    at_ms, srtt_ms = 0, 500
    while True:
        at_ms, srtt_ms = at_ms + srtt_ms, RTT_MS
        records = record(1, time_ns=at_ms * 1_000_000, srtt_us=(500 if at_ms == 500 else RTT_MS) * 1000)
        if pulses.step(SLOT, records, ~NO, NO, NO)[0]:
            break
    assert at_ms == 500 + 10 * RTT_MS


def test_pulses_that_find_more_go_on() -> None:
    waits = np.diff(asked_s(10.0, gains=True)) / (RTT_MS * 1e-3)
    assert waits.max() < 12.5


def test_a_flow_that_does_not_fill_its_window_is_not_asked() -> None:
    assert asked_s(60.0, may=False) == []


def test_the_filling_arm_gets_a_pulse_at_once_and_only_where_acks_wait() -> None:
    """ACKs wait in the first half of a second, and from two seconds on."""
    pulses, found = Pulses(), []
    pulses.reset(SLOT)
    for step in range(1, round(5e3 / RTT_MS)):
        waits = np.array([not 500 < step * RTT_MS < 2000])
        records = record(1, time_ns=(10_000 + step * RTT_MS) * 1_000_000, srtt_us=RTT_MS * 1000)
        kind = int(pulses.step(SLOT, records, NO, ~NO, waits)[0])
        assert kind in (PulseKind.NONE, PulseKind.FILL)
        if kind:
            found.append(step * RTT_MS)
    # The second pulse is due after twenty round trips, and the third one after forty.
    assert found == [RTT_MS, 2000, 2000 + 40 * RTT_MS]


def test_only_the_careful_arm_is_asked() -> None:
    varies = lambda t: 400.0 if 1 < t < 1.5 else 40.0  # noqa: E731
    varying, steady = Asked(UNCHECKED), Asked(UNCHECKED)
    run(varies, duration_s=9.0, chooser=varying)
    assert sum(varying.pulses[VEGAS]) >= 3
    run(lambda _: 40.0, duration_s=9.0, chooser=steady)
    for arm in (BBR, LTP):
        assert sum(steady.pulses[arm]) == sum(varying.pulses.get(arm, ())) == 0


@pytest.mark.parametrize("kind", [1, 2])
def test_a_command_says_whose_path_is_asked_and_how(kind: int) -> None:
    steered = int(FlowFlags.STEERED)
    records = np.concatenate([
        record(1, want_arm=VEGAS, flags=steered),
        record(2, want_arm=VEGAS, flags=steered),
        record(3, want_arm=VEGAS, flags=steered | int(PINNED)),
    ])  # fmt: skip
    arms = np.full(3, VEGAS, np.uint8)
    assert commands_for(records, arms).size == 0
    commands = commands_for(records, arms, asks=np.array([0, kind, kind], np.uint8))
    assert commands[["cookie", "arm", "pulse"]].tolist() == [(2, VEGAS, kind)]
