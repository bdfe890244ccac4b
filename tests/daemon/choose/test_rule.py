# SPDX-License-Identifier: Apache-2.0
"""The rule on paths made of numbers: its picks, their times, and its errors."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from support.records import record
from support.rule_flows import (
    BBR,
    LTP,
    RATE_PPS,
    STEP_S,
    UNCHECKED,
    VEGAS,
    Rtt,
    run,
    step_at,
    times_s,
)  # fmt: skip

from ltp_switcher.arrays import ArmIds, Slots
from ltp_switcher.daemon.choose.chooser import Draw
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.datapath.protocol import FlowFlags
from ltp_switcher.daemon.settings.rule_policy import RuleSection


@pytest.mark.parametrize(("peak", "then"), [(1.0, LTP), (5.5, LTP), (6.5, VEGAS), (20.0, VEGAS)])
def test_after_two_seconds_of_bbr_or_a_high_rtt_the_ratio_of_the_rtts_decides(peak: float, then: int) -> None:
    arms = run(lambda t: 40.0 * (peak if 0.5 < t < 0.9 else 1.0))
    (first_s, first), (second_s, second) = times_s(arms[:, 0])
    assert (first, second) == (BBR, then)
    assert first_s == pytest.approx(STEP_S)
    earliest_s = 2.0 if then == LTP else 0.5
    assert earliest_s <= second_s <= earliest_s + 0.5


@given(
    st.lists(
        st.tuples(st.floats(2.0, 300.0), st.floats(1.0, 12.0), st.integers(0, 10**6)), min_size=1, max_size=6
    )
)
@settings(max_examples=15, deadline=None)
def test_flows_together_get_what_each_gets_alone(paths: list[tuple[float, float, int]]) -> None:
    def rtt(base_ms: float, peak: float, seed: int) -> Rtt:
        height = np.random.default_rng(seed).uniform(1.0, peak, 1000)
        return lambda t: base_ms * float(height[int(t / STEP_S)])

    rtts = [rtt(*path) for path in paths]
    together = run(*rtts, duration_s=5.0)
    alone = np.hstack([run(one, duration_s=5.0) for one in rtts])
    np.testing.assert_array_equal(together, alone)


@given(st.floats(5.0, 100.0), st.floats(1.4, 8.0))
@settings(max_examples=25, deadline=None)
def test_a_rise_of_the_rtt_brings_bbr_and_then_the_choice_anew(low_ms: float, factor: float) -> None:
    # LTP keeps 2.5 ms of queue on every path.
    assume(low_ms * (factor - 1.0) > 2.6)
    high_ms = low_ms * factor
    steps = (low_ms, high_ms)
    chooser = RuleChooser([BBR, LTP, VEGAS], dataclasses.replace(UNCHECKED, queue_pkts=0.0))
    arms = run(step_at(12.0, *steps), duration_s=34.0, chooser=chooser)
    changes = times_s(arms[:, 0])
    assert [arm for _, arm in changes] == [BBR, LTP, BBR, LTP]
    back_s, again_s = changes[2][0], changes[3][0]
    # Two looks show it, each a quarter of a second and two round trips, and a rise lasts a second.
    assert 12.0 <= back_s <= 12.0 + 1.0 + 4 * max(0.25, 2 * high_ms / 1e3) + 2 * STEP_S
    assert 10.0 <= again_s - back_s <= 10.0 + max(0.25, 2 * high_ms / 1e3) + 2 * STEP_S


@pytest.mark.parametrize(("first_ms", "then_ms", "fell"), [(100.0, 40.0, True), (40.0, 100.0, False)])
def test_after_a_fall_of_the_rtt_the_steady_arm_begins_anew_without_the_queue(
    first_ms: float, then_ms: float, fell: bool
) -> None:
    """At once, for three round trips, and at no other time. After a rise BBR probes the path."""
    seen: list[tuple[float, int, bool, bool]] = []

    class Watched(RuleChooser):
        def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Draw:
            decision = super().step(slots, records, given)
            small, anew = bool(self.drains(slots, records)[0]), bool(self.begins_anew(slots)[0])
            seen.append((len(seen) * STEP_S, int(decision.arms[0]), small, anew))
            return decision

    chooser = Watched([BBR, LTP, VEGAS], dataclasses.replace(UNCHECKED, queue_pkts=0.0))
    run(step_at(12.0, first_ms, then_ms), duration_s=27.0, chooser=chooser)
    arms = [arm for (_, arm, *_), (_, before, *_) in zip(seen[1:], seen, strict=False) if arm != before]
    assert arms == ([LTP] if fell else [LTP, BBR, LTP])
    small_s = [at_s for at_s, _, small, _ in seen if small]
    anew_s = [at_s for at_s, *_, anew in seen if anew]
    assert bool(small_s) == bool(anew_s) == fell
    if fell:
        assert len(anew_s) == 1
        assert 12.0 < anew_s[0] <= 12.0 + 2 * 0.25 + 2 * STEP_S
        assert min(small_s) == anew_s[0]
        assert 0.08 <= len(small_s) * STEP_S <= 0.16, "three round trips of 40 ms, but for a step"
        assert max(small_s) - min(small_s) < 0.16


def test_a_fall_of_the_rtt_is_noticed_while_the_earlier_arms_queue_drains() -> None:
    """The steady arm begins at 2 s. Its ten round trips last a second, and its own queue hides the fall."""
    anew_s: list[float] = []

    class Watched(RuleChooser):
        def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Draw:
            draw = super().step(slots, records, given)
            if self.begins_anew(slots)[0]:
                anew_s.append(float(records["time_ns"][0]) * 1e-9 - 5.0)
            return draw

    def rtt(t: float) -> float:
        return 100.0 if t < 2.2 else 60.0 if t < 2.45 else 95.0

    run(rtt, duration_s=8.0, chooser=Watched([BBR, LTP, VEGAS], UNCHECKED))
    assert len(anew_s) == 1
    assert 2.2 < anew_s[0] < 2.8


@pytest.mark.parametrize(("left", "then"), [(1.0, [BBR, VEGAS, LTP]), (0.02, [BBR, VEGAS])])
def test_the_steady_arm_empties_a_queue_that_is_the_careful_arms_own(left: float, then: list[int]) -> None:
    """With 2 % of the rate only two packets of the queue are the arm's own."""

    def path(t: float, arm: int) -> tuple[float, float]:
        if t < 5.0 or arm == LTP:
            return 400.0 if 0.5 < t < 0.9 else 40.0, 1.0
        return 80.0 + 60.0 * (t % 1.2), left

    changes = times_s(run(under=path, duration_s=16.0)[:, 0])
    assert [arm for _, arm in changes] == then
    if LTP in then:
        assert 7.0 < changes[-1][0] < 9.0


