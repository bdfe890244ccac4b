# SPDX-License-Identifier: Apache-2.0
"""The reasons that the rule gives for an arm, as people read them."""

import dataclasses
import re

import numpy as np
import pytest
from support.rule_flows import BBR, LTP, UNCHECKED, VEGAS, Rtt, run

from ltp_switcher.daemon.choose.rule.rule import RuleChooser


def said(chooser: RuleChooser, slot: int = 0) -> str:
    """The reason for a flow's arm, as people read it."""
    why = chooser.reason(np.array([slot]))
    return chooser.reasons[why.code[0]].format(value=why.value[0])


@pytest.mark.parametrize(
    ("rtt", "duration_s", "sentence"),
    [
        (lambda t: 40.0, 1.0, "the flow was new, and this arm probes its path"),
        (
            lambda t: 80.0 if 1 < t < 1.5 else 40.0, 4.0,
            "the highest RTT was 2.0 times the lowest, no more than 6: the rate was steady",
        ),
        (
            lambda t: 400.0 if 1 < t < 1.5 else 40.0, 4.0,
            "the highest RTT was 10.0 times the lowest, more than 6: the rate varied",
        ),
        (
            lambda t: 80.0 if t < 6 else 20.0, 7.0,
            "the lowest RTT fell to 20.0 ms: the path had changed, and this arm follows it",
        ),
        (
            lambda t: 40.0 if t < 5 else 160.0, 9.0,
            "the lowest RTT stayed at 160.0 ms for 1 s: the path had changed, and this arm probes it anew",
        ),
    ],
)  # fmt: skip
def test_the_reason_is_the_measurement_that_decided(rtt: Rtt, duration_s: float, sentence: str) -> None:
    settings = dataclasses.replace(UNCHECKED, rtt_ratio=6.0, rise_s=1.0, change_s=5.0)
    chooser = RuleChooser([BBR, LTP, VEGAS], settings)
    run(rtt, duration_s=duration_s, chooser=chooser)
    assert said(chooser) == sentence


def test_the_reason_behind_a_short_buffer_is_the_share_that_was_lost() -> None:
    chooser = RuleChooser([BBR, LTP, VEGAS], UNCHECKED)
    run(
        lambda t: 400.0 if 0.5 < t < 1.0 else 40.0,
        duration_s=4.0,
        chooser=chooser,
        total_lost=lambda t: int(2000 * 0.25 * t),
    )
    assert said(chooser) == "the rate varied, and 20.0 % of the packets were lost: the buffer was short"


def test_the_reason_of_a_flow_to_a_known_network_is_its_network() -> None:
    chooser = RuleChooser([BBR, LTP, VEGAS], UNCHECKED)
    run(lambda t: 400.0 if 0.5 < t < 1.0 else 40.0, duration_s=4.0, chooser=chooser)
    chooser.close(np.array([0]))
    chooser.open(np.array([1]), [""])
    assert said(chooser, 1) == "flows to the same network were probed before, and this arm suited them"


def test_the_reason_without_a_queue_is_that_no_arm_could_gain_anything() -> None:
    chooser = RuleChooser([BBR, LTP, VEGAS], dataclasses.replace(UNCHECKED, without=()))
    run(lambda _: 40.0, duration_s=4.0, chooser=chooser)
    assert said(chooser) == "no queue stood on the path under this arm, so no other one could gain anything"


def test_the_reason_of_a_flow_that_pauses_is_the_share_of_its_pauses() -> None:
    chooser = RuleChooser([BBR, LTP, VEGAS], dataclasses.replace(UNCHECKED, without=()))
    varies = lambda t: 400.0 if 1.2 < t < 1.5 else 40.0  # noqa: E731
    run(varies, duration_s=60.0, chooser=chooser, busy=lambda t: t % 1.2 < 0.6)
    sentence = "the application had nothing to send for 5. % of the time: this arm keeps its rate"
    assert re.match(sentence, said(chooser))
