# SPDX-License-Identifier: Apache-2.0
"""Queues on the way back, and the trials of the filling arm that follow."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from support import rule_flows
from support.records import record
from support.rule_flows import BBR, LTP, STEP_S, VEGAS, Asked, times_s

from ltp_switcher.daemon.choose.rule.roles import FILLING, FILLS
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.choose.rule.surprise import Surprise
from ltp_switcher.daemon.datapath.commands import commands_for
from ltp_switcher.daemon.datapath.protocol import ArmId, FlowFlags, HandoverMode, PulseKind
from ltp_switcher.daemon.settings.rule_policy import RuleSection

CUBIC = int(ArmId.CUBIC)
FLOOR_MS, QUEUED_MS, FULL_MS = 40.0, 70.0, 160.0
SLOT = np.array([0])
run = partial(rule_flows.run, back=lambda _: 1.0)


class SlowWayBack:
    """A path whose ACKs wait. BBR has 0.2 of the rate and a short queue, and the others have 0.2 without one.
    Cubic has that, too, with a long queue, until it has run for `grows_s`. Then it has `filled` of the rate.
    `pauses` empties the queue under BBR every half second. BBR's rate grows by the factor `gains` a second.
    """

    def __init__(
        self, filled: float = 1.0, *, grows_s: float = 4.0, pauses: bool = False, gains: float = 1.0
    ) -> None:
        self._filled, self._grows_s, self._pauses, self._gains = filled, grows_s, pauses, gains
        self._began_s = np.inf

    def __call__(self, t: float, arm: int) -> tuple[float, float]:
        self._began_s = min(self._began_s, t) if arm == CUBIC and t > 0.3 else np.inf
        if t < 0.3:
            return FLOOR_MS, 0.1
        if arm == CUBIC:
            return FULL_MS, self._filled if t - self._began_s > self._grows_s else 0.2
        if arm == BBR:
            empty = self._pauses and t % 1.0 > 0.5
            return (FLOOR_MS if empty else QUEUED_MS), min(0.2 * self._gains**t, 1.0)
        return FLOOR_MS, 0.2


def filling(pool: tuple[int, ...] = (BBR, LTP, VEGAS), **settings: bool | tuple[str, ...]) -> RuleChooser:
    return RuleChooser(list(pool), RuleSection(**settings))  # type: ignore[arg-type]


def after_start(arms: np.ndarray) -> list[int]:
    """The arms of one flow after the kernel's own start on Cubic."""
    return [arm for _, arm in times_s(arms[:, 0])]


def trials_s(arms: np.ndarray) -> list[float]:
    """How long each run of Cubic lasted that has ended, in seconds."""
    return [end - at for (at, arm), (end, _) in pairwise(times_s(arms[:, 0])) if arm == CUBIC and at > STEP_S]


def test_the_filling_arm_stays_where_it_earns_more_than_the_others() -> None:
    assert FILLS == CUBIC
    chooser = filling()
    arms = run(under=SlowWayBack(), duration_s=30.0, chooser=chooser)
    assert after_start(arms) == [BBR, CUBIC]
    # Three looks have to show the queue, and BBR's usual start has not ended by then.
    assert times_s(arms[:, 0])[1][0] < 2.0 + STEP_S
    why = chooser.reason(SLOT)
    assert chooser.reasons[why.code[0]].startswith(
        "ACKs waited on the way back, and this arm earned {value:.1f} times as much"
    )
    # Five times the rate at 160 instead of 70 ms.
    assert why.value[0] == pytest.approx(25.0 * QUEUED_MS / FULL_MS, rel=0.05)


def test_the_queue_of_acks_is_told_while_the_trial_lasts() -> None:
    chooser = filling()
    run(under=SlowWayBack(), duration_s=4.0, chooser=chooser)
    why = chooser.reason(SLOT)
    assert chooser.reasons[why.code[0]].startswith("ACKs waited for {value:.0f} ms on the way back")
    assert why.value[0] == pytest.approx(QUEUED_MS - FLOOR_MS)


def test_a_trial_that_shows_no_more_ends_after_ten_seconds_and_comes_again_late() -> None:
    arms = run(under=SlowWayBack(0.2), duration_s=60.0, chooser=filling())
    assert after_start(arms)[:3] == [BBR, CUBIC, LTP]
    assert trials_s(arms) == pytest.approx([10.0] * len(trials_s(arms)), abs=0.5)
    assert len(trials_s(arms)) <= 2


class DeepWayBack(SlowWayBack):
    """Cubic's queue of ACKs grows by 40 ms a second for `grows_s`, until no more ACKs fit into it. From then
    on the rate grows by half each second, up to `filled`.
    """

    def __call__(self, t: float, arm: int) -> tuple[float, float]:
        before = super().__call__(t, arm)
        if arm != CUBIC or t < 0.3:
            return before
        ran_s = t - self._began_s
        rate = min(0.2 * 1.5 ** max(ran_s - self._grows_s, 0.0), self._filled)
        return QUEUED_MS + 40.0 * min(ran_s, self._grows_s), rate


