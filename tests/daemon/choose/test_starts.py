# SPDX-License-Identifier: Apache-2.0
"""Starts that overfill the buffer: a flow shows it, and the next flow to its prefix begins otherwise."""

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.records import record
from support.rule_flows import BBR, LTP, RATE_PPS, STEP_S, UNCHECKED, VEGAS, Rtt, run, times_s

from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.datapath.protocol import ArmId, FlowFlags
from ltp_switcher.daemon.settings.rule_policy import RuleSection

CUBIC, WESTWOOD = int(ArmId.CUBIC), int(ArmId.WESTWOOD)
"""The kernel begins each flow on Cubic here, unless a test says otherwise."""
SLOT = np.array([0])


def losing(share: float, until_s: float = 1.0) -> Callable[[float], int]:
    """Packets lost so far, if this share of all packets is lost behind a queue until then."""
    return lambda t: int(RATE_PPS * share / (1 - share) * min(t, until_s))


def flow(
    chooser: RuleChooser,
    at_s: float = 5.0,
    duration_s: float = 0.6,
    rtt: Rtt = lambda _: 40.0,
    total_lost: Callable[[float], int] = lambda _: 0,
    lost: Rtt = lambda _: 0.0,
    rate_pps: float = RATE_PPS,
) -> list[tuple[float, int]]:
    """The times and arms of one flow, which then ends."""
    told = run(
        rtt,
        duration_s=duration_s,
        chooser=chooser,
        started_ns=int(at_s * 1e9),
        total_lost=total_lost,
        lost=lost,
        rate_pps=rate_pps,
    )
    chooser.close(SLOT)
    return times_s(told[:, 0])


@pytest.fixture
def chooser() -> RuleChooser:
    return RuleChooser([BBR, LTP, VEGAS], UNCHECKED)


def test_after_a_start_that_lost_much_the_next_flow_keeps_the_kernels_arm_for_its_start(
    chooser: RuleChooser,
) -> None:
    assert flow(chooser, total_lost=losing(0.15)) == [(pytest.approx(STEP_S), BBR)]
    (_, first), (then_s, then) = flow(chooser, at_s=10.0, duration_s=4.0)
    assert (first, then) == (CUBIC, LTP)
    assert 2.0 <= then_s <= 2.5


def born(chooser: RuleChooser, arm: int, at_s: float = 10.0) -> int:
    """The arm that a flow gets at its first step, if the kernel began it on `arm`."""
    chooser.open(SLOT, [""])
    made = record(1, time_ns=int(at_s * 1e9), arm=arm, want_arm=arm)
    (got,) = chooser.step(SLOT, made).arms.tolist()
    chooser.close(SLOT)
    return int(got)


def test_a_gentle_start_is_none_under_the_probing_arm_even_if_the_kernel_began_with_it(
    chooser: RuleChooser,
) -> None:
    """The table of starting arms may name the probing arm, for example beside a trial of Cubic."""
    flow(chooser, total_lost=losing(0.15))
    assert [born(chooser, arm) for arm in (BBR, CUBIC, WESTWOOD)] == [CUBIC, CUBIC, WESTWOOD]


def test_the_arm_of_a_gentle_start_is_the_modules_unless_the_flow_may_not_run_it() -> None:
    chooser = RuleChooser([BBR, LTP, VEGAS], UNCHECKED, default_arm=WESTWOOD)
    flow(chooser, total_lost=losing(0.15))
    assert born(chooser, BBR) == WESTWOOD
    chooser.open(SLOT, [""])
    chooser.set_pool([BBR, LTP], SLOT)
    made = record(1, time_ns=20 * 10**9, arm=BBR, want_arm=BBR)
    assert chooser.step(SLOT, made).arms.tolist() == [BBR]


def test_new_flows_begin_on_the_modules_arm_whatever_arm_later_flows_choose(chooser: RuleChooser) -> None:
    """A start on Vegas would not be gentle. The memory lasts for ten minutes."""
    flow(chooser, total_lost=losing(0.15))
    assert chooser.starts() == {"": CUBIC}
    for at_s, starts in ((20.0, {}), (1000.0, {}), (2000.0, {"": VEGAS})):
        # The first flow after a long time shows the rule how late it is, and finds the old memories.
        told = flow(chooser, at_s=at_s, duration_s=4.0, rtt=lambda t: 40.0 if t < 0.5 else 400.0)
        assert told[-1][1] == VEGAS
        assert chooser.starts() == starts


def test_the_reason_is_the_share_that_was_lost(chooser: RuleChooser) -> None:
    flow(chooser, total_lost=losing(0.15))
    run(lambda _: 40.0, duration_s=1.0, chooser=chooser, started_ns=10**10)
    why = chooser.reason(SLOT)
    assert chooser.reasons[why.code[0]].format(value=why.value[0]) == (
        "the probing arm's start lost 15 % of an earlier flow's packets to the same network: this flow keeps "
        "the kernel's arm for its own start"
    )