@pytest.mark.parametrize(("under_bbr_ms", "probes_s"), [(40.0, 0.6), (43.0, 0.6), (50.0, 10.5), (80.0, 10.5)])
def test_a_rise_that_was_a_queue_ends_when_the_old_rtt_is_seen(under_bbr_ms: float, probes_s: float) -> None:
    """The careful arm's queue stands and is constant, as on a longer path. BBR then shows the RTT."""

    def path(t: float, arm: int) -> tuple[float, float]:
        if t < 5.0:
            return 400.0 if 0.5 < t < 0.9 else 40.0, 1.0
        return 80.0 if arm == VEGAS else under_bbr_ms, 1.0

    changes = times_s(run(under=path, duration_s=18.0)[:, 0])
    assert [arm for _, arm in changes] == [BBR, VEGAS, BBR, LTP]
    lasted_s = changes[3][0] - changes[2][0]
    assert lasted_s < probes_s if probes_s < 10.0 else 10.0 <= lasted_s < probes_s


def test_an_arm_that_starved_before_a_rise_that_was_a_queue_stays_barred() -> None:
    """The rule returns to the path that it knew. So BBR, which has shown more, runs on."""

    def path(t: float, arm: int) -> tuple[float, float]:
        if arm == LTP:
            return 40.0, 0.1
        if arm == VEGAS and t > 12.0:
            return 80.0, 1.0
        return 400.0 if 4.0 < t < 4.4 else 40.0, 1.0

    chooser = RuleChooser([BBR, LTP, VEGAS], RuleSection(without=("no-queue",)))
    changes = times_s(run(under=path, duration_s=26.0, chooser=chooser)[:, 0])
    assert [arm for _, arm in changes] == [BBR, LTP, BBR, VEGAS, BBR]