def test_a_trial_goes_on_while_the_queue_of_acks_grows_and_then_the_rate() -> None:
    """The queue is full after 12 s, and the rate is Cubic's 16 s after its begin."""
    arms = run(under=DeepWayBack(grows_s=12.0), duration_s=40.0, chooser=filling())
    assert after_start(arms) == [BBR, CUBIC]


@pytest.mark.parametrize(("grows_s", "lasts_s"), [(12.0, (12.0, 16.0)), (99.0, (20.0, 22.0))])
def test_a_trial_ends_where_the_rate_does_not_grow_though_the_queue_is_full(
    grows_s: float, lasts_s: tuple[float, float]
) -> None:
    arms = run(under=DeepWayBack(0.2, grows_s=grows_s), duration_s=60.0, chooser=filling())
    assert lasts_s[0] <= trials_s(arms)[0] <= lasts_s[1]


def test_a_trial_ends_where_the_rtt_is_fifteen_times_as_long_and_the_rate_is_not_higher() -> None:
    """The queue of ACKs grows by 400 ms a second, so it takes 980 ms more than before after 2.5 s."""

    class Longer(DeepWayBack):
        def __call__(self, t: float, arm: int) -> tuple[float, float]:
            rtt_ms, rate = super().__call__(t, arm)
            longer = arm == CUBIC and t > 0.3
            return (QUEUED_MS + 10.0 * (rtt_ms - QUEUED_MS) if longer else rtt_ms), rate

    arms = run(under=Longer(grows_s=99.0), duration_s=20.0, chooser=filling())
    assert 2.4 < trials_s(arms)[0] < 5.0


def test_after_a_trial_the_steady_arm_begins_without_the_queue_of_the_trial() -> None:
    """Cubic's RTT of 15 times the floor is no sign of a path that varies, which would call for Vegas."""
    chooser = filling()
    arms = run(under=DeepWayBack(0.2, grows_s=12.0), duration_s=18.0, chooser=chooser)
    assert after_start(arms) == [BBR, CUBIC, LTP]
    assert chooser._players.drained[0]


def test_a_trial_that_fills_the_way_there_ends_at_once() -> None:
    """Cubic's queue is on the way to the receiver, and costs reward."""
    ways = lambda t, arm: SlowWayBack(0.2)(t, arm)  # noqa: E731
    back = lambda arm: float(arm != CUBIC)  # noqa: E731
    arms = run(under=ways, duration_s=10.0, chooser=filling(), back=back)
    # BBR's start goes on, and a look takes 0.32 s.
    assert after_start(arms)[:4] == [BBR, CUBIC, BBR, LTP]
    assert trials_s(arms)[0] < 0.7


def test_a_rate_that_swings_does_not_end_a_trial() -> None:
    """Pulses make the rate swing, which would call for Vegas under another arm."""

    class Swinging(SlowWayBack):
        def __call__(self, t: float, arm: int) -> tuple[float, float]:
            rtt_ms, rate = super().__call__(t, arm)
            return rtt_ms, rate * (2.0 if arm == CUBIC and t % 1.0 < 0.5 else 1.0)

    arms = run(under=Swinging(0.4, grows_s=2.0), duration_s=20.0, chooser=filling())
    assert after_start(arms) == [BBR, CUBIC]


def test_the_trial_gets_pulses_while_acks_wait() -> None:
    chooser = Asked(RuleSection())
    run(under=SlowWayBack(), duration_s=10.0, chooser=chooser)
    assert {*chooser.pulses[CUBIC]} == {PulseKind.NONE, PulseKind.FILL}
    assert {*chooser.pulses[BBR]} == {PulseKind.NONE}


def test_one_look_with_losses_does_not_end_a_trial() -> None:
    """Cubic fills the path, and then overfills its buffer for the time of a look."""
    lost = lambda t: 0 if t < 4.0 else 90  # noqa: E731
    arms = run(under=SlowWayBack(grows_s=1.0), duration_s=8.0, chooser=filling(), total_lost=lost)
    assert after_start(arms) == [BBR, CUBIC]


def test_the_filling_arm_is_asked_anew_after_a_minute_and_later_after_two() -> None:
    began = times_s(run(under=SlowWayBack(), duration_s=270.0, chooser=filling())[:, 0])
    assert [arm for _, arm in began] == [BBR, CUBIC, BBR, CUBIC, BBR, CUBIC]
    lasted_s = [(arm, end - at) for (at, arm), (end, _) in pairwise(began)]
    # The trial takes ten seconds of the first stay, and BBR's queue tells at once when it is asked anew.
    assert [time_s for arm, time_s in lasted_s if arm == CUBIC] == pytest.approx([70.0, 130.0], abs=3.0)
    assert all(time_s < 3.0 for arm, time_s in lasted_s if arm == BBR)


