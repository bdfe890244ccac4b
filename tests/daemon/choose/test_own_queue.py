# SPDX-License-Identifier: Apache-2.0
"""Queues under the steady arm: its own, another flow's, and none on a longer path."""

from collections.abc import Callable

import numpy as np
import pytest
from support.rule_flows import BBR, LTP, STEP_S, UNCHECKED, VEGAS, Rtt, run, times_s

from ltp_switcher.arrays import ArmIds, Slots
from ltp_switcher.daemon.choose.chooser import Draw
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.datapath import RecordArray


class Steered(RuleChooser):
    """Tells when the steady arm began anew, and in which steps its window was small."""

    def __init__(self) -> None:
        super().__init__([BBR, LTP, VEGAS], UNCHECKED)
        self.steps = 0
        self.anew_s: list[float] = []
        self.small_s: list[float] = []

    def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Draw:
        decision = super().step(slots, records, given)
        self.steps += 1
        for told, found in (
            (self.anew_s, self.begins_anew(slots)),
            (self.small_s, self.drains(slots, records)),
        ):
            if found[0]:
                told.append(self.steps * STEP_S)
        return decision


def queue_that_lasts(chooser: Steered, *, constant: bool) -> Rtt:
    """A queue on 40 ms from 5 s on, until the arm's window is small. A full queue is constant."""
    queue_ms = np.full(1000, 110.0) if constant else np.random.default_rng(3).uniform(60.0, 160.0, 1000)
    return lambda t: 40.0 + (float(queue_ms[int(t / 0.25)]) if t > 5.0 and not chooser.small_s else 0.0)


@pytest.mark.parametrize("constant", [True, False])
def test_a_queue_that_the_steady_arm_keeps_is_emptied_by_the_arm_itself(constant: bool) -> None:
    """After a fall of the rate the arm fills the queue until it begins anew."""
    chooser = Steered()
    changes = times_s(run(
        queue_that_lasts(chooser, constant=constant), duration_s=30.0, chooser=chooser,
        rate=lambda t: 1.0 if t < 5.0 else 0.3, total_lost=lambda t: max(0, int(30 * (t - 5.0))),
    )[:, 0])  # fmt: skip
    assert [arm for _, arm in changes] == [BBR, LTP]
    (anew_s,) = chooser.anew_s
    # Looks last a quarter of a second and two round trips; the RTT is high for a second of them.
    assert 6.0 <= anew_s <= 7.2
    # The next step shows the path's RTT.
    assert chooser.small_s == [anew_s]
    reason = chooser.reason(np.array([0]))
    assert "kept a queue" in chooser.reasons[int(reason.code[0])]
    assert reason.value[0] > 90.0


@pytest.mark.parametrize("drains_s", [0.15, 0.3, 9.0])
def test_the_window_is_small_until_the_queue_is_gone(drains_s: float) -> None:
    """A queue of 110 ms takes longer to drain where the window shrinks in steps, but not for ever."""
    chooser = Steered()
    rtt: Rtt = lambda t: (  # noqa: E731
        150.0
        if t > 5.0 and (not chooser.small_s or chooser.steps * STEP_S < chooser.small_s[0] + drains_s)
        else 40.0
    )
    run(rtt, duration_s=10.0, chooser=chooser, rate=lambda t: 1.0 if t < 5.0 else 0.3,
        total_lost=lambda t: max(0, int(30 * (t - 5.0))))  # fmt: skip
    small_s = len(chooser.small_s) * STEP_S
    # Two round trips with the queue, two without it, and 0.1 s.
    assert abs(small_s - min(drains_s, 0.48)) <= 2 * STEP_S


@pytest.mark.parametrize(
    ("constant", "share", "lost"), [(True, 0.3, False), (True, 0.5, True), (False, 0.5, True)]
)
def test_a_longer_path_or_a_share_that_another_took_brings_no_small_window(
    constant: bool, share: float, lost: bool
) -> None:
    """A constant RTT without a loss is a longer path's; half of the rate may be another flow's."""
    chooser = Steered()
    changes = times_s(run(
        queue_that_lasts(chooser, constant=constant), duration_s=14.0, chooser=chooser,
        rate=lambda t: 1.0 if t < 5.0 else share,
        total_lost=lambda t: max(0, int(30 * (t - 5.0))) * lost,
    )[:, 0])  # fmt: skip
    assert not chooser.anew_s
    assert changes[2][1] == BBR