@pytest.mark.parametrize(("left", "then"), [(0.6, [BBR, LTP]), (0.4, [BBR, LTP, BBR, LTP])])
def test_after_a_fall_of_rate_and_rtt_bbr_probes(left: float, then: list[int]) -> None:
    """A queue has drained, and the small window that it left would grow slowly."""
    arms = run(step_at(12.0, 100.0, 40.0), duration_s=18.0, rate=lambda t: 1.0 if t < 11.8 else left)
    assert [arm for _, arm in times_s(arms[:, 0])] == then


def test_the_growth_of_an_arm_that_begins_anew_is_no_swing() -> None:
    """The rate grows by half from look to look, and falls twice: within three seconds of the fall."""
    fall_s = 12.0

    def rate(t: float) -> float:
        since = t - fall_s - 0.6
        return 1.0 if since < 0 or since > 3.0 else (0.4, 0.7, 1.0, 0.6)[int(since / 0.27) % 4]

    arms = run(step_at(fall_s, 100.0, 40.0), duration_s=27.0, rate=rate)
    assert [arm for _, arm in times_s(arms[:, 0])] == [BBR, LTP]


def test_a_steady_flow_whose_rate_swings_gets_the_careful_arm() -> None:
    """A rate that halves and doubles is seen within ten looks; a step or a climb never is."""
    swinging = run(lambda _: 40.0, duration_s=9.0, rate=lambda t: 0.5 if t > 4.0 and t % 0.6 < 0.3 else 1.0)
    (_, first), (_, second), (third_s, third) = times_s(swinging[:, 0])
    assert (first, second, third) == (BBR, LTP, VEGAS)
    assert 4.0 < third_s <= 4.0 + 10 * 0.3
    for path in (
        lambda t: 0.3 if t > 4.0 else 1.0,
        lambda t: min(1.0, 0.2 * 1.3 ** max(0.0, (t - 4.0) / 0.3)),
    ):
        arms = run(lambda _: 40.0, duration_s=9.0, rate=path)[:, 0]
        assert [arm for _, arm in times_s(arms)][:2] == [BBR, LTP]
        assert VEGAS not in arms


@pytest.mark.parametrize(
    ("peak", "lost", "then"), [(2.0, 0.1, BBR), (7.0, 0.06, BBR), (2.0, 0.0, VEGAS), (7.0, 0.0, VEGAS)]
)
def test_bbr_stays_where_the_rate_varies_behind_a_short_buffer(peak: float, lost: float, then: int) -> None:
    """A slow spell lifts the RTT behind a short buffer, too. At 9 s the second path has lost but 1.3 %."""
    arms = run(
        lambda t: 40.0 * (peak if 0.5 < t < 1.5 else 1.0),
        duration_s=9.0,
        rate=lambda t: 0.5 if t % 0.6 < 0.3 else 1.0,
        total_lost=lambda t: int(2000 * lost * min(t, 1.5)),
    )
    assert arms[-1, 0] == then


def test_the_careful_arms_short_queue_says_nothing_of_the_buffer() -> None:
    """A path whose RTT varied has Vegas, and loses packets from 3 s on. From 4 s on its rate swings."""
    arms = run(
        lambda t: 400.0 if 0.5 < t < 0.9 else 40.0,
        duration_s=9.0,
        rate=lambda t: 0.8 if t > 4.0 and t % 0.6 < 0.3 else 1.0,
        total_lost=lambda t: int(800 * max(0.0, t - 3.0)),
    )
    assert [arm for _, arm in times_s(arms[:, 0])] == [BBR, VEGAS]