@given(st.floats(0.0, 0.3), st.booleans())
@example(0.057, False)
@example(0.060, False)
@settings(max_examples=25, deadline=None)
def test_a_start_counts_where_its_losses_leave_less_than_half_of_the_reward(share: float, long: bool) -> None:
    """Eq. 1 with zeta 5 and kappa 2, whether the flow ends within its start or after it."""
    chooser = RuleChooser([BBR, LTP, VEGAS], UNCHECKED)
    flow(chooser, duration_s=4.0 if long else 1.5, total_lost=losing(share, 9.0))
    left = max(1 - 5 * share, 0) ** 2
    if abs(left - 0.5) > 0.01:
        assert flow(chooser, at_s=20.0)[0][1] == (CUBIC if left < 0.5 else BBR)


@pytest.mark.parametrize(("lost_pkts", "then"), [(7, BBR), (8, CUBIC)])
def test_a_few_lost_packets_show_nothing(chooser: RuleChooser, lost_pkts: int, then: int) -> None:
    flow(chooser, duration_s=0.18, rate_pps=500.0, total_lost=lambda t: lost_pkts if t > 0.1 else 0)
    assert flow(chooser, at_s=10.0)[0][1] == then


def test_losses_without_a_queue_and_losses_after_the_start_do_not_count(chooser: RuleChooser) -> None:
    def lost_later(t: float) -> int:
        return int(0.2 * RATE_PPS * max(t - 3.0, 0.0))

    flow(chooser, lost=lambda _: 0.15, total_lost=lambda t: int(0.15 * RATE_PPS * t))
    assert flow(chooser, at_s=10.0)[0][1] == BBR
    flow(chooser, at_s=20.0, duration_s=6.0, total_lost=lost_later)
    assert flow(chooser, at_s=30.0)[0][1] == BBR


def test_a_long_flow_tells_of_its_start_while_it_is_open(chooser: RuleChooser) -> None:
    """The next flow shares nothing with it, because it has little to send."""
    idle = int(FlowFlags.APP_LIMITED)
    run(lambda _: 40.0, duration_s=4.0, chooser=chooser, total_lost=losing(0.15), flags=lambda _: idle)
    chooser.open(np.array([1]), [""])
    made = [record(n, time_ns=9_100_000_000, arm=arm, want_arm=arm) for n, arm in ((1, LTP), (2, CUBIC))]
    assert chooser.step(np.array([0, 1]), np.concatenate(made)).arms.tolist() == [LTP, CUBIC]


def test_another_prefix_and_a_later_time_are_not_meant(chooser: RuleChooser) -> None:
    flow(chooser, total_lost=losing(0.15))
    chooser.open(SLOT, ["other"])
    made = record(1, time_ns=8 * 10**9, arm=CUBIC, want_arm=CUBIC)
    assert chooser.step(SLOT, made).arms.tolist() == [BBR]
    chooser.close(SLOT)
    assert flow(chooser, at_s=600.0)[0][1] == CUBIC
    # Gentle starts do not renew it: ten minutes after the start that showed it, BBR probes again.
    # The chooser's clock is the last step's.
    assert flow(chooser, at_s=610.0)[0][1] == CUBIC
    assert flow(chooser, at_s=611.0)[0][1] == BBR


def test_the_careful_arm_of_a_known_prefix_comes_first(chooser: RuleChooser) -> None:
    flow(chooser, total_lost=losing(0.15))
    told = flow(chooser, at_s=10.0, duration_s=4.0, rtt=lambda t: 400.0 if 0.5 < t < 1.0 else 40.0)
    assert [arm for _, arm in told] == [CUBIC, VEGAS]
    assert flow(chooser, at_s=20.0)[0][1] == VEGAS


def test_another_arms_losses_say_nothing_of_the_probing_arms_start(chooser: RuleChooser) -> None:
    """As under a trial, which begins a flow on another arm and keeps it there."""
    chooser.open(SLOT, [""])
    for step in range(1, 20):
        made = record(
            1, time_ns=5 * 10**9 + int(step * STEP_S * 1e9), arm=CUBIC, want_arm=CUBIC,
            total_delivered=60 * step, total_lost=20 * step,
        )  # fmt: skip
        chooser.step(SLOT, made)
    chooser.close(SLOT)
    assert flow(chooser, at_s=10.0)[0][1] == BBR


@pytest.mark.parametrize(("lost", "then"), [(0.0, [BBR, LTP, BBR, LTP]), (0.15, [CUBIC, LTP])])
def test_the_reward_of_a_gentle_start_is_not_the_probing_arms(lost: float, then: list[int]) -> None:
    """The steady arm that earns a tenth starves beside BBR's level. It returns when BBR earns as little.
    Beside Cubic's start nothing is said.
    """
    chooser = RuleChooser([BBR, LTP, VEGAS], RuleSection(without=("no-queue",)))
    flow(chooser, total_lost=losing(lost))
    slow = run(
        lambda _: 40.0,
        duration_s=6.0,
        chooser=chooser,
        started_ns=10**10,
        rate=lambda t: 1.0 if t < 2.3 else 0.3,
    )
    assert [arm for _, arm in times_s(slow[:, 0])] == then


def test_without_the_case_every_new_flow_probes() -> None:
    chooser = RuleChooser([BBR, LTP, VEGAS], dataclasses.replace(UNCHECKED, without=("starts", "no-queue")))
    flow(chooser, total_lost=losing(0.15))
    assert flow(chooser, at_s=10.0)[0][1] == BBR