def test_where_a_small_window_leaves_the_rtt_high_and_constant_the_path_is_longer() -> None:
    """A path with losses of its own. The arm began anew, so it goes on; at the next fall it begins again."""
    chooser = Steered()
    rtt: Rtt = lambda t: 40.0 if not 5.0 < t < 12.0 else 100.0  # noqa: E731
    lost = lambda t: max(0, int(30 * (t - 5.0)))  # noqa: E731
    arms = run(rtt, duration_s=20.0, chooser=chooser, rate=lambda t: 0.3 if t > 5.0 else 1.0, total_lost=lost)
    changes = times_s(arms[:, 0])
    assert [arm for _, arm in changes] == [BBR, LTP]
    first_s, second_s = chooser.anew_s
    assert first_s < 7.0
    assert second_s > 12.0


def test_a_queue_that_stays_when_the_steady_arm_leaves_none_is_another_s() -> None:
    """The RTT never falls below 100 ms from 5 s on, and moves by more than a tenth from look to look."""
    rng = np.random.default_rng(3)
    queue_ms = rng.uniform(60.0, 160.0, 1000)
    rtt: Rtt = lambda t: 40.0 + (float(queue_ms[int(t / 0.25)]) if t > 5.0 else 0.0)  # noqa: E731
    chooser = Steered()
    arms = run(rtt, duration_s=11.0, chooser=chooser, rate=lambda t: 1.0 if t < 5.0 else 0.3)
    changes = times_s(arms[:, 0])
    assert [arm for _, arm in changes][:3] == [BBR, LTP, BBR]
    (anew_s,) = chooser.anew_s
    assert 6.0 <= anew_s <= 7.2
    assert 0.2 <= changes[2][0] - anew_s < 1.2


def behind_a_queue(*, stands_under: set[int]) -> Callable[[float, int], tuple[float, float]]:
    """From 12 s on a queue of 60 ms and more, another length in each look, under these arms."""
    queue_ms = np.random.default_rng(3).uniform(60.0, 160.0, 1000)
    return lambda t, arm: (
        40.0 + (float(queue_ms[int(t / 0.25)]) if t > 12.0 and arm in stands_under else 0.0),
        1.0,
    )


def test_a_queue_behind_which_the_rate_stays_is_tested_by_bbr_once_in_ten_seconds() -> None:
    """Under LTP the RTT is never below 100 ms from 12 s on, and each look has another."""
    chooser = Steered()
    under = behind_a_queue(stands_under={LTP})
    changes = times_s(run(under=under, duration_s=19.0, chooser=chooser)[:, 0])
    assert [arm for _, arm in changes] == [BBR, LTP, BBR, LTP]
    assert 14.0 < changes[2][0] < 15.5
    back_s = changes[3][0]
    assert 2.0 <= back_s - changes[2][0] < 3.0
    # BBR found no other flow. Whatever queue it leaves, LTP begins without it.
    assert not chooser.anew_s
    assert 0.2 <= len(chooser.small_s) * STEP_S <= 0.7
    assert back_s <= min(chooser.small_s) <= back_s + 2 * STEP_S


def test_a_queue_that_bbr_cannot_empty_either_is_a_longer_path_which_it_probes() -> None:
    """LTP may overshoot on a path that has become longer: then its RTT is high, but not constant."""
    chooser = Steered()
    under = behind_a_queue(stands_under={LTP, BBR})
    changes = times_s(run(under=under, duration_s=30.0, chooser=chooser)[:, 0])
    assert [arm for _, arm in changes] == [BBR, LTP, BBR, LTP]
    # Two seconds of the test, and ten of the probe.
    assert 12.0 <= changes[3][0] - changes[2][0] < 13.5
    assert not chooser.small_s