def test_a_path_of_fewer_packets_than_bbrs_window_is_probed_for_half_a_second() -> None:
    """At 2,000 packets a second, 1.5 ms hold three. A queue of 6 ms stands under BBR."""
    under_bbr: list[Rtt] = [lambda t: 1.5 + 6.0 * (t > 0.1), lambda t: 2.5 + 6.0 * (t > 0.1)]
    few, more = run(*under_bbr, duration_s=4.0).T
    assert 0.3 < times_s(few)[1][0] < 1.0
    assert times_s(more)[1][0] >= 2.0


def test_losses_of_bbrs_least_window_say_nothing_of_the_buffer() -> None:
    """The paths hold 3 and 10 packets. A tenth is lost, and the highest RTT is ten times the lowest."""
    few, more = run(
        *((lambda t, ms=ms: ms * (1.0 + 9.0 * (0.1 < t < 1.5))) for ms in (1.5, 5.0)),  # type: ignore[misc]
        duration_s=4.0,
        total_lost=lambda t: int(200 * t),
    ).T
    assert (few[-1], more[-1]) == (VEGAS, BBR)


@pytest.mark.parametrize(("rate_pps", "then"), [(150.0, LTP), (2000.0, VEGAS)])
def test_a_swing_of_two_packets_is_no_swing(rate_pps: float, then: int) -> None:
    """Every other look has 6 % more packets: 2 of 40 where the path is slow, 32 of 540 where it is fast."""

    def rate(t: float) -> float:
        return rate_pps / RATE_PPS * (1.03 if t % 0.54 < 0.27 else 0.97)

    assert run(lambda _: 40.0, duration_s=9.0, rate=rate)[-1, 0] == then


def test_pauses_of_the_application_are_no_swings() -> None:
    idle = lambda t: FlowFlags.APP_LIMITED if t % 0.6 < 0.3 else 0  # noqa: E731
    arms = run(lambda _: 40.0, duration_s=9.0, rate=lambda t: 0.5 if t % 0.6 < 0.3 else 1.0, flags=idle)
    assert [arm for _, arm in times_s(arms[:, 0])] == [BBR, LTP]


def test_rates_and_queues_under_the_arms_of_team_selection_say_nothing_of_the_path() -> None:
    def pulled(t: float) -> bool:
        return t > 4.0 and t % 1.5 < 0.9

    class Pulled(RuleChooser):
        def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Draw:
            now_s = (records["time_ns"].astype(np.float64) - 5e9) * 1e-9
            return super().step(slots, records, np.array([pulled(t) for t in now_s], np.uint8))

    paths: tuple[Rtt, ...] = (lambda _: 40.0), (lambda t: 60.0 if pulled(t) else 40.0)
    for rtt in paths:
        world = {"duration_s": 15.0, "rate": lambda t: 0.5 if pulled(t) else 1.0}
        judged = times_s(run(rtt, **world)[:, 0])
        assert [arm for _, arm in judged] != [BBR, LTP], "the rule alone takes it for the path"
        blind = run(rtt, chooser=Pulled([BBR, LTP, VEGAS], UNCHECKED), **world)
        assert [arm for _, arm in times_s(blind[:, 0])] == [BBR, LTP]


def test_on_a_path_that_varies_a_lower_rtt_is_no_other_path() -> None:
    def rtt(t: float) -> float:
        return 400.0 if 0.5 < t < 0.9 else 40.0 if t < 5.0 else 30.0

    assert [arm for _, arm in times_s(run(rtt)[:, 0])] == [BBR, VEGAS]


def test_a_path_that_loses_packets_without_a_queue_gets_the_steady_arm() -> None:
    """Reno's window is 1.22 / sqrt(p) packets: with 0.1 % of loss, 39; here the path holds 88 or 9."""
    varying: Rtt = lambda t: 400.0 if 0.5 < t < 0.9 else 40.0  # noqa: E731
    short: Rtt = lambda t: 40.0 if 0.5 < t < 0.9 else 4.0  # noqa: E731
    lossy = run(varying, short, lost=lambda _: 0.001, rate=lambda _: 1.1)
    assert [arm for _, arm in times_s(lossy[:, 0])] == [BBR, LTP]
    assert [arm for _, arm in times_s(lossy[:, 1])] == [BBR, VEGAS]
    (_, first), (_, second), (third_s, third) = times_s(run(varying, lost=lambda t: 0.001 * (t > 5.0))[:, 0])
    assert (first, second, third) == (BBR, VEGAS, LTP)
    assert third_s > 5.0


