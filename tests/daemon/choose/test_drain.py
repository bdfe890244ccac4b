# SPDX-License-Identifier: Apache-2.0
"""The experiment with a queue that stands: its four outcomes, by itself and in the rule."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import numpy as np
import pytest
from support.rule_flows import BBR, LTP, STEP_S, UNCHECKED, VEGAS, Rtt, run, times_s

from ltp_switcher.arrays import ArmIds, Slots
from ltp_switcher.daemon.choose.chooser import Draw
from ltp_switcher.daemon.choose.path.looks import BDP, KERNEL_FLOOR, TIME_NS, Looks
from ltp_switcher.daemon.choose.rule.drain import AFTER, Drain, Outcome
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.choose.rule.states import NEXT, State
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.settings.rule_policy import RuleSection


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


def test_several_flows_that_have_emptied_their_own_queue_stay_with_the_steady_arm() -> None:
    """Their rate had not fallen by much, so the link is no slower."""

    class Siblings(Steered):
        def open(self, slots: Slots, paths: Sequence[str]) -> None:
            super().open(slots, ["192.0.2.0/24"] * len(paths))

    chooser = Siblings()
    queue = queue_that_lasts(chooser, constant=False)
    arms = run(queue, queue, duration_s=14.0, chooser=chooser, rate=lambda t: 1.0 if t < 5.0 else 0.6,
        total_lost=lambda t: max(0, int(30 * (t - 5.0))))  # fmt: skip
    assert len(chooser.anew_s) == 1
    assert [arm for _, arm in times_s(arms[:, 0])] == [BBR, LTP]
    assert "kept a queue" in chooser.reasons[int(chooser.reason(np.array([0])).code[0])]


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


def beside_a_rival(gain: float) -> Callable[[float, int], tuple[float, float]]:
    """From 8 s on a queue that LTP's window does not move. From 3 s on BBR has `gain` times LTP's rate."""
    queue_ms = np.random.default_rng(3).uniform(60.0, 160.0, 1000)
    return lambda t, arm: (
        40.0 + (float(queue_ms[int(t / 0.25)]) if t > 8.0 else 0.0),
        1.0 if t < 3.0 else 0.3 * (gain if arm == BBR else 1.0),
    )


def test_beside_a_rival_the_probing_arm_stays_and_longer_each_time() -> None:
    chooser = Steered()
    changes = times_s(run(under=beside_a_rival(2.0), duration_s=90.0, chooser=chooser)[:, 0])
    assert [arm for _, arm in changes][:5] == [BBR, LTP, BBR, LTP, BBR]
    stays_s = [end - at for (at, arm), (end, _) in pairwise(changes[2:]) if arm == BBR]
    # The run that asks lasts 2 s, and 15 s follow it, and then 30.
    assert 16.5 <= stays_s[0] <= 19.0
    assert 31.5 <= stays_s[1] <= 34.0


def test_a_rate_that_hardly_rises_shows_no_rival() -> None:
    """The RTT stays high under both arms, so the path is longer: BBR runs for 2 s, and then for 10."""
    chooser = Steered()
    changes = times_s(run(under=beside_a_rival(1.3), duration_s=25.0, chooser=chooser)[:, 0])
    assert [arm for _, arm in changes][:4] == [BBR, LTP, BBR, LTP]
    assert 11.5 <= changes[3][0] - changes[2][0] <= 14.0


class Made:
    """One player in slot 0 on a path of 40 ms and 1e6 bytes/s, after looks of a quarter of a second."""

    slot = np.array([0])

    def __init__(self) -> None:
        self.looks = Looks(zeta=5.0, kappa=2.0)
        self.drain = Drain(RuleSection())
        self.looks.grow(1)
        self.drain.grow(1)
        self.looks.floor_us[0], self.looks.top_Bps[0] = 40e3, 1e6
        self.now_ns = 1e9
        self.found = self.look(40.0, 1e6)

    def look(self, least_ms: float, rate: float) -> tuple[bool, bool, float]:
        """One more look: whether the path is shorter, or high and constant for long; seconds of it."""
        self.now_ns += 0.25e9
        self.looks.least_us[0], self.looks.rate_Bps[0] = 1e3 * least_ms, rate
        seen = np.zeros((15, 1))
        seen[[TIME_NS, BDP, KERNEL_FLOOR], 0] = self.now_ns, 100.0, 40e3
        fell, rose, high_s = self.drain.look(self.slot, self.looks, np.zeros(1), seen)
        return bool(fell[0]), bool(rose[0]), float(high_s[0])

    def at_ns(self) -> np.ndarray:
        return np.array([self.now_ns])

    def empty(self, *, constant: bool) -> None:
        """The steady arm empties the queue after the last look."""
        floor_us, least_us = self.looks.floor_us[:1], self.looks.least_us[:1]
        self.drain.empty(self.slot, self.looks, np.array([constant]), floor_us, least_us, self.at_ns())


@pytest.mark.parametrize(
    ("before", "constant", "then_ms", "outcome"),
    [
        (0.9, True, 44.0, Outcome.OWN_QUEUE),
        (0.3, True, 44.0, Outcome.SLOWER_LINK),
        (0.3, False, 49.0, Outcome.SLOWER_LINK),
        (0.9, False, 49.0, Outcome.OWN_QUEUE),
        (0.3, True, 52.0, Outcome.LONGER_PATH),
        (0.3, False, 52.0, Outcome.OPEN),
    ],
)
def test_an_emptied_queue_shows_its_cause(
    before: float, constant: bool, then_ms: float, outcome: Outcome
) -> None:
    """The floor is 40 ms, and 50 ms are no longer path."""
    made = Made()
    for _ in range(5):
        made.look(110.0, before * 1e6)
    made.empty(constant=constant)
    assert made.drain.begun(made.slot)[0]
    assert not made.drain.over(made.slot, made.at_ns())[0]
    # A round trip with the queue and another while it empties, 0.1 s, and two round trips without it.
    for _ in range(2):
        made.look(then_ms, 1e5)
    assert made.drain.over(made.slot, made.at_ns())[0]
    assert made.drain.emptied(made.slot, made.looks.floor_us[:1])[0] == outcome
    assert not made.drain.over(made.slot, made.at_ns())[0], "the time has ended once"


@pytest.mark.parametrize(
    ("before", "after", "then_ms", "alone", "outcome"),
    [
        (0.3, 0.5, 80.0, True, Outcome.RIVAL),
        (0.3, 0.5, 80.0, False, Outcome.RIVAL),
        (0.3, 0.5, 44.0, True, Outcome.RIVAL),
        (0.3, 0.44, 80.0, True, Outcome.LONGER_PATH),
        (0.3, 0.44, 80.0, False, Outcome.SLOWER_LINK),
        (0.3, 0.44, 49.0, True, Outcome.SLOWER_LINK),
        (0.9, 0.9, 49.0, True, Outcome.OWN_QUEUE),
        (0.9, 0.9, 51.0, True, Outcome.LONGER_PATH),
    ],
)
def test_a_run_of_the_probing_arm_shows_the_cause(
    before: float, after: float, then_ms: float, alone: bool, outcome: Outcome
) -> None:
    made = Made()
    made.drain.other_arm(made.slot)
    for _ in range(8):
        made.look(110.0, before * 1e6)
    made.drain.ask(made.slot, made.looks)
    made.drain.other_arm(made.slot)
    # The first looks of the run, and those in which the application pauses, do not count.
    for rate in (0.0, 0.0, after, np.nan, after, after):
        made.look(then_ms, rate * 1e6)
    assert made.drain.asked(made.slot, made.looks.floor_us[:1], np.array([alone]))[0] == outcome
    assert made.drain.gain(made.slot)[0] == pytest.approx(after / before)
    assert made.drain.lowest_us(made.slot)[0] == 1e3 * then_ms


@pytest.mark.parametrize(
    ("rate", "constant", "lost", "several", "due"),
    [
        (0.39, False, 0, False, True),
        (0.41, False, 0, False, False),
        (0.41, False, 0, True, True),
        (0.39, True, 0, False, False),
        (0.39, True, 1, False, True),
        (0.41, True, 1, True, True),
    ],
)
def test_a_queue_is_emptied_only_where_it_may_be_the_players_own(
    rate: float, constant: bool, lost: int, several: bool, due: bool
) -> None:
    made = Made()
    made.look(110.0, rate * 1e6)
    made.looks.lost_pkts[0] = lost

    def is_due(later_s: float = 0.0) -> bool:
        now_ns = made.at_ns() + later_s * 1e9
        flags = np.array([constant]), np.array([several])
        return bool(made.drain.due(made.slot, made.looks, *flags, now_ns)[0])

    assert is_due() is due
    made.empty(constant=constant)
    assert not is_due(9.9)
    assert is_due(10.1) is due


def test_the_time_beside_a_rival_doubles_up_to_sixteen_times() -> None:
    drain = Drain(RuleSection())
    drain.grow(1)
    assert [float(drain.rest_s(np.array([0]))[0]) for _ in range(6)] == [15, 30, 60, 120, 240, 240]


def test_a_high_rtt_counts_after_a_second_if_it_is_constant() -> None:
    made = Made()
    assert made.found[:2] == (False, False)
    assert np.isnan(made.found[2])
    told = [made.look(ms, 1e6) for ms in (80.0, 84.0, 76.0, 80.0, 80.0, 95.0, 95.0)]
    assert [rose for _, rose, _ in told] == [False] * 4 + [True, False, False]
    assert told[-1][2] == pytest.approx(1.5), "high since the first of them"
    assert made.look(31.0, 1e6)[0], "32 ms times 1.25 are the floor"
    assert not made.look(33.0, 1e6)[0]
    made.look(80.0, 1e6)
    made.drain.forget(made.slot)
    assert np.isnan(made.look(80.0, 1e6)[2])


def test_every_outcome_has_a_state_that_the_rule_allows() -> None:
    for (before, _), after in AFTER.items():
        assert after in NEXT[before]
    assert {found for _, found in AFTER} == set(Outcome)
    asked = set(Outcome) - {Outcome.OPEN}
    assert {found for before, found in AFTER if before == State.ASKS} == asked
    assert {found for before, found in AFTER if before == State.DRAINS} == set(Outcome) - {Outcome.RIVAL}
    assert {before for before, _ in AFTER} == {State.STEADY, State.DRAINS, State.ASKS}