def test_the_filling_arm_leaves_a_way_back_that_has_become_fast() -> None:
    """From 30 s on nothing is slow. Cubic has the whole rate there, too, but a full buffer."""

    class Freed(SlowWayBack):
        def __call__(self, t: float, arm: int) -> tuple[float, float]:
            return super().__call__(t, arm) if t < 30.0 else (FULL_MS if arm == CUBIC else FLOOR_MS, 1.0)

    began = times_s(run(under=Freed(), duration_s=100.0, chooser=filling())[:, 0])
    assert CUBIC in [arm for at, arm in began if at < 30.0]
    assert CUBIC not in [arm for at, arm in began if at > 30.0]
    assert began[-1][0] < 80.0


@pytest.mark.parametrize(("gain", "after"), [(1.05, []), (0.75, [LTP])])
def test_the_filling_arm_has_to_earn_about_as_much_as_the_probing_arm(gain: float, after: list[int]) -> None:
    filled = 0.2 * (gain * FULL_MS / QUEUED_MS) ** 0.5
    arms = after_start(run(under=SlowWayBack(filled, grows_s=0.5), duration_s=15.0, chooser=filling()))
    assert arms == [BBR, CUBIC, *after]


def test_an_arm_that_has_not_shown_a_level_is_barred_for_the_shortest_time() -> None:
    surprise = Surprise()
    surprise.reset(SLOT)
    role = np.array([FILLING])
    surprise.bar(SLOT, role, now_ns=0)
    assert surprise.barred(SLOT, role, 9_000_000_000).all()
    assert not surprise.barred(SLOT, role, 11_000_000_000).any()


@pytest.mark.parametrize(
    "chooser",
    [
        filling(self_check=False),
        filling(without=("way-back",)),
        RuleChooser([BBR, LTP, VEGAS], RuleSection(), default_arm=BBR),
    ],
    ids=["no self-check", "left out", "no filling arm"],
)
def test_without_its_case_or_its_arm_there_is_no_trial(chooser: RuleChooser) -> None:
    assert CUBIC not in run(under=SlowWayBack(), duration_s=20.0, chooser=chooser)


def test_a_flow_with_arms_of_its_own_stays_among_them() -> None:
    chooser = filling()
    chooser.open(SLOT, [""])
    chooser.set_pool([BBR, LTP], SLOT)
    assert not chooser._players.may_fill[chooser._siblings.player[SLOT]].any()
    chooser.set_pool([BBR, LTP, CUBIC], SLOT)
    assert chooser._players.may_fill[chooser._siblings.player[SLOT]].all()


@pytest.mark.parametrize("kind", ["empties", "grows", "loses", "short", "way there", "siblings"])
def test_no_trial_without_a_queue_on_the_way_back(kind: str) -> None:
    path = SlowWayBack(pauses=kind == "empties", gains=1.6 if kind == "grows" else 1.0)
    lost = (lambda t: round(t * 40)) if kind == "loses" else (lambda _: 0)
    chooser = filling()
    if kind == "grows":
        arms = run(under=path, duration_s=2.5, chooser=chooser)
    elif kind == "short":
        arms = run(lambda t: FLOOR_MS * (1.0 if t < 0.3 else 1.1), duration_s=6.0, chooser=chooser)
    elif kind == "way there":
        arms = run(under=path, duration_s=6.0, chooser=chooser, back=lambda _: 0.6)
    elif kind == "siblings":
        chooser.open(np.array([1]), [""])
        arms = run(under=path, duration_s=6.0, chooser=chooser)
    else:
        arms = run(under=path, duration_s=6.0, chooser=chooser, total_lost=lost)
    assert CUBIC not in arms


def test_a_way_back_that_becomes_longer_is_no_queue() -> None:
    """BBR probes the longer path. The module's floor is the shorter one for some seconds more."""
    arms = run(rule_flows.step_at(6.0, 40.0, 75.0), duration_s=20.0, chooser=filling())
    assert after_start(arms)[:3] == [BBR, LTP, BBR]
    assert CUBIC not in arms


@pytest.mark.parametrize(
    ("told", "tried"),
    [({"turn_pkts": 30}, False), ({"silent_us": 16_000}, False), ({"silent_us": 5_000}, True)],
)
def test_acks_in_bursts_are_no_reason_for_a_trial(
    told: dict[str, int], tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ACKs wait for 30 ms, which is less than two gaps of 16 ms."""
    plain = rule_flows.record
    monkeypatch.setattr(rule_flows, "record", lambda *args, **kwargs: plain(*args, **told, **kwargs))
    assert (CUBIC in run(under=SlowWayBack(), duration_s=6.0, chooser=filling())) == tried


def test_the_filling_arm_gets_the_whole_window() -> None:
    chooser = filling()
    arms = run(under=SlowWayBack(), duration_s=8.0, chooser=chooser)
    assert arms[-1, 0] == CUBIC
    assert chooser.whole(SLOT).tolist() == [True]
    records = np.concatenate([
        record(cookie, arm=BBR, want_arm=BBR, flags=int(FlowFlags.STEERED)) for cookie in (1, 2)
    ])  # fmt: skip
    commands = commands_for(records, np.array([CUBIC, LTP], np.uint8), whole=np.array([True, False]))
    assert commands["handover"].tolist() == [HandoverMode.AS_IS, HandoverMode.CONFIGURED]