def test_losses_in_a_queue_that_the_flow_found_are_no_losses_without_one() -> None:
    """While that queue drains, each RTT is the lowest so far: the kernel sees no queue at any loss."""
    arms = run(lambda t: max(40.0, 2000.0 * 0.2**t), lost=lambda t: 0.02 * (t < 1.5))
    assert [arm for _, arm in times_s(arms[:, 0])] == [BBR, VEGAS]


def test_losses_of_a_later_flow_in_a_queue_are_no_losses_without_one() -> None:
    """The first flow has seen the empty path. The later one has not, and the kernel counts for it alone."""

    class Queued(RuleChooser):
        def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Draw:
            late = records["cookie"] == 2
            records["rtt_floor_us"][late] = 2_000_000
            records["bdp"][late] = 4000
            records["lost_without_queue"][~late] = 0
            return super().step(slots, records, given)

        def open(self, slots: Slots, prefixes: Sequence[str]) -> None:
            super().open(slots, ["" for _ in prefixes])

    def rtt(t: float) -> float:
        return 400.0 if 0.5 < t < 0.9 else 2000.0 if 5.0 < t < 8.0 else 40.0

    chooser = Queued([BBR, LTP, VEGAS], UNCHECKED)
    arms = run(rtt, rtt, lost=lambda t: 0.02 * (5.0 < t < 8.0), chooser=chooser)
    assert [arm for _, arm in times_s(arms[:, 0])] == [BBR, VEGAS]


def test_a_slow_start_is_no_swing_and_goes_on_under_bbr() -> None:
    arms = run(lambda _: 40.0, duration_s=9.0, rate=lambda t: min(1.0, 0.1 * 1.25 ** (t / 0.3)))
    (_, first), (second_s, second) = times_s(arms[:, 0])
    assert (first, second) == (BBR, LTP)
    # It grows by a quarter each 0.3 s, until log(10) / log(1.25) such times are over.
    assert 3.0 < second_s < 4.0


def test_nothing_is_decided_while_the_queue_is_emptied() -> None:
    rose = step_at(5.0, 30.0, 100.0)
    draining = lambda t: FlowFlags.DRAINING if 4.9 < t < 8.0 else 0  # noqa: E731
    changes = times_s(run(rose, flags=draining)[:, 0])
    assert [arm for _, arm in changes][:3] == [BBR, LTP, BBR]
    assert changes[2][0] > 8.0
    held = run(lambda _: 30.0, flags=lambda t: FlowFlags.DRAINING if t < 4.0 else 0)
    assert times_s(held[:, 0])[1][0] > 4.0


def test_nothing_is_decided_in_a_look_that_began_with_an_emptied_queue() -> None:
    """After BBR's ProbeRTT the path is not full for a round trip. A look ends at 2.16 s."""
    for drains_s, then_s in ((1.0, 2.16), (2.0, 2.43)):
        flags = lambda t, at=drains_s: FlowFlags.DRAINING if abs(t - at) < 0.08 else 0  # noqa: E731
        changes = times_s(run(lambda _: 30.0, flags=flags, duration_s=4.0)[:, 0])
        assert [arm for _, arm in changes] == [BBR, LTP]
        assert changes[1][0] == pytest.approx(then_s)


@pytest.mark.parametrize(
    ("pool", "steady", "varying"),
    [
        ([BBR, LTP, VEGAS], [BBR, LTP], [BBR, VEGAS]),
        ([BBR, VEGAS], [BBR], [BBR, VEGAS]),
        ([LTP, 1], [LTP], [LTP]),
        ([1, 4], [1], [1]),
        ([9], [9], [9]),
    ],
)
def test_a_role_without_its_arm_goes_to_another_of_the_pool(
    pool: list[int], steady: list[int], varying: list[int]
) -> None:
    chooser = RuleChooser(pool, UNCHECKED)
    arms = run(lambda _: 30.0, lambda t: 300.0 if 0.3 < t < 0.8 else 30.0, duration_s=4.0, chooser=chooser)
    assert [arm for _, arm in times_s(arms[:, 0])] == steady
    assert [arm for _, arm in times_s(arms[:, 1])] == varying


def test_a_prefix_is_known_for_what_probing_has_shown_until_it_is_probed_again() -> None:
    """A flow begins with the careful arm of its prefix, never the steady one; after ten minutes it probes."""
    chooser = RuleChooser([BBR, LTP, VEGAS], UNCHECKED)

    def arms(prefix: str, rtt: Rtt, at_s: float) -> list[int]:
        slots = np.array([0])
        chooser.open(slots, [prefix])
        told: list[int] = []
        for step in range(1, 120):
            rtt_us = round(rtt(step * STEP_S) * 1e3)
            made = record(
                1, time_ns=int((at_s + step * STEP_S) * 1e9), interval_ns=int(STEP_S * 1e9), rtt_samples=1,
                srtt_us=rtt_us, mss=1448, total_delivered=60 * step, rtt_floor_us=30_000, round_trips=step,
            )  # fmt: skip
            made["rtt_stat"] = made["srtt_stat"] = (rtt_us, rtt_us, rtt_us)
            told.append(int(chooser.step(slots, made).arms[0]))
        chooser.close(slots)
        return [arm for _, arm in times_s(np.array(told))]

    varying: Rtt = lambda t: 300.0 if 0.5 < t < 1.0 else 30.0  # noqa: E731
    assert arms("a", varying, 100.0) == [BBR, VEGAS]
    assert arms("a", lambda _: 30.0, 110.0) == [VEGAS]
    assert arms("b", lambda _: 30.0, 120.0) == [BBR, LTP]
    assert arms("a", lambda _: 30.0, 701.0) == [VEGAS]
    assert arms("a", lambda _: 30.0, 720.0) == [BBR, LTP]
    assert arms("a", varying, 730.0) == [BBR, VEGAS]
    assert arms("a", varying, 740.0) == [VEGAS]
    # The lowest RTT falls whenever the queue does.
    assert arms("a", lambda t: 60.0 if t < 2.0 else 30.0, 750.0) == [VEGAS]


def test_what_probing_has_shown_is_told_once() -> None:
    chooser = RuleChooser([BBR, LTP, VEGAS], UNCHECKED)
    run(lambda _: 40.0, duration_s=1.0, chooser=chooser)
    assert chooser.starts() == {}
    chooser.close(np.arange(1))
    run(lambda t: 40.0 if t < 0.5 else 400.0, duration_s=3.0, chooser=chooser)
    assert chooser.starts() == {"": VEGAS}
    assert chooser.starts() == {}


def test_a_flow_may_have_a_pool_of_its_own_and_a_slot_comes_again() -> None:
    chooser = RuleChooser([BBR, LTP, VEGAS], UNCHECKED)
    chooser.open(np.arange(2), ["", ""])
    chooser.set_pool([1], np.array([1]))
    records = np.concatenate([record(1, time_ns=10**9), record(2, time_ns=10**9)])
    assert chooser.step(np.arange(2), records).arms.tolist() == [BBR, 1]
    chooser.close(np.array([1]))
    chooser.open(np.array([1]), [""])
    assert chooser.step(np.arange(2), records).arms.tolist() == [BBR, BBR]
    chooser.set_pool([VEGAS])
    assert chooser.step(np.arange(2), records).arms.tolist() == [VEGAS, VEGAS]
    assert chooser.pool == (VEGAS,)


def test_the_arm_of_a_pinned_flow_is_left_alone() -> None:
    chooser = RuleChooser([BBR, LTP, VEGAS], UNCHECKED)
    slots = np.array([0])
    chooser.open(slots, [""])
    pinned = record(1, time_ns=10**9, arm=4, want_arm=4, flags=FlowFlags.PINNED | FlowFlags.STEERED)
    assert chooser.step(slots, pinned).arms.tolist() == [4]


def test_the_reward_is_the_share_of_the_best_that_the_path_has_shown() -> None:
    """At the path's full rate and lowest RTT it is 1; at twice that RTT, a half of it."""
    chooser = RuleChooser([BBR], UNCHECKED)
    slots = np.array([0])
    chooser.open(slots, [""])
    rewards = []
    for step in range(1, 200):
        rtt_us = 40_000 if step < 100 else 80_000
        made = record(
            1, time_ns=step * 30_000_000, interval_ns=30_000_000, rtt_samples=1, srtt_us=rtt_us, mss=1448,
            total_delivered=60 * step, rtt_floor_us=40_000, round_trips=100,
        )  # fmt: skip
        made["rtt_stat"] = made["srtt_stat"] = (rtt_us, rtt_us, rtt_us)
        rewards.append(float(chooser.step(slots, made).reward[0]))
    assert np.isnan(rewards[0])
    assert rewards[90] == pytest.approx(1.0, abs=0.01)
    assert rewards[-1] == pytest.approx(0.5, abs=0.01)


def queue_at(at_s: float, ratio: float = 1.3) -> Rtt:
    """A path of 40 ms on which a queue stands at this time, for half a second."""
    return lambda t: 40.0 * ratio if at_s < t < at_s + 0.5 else 40.0


CHECKED = dataclasses.replace(UNCHECKED, without=())


def test_the_probing_arm_stays_where_it_keeps_no_queue() -> None:
    """Another arm could gain nothing there, whatever keeps the flow from filling the path."""
    chooser = RuleChooser([BBR, LTP, VEGAS], CHECKED)
    arms = run(queue_at(12.0), duration_s=16.0, chooser=chooser)
    (_, first), (then_s, then) = times_s(arms[:, 0])
    assert (first, then) == (BBR, LTP)
    assert 12.0 <= then_s <= 12.6


@pytest.mark.parametrize(("busy_s", "then"), [(0.3, BBR), (0.6, VEGAS)])
def test_the_probing_arm_stays_while_the_application_pauses(busy_s: float, then: int) -> None:
    """Where each request is followed by a pause, BBR stays on a path whose RTT varies."""
    chooser = RuleChooser([BBR, LTP, VEGAS], CHECKED)
    arms = run(
        lambda t: 400.0 if 0.6 < t < 0.9 else 40.0,
        duration_s=8.0,
        chooser=chooser,
        busy=lambda t: t % 0.6 < busy_s,
    )
    assert arms[-1, 0] == then


def test_a_download_after_the_requests_ends_the_probing_arms_stay() -> None:
    chooser = RuleChooser([BBR, LTP, VEGAS], CHECKED)
    arms = run(
        lambda t: 400.0 if 0.6 < t < 0.9 else 40.0,
        duration_s=60.0,
        chooser=chooser,
        busy=lambda t: t > 30.0 or t % 0.6 < 0.3,
    )
    (_, first), (then_s, then) = times_s(arms[:, 0])
    assert (first, then) == (BBR, VEGAS)
    assert 30.0 < then_s < 40.0


@given(st.floats(1.0, 1.3))
@settings(max_examples=15, deadline=None)
def test_a_queue_is_a_tenth_of_the_lowest_rtt(ratio: float) -> None:
    assume(abs(ratio - 1.1) > 0.001)
    chooser = RuleChooser([BBR, LTP, VEGAS], CHECKED)
    arms = run(queue_at(1.0, ratio), duration_s=4.0, chooser=chooser)
    assert arms[-1, 0] == (LTP if ratio > 1.1 else BBR)


@pytest.mark.parametrize(("share", "then"), [(0.015, BBR), (0.025, LTP)])
def test_where_packets_are_lost_the_probing_arm_does_not_stay(share: float, then: int) -> None:
    """A policer, or a buffer of few packets, loses them without a queue that the RTT shows."""
    chooser = RuleChooser([BBR, LTP, VEGAS], CHECKED)
    arms = run(
        lambda _: 40.0,
        duration_s=4.0,
        chooser=chooser,
        total_lost=lambda t: int(RATE_PPS * share / (1 - share) * t),
    )
    assert arms[-1, 0] == then
