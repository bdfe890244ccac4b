# SPDX-License-Identifier: Apache-2.0
"""RTTs that stand, and the trials of the filling arm that follow."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from support import rule_flows
from support.records import record
from support.rule_flows import BBR, LTP, STEP_S, VEGAS, run, times_s

from ltp_switcher.daemon.choose.rule.roles import FILLING, FILLS
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.choose.rule.surprise import Surprise
from ltp_switcher.daemon.datapath.commands import commands_for
from ltp_switcher.daemon.datapath.protocol import ArmId, FlowFlags, HandoverMode
from ltp_switcher.daemon.settings.rule_policy import RuleSection

CUBIC = int(ArmId.CUBIC)
FLOOR_MS, STANDS_MS = 40.0, 120.0
SLOT = np.array([0])


class SlowWayBack:
    """A path whose ACKs wait in a full queue, unless little is sent. `filled` is the share of the rate that
    Cubic reaches, where BBR has 0.5 and the others have 0.2. `swings` moves the RTT under BBR.
    """

    def __init__(self, filled: float = 1.0, *, swings: float = 0.0) -> None:
        self._filled, self._swings = filled, swings

    def __call__(self, t: float, arm: int) -> tuple[float, float]:
        if t < 0.3:
            return FLOOR_MS, 0.1
        if arm == CUBIC:
            return STANDS_MS, self._filled
        if arm == BBR:
            return STANDS_MS * (1.0 + self._swings * (int(t / 0.5) % 2)), 0.5
        return FLOOR_MS, 0.2


def filling(pool: tuple[int, ...] = (BBR, LTP, VEGAS), **settings: bool | tuple[str, ...]) -> RuleChooser:
    return RuleChooser(list(pool), RuleSection(**settings))  # type: ignore[arg-type]


def after_start(arms: np.ndarray) -> list[int]:
    """The arms of one flow after the kernel's own start on Cubic."""
    return [arm for _, arm in times_s(arms[:, 0])]


def test_the_filling_arm_stays_where_it_earns_more_than_the_others() -> None:
    assert FILLS == CUBIC
    chooser = filling()
    arms = run(under=SlowWayBack(), duration_s=30.0, chooser=chooser)
    assert after_start(arms) == [BBR, CUBIC]
    # Four looks have to show it, and BBR's usual start has not ended by then.
    assert times_s(arms[:, 0])[1][0] < 2.0 + STEP_S
    why = chooser.reason(SLOT)
    assert chooser.reasons[why.code[0]].startswith(
        "the RTT stood, and this arm earned {value:.1f} times as much"
    )
    # Twice the rate at the same RTT.
    assert why.value[0] == pytest.approx(4.0, rel=0.05)


def test_a_trial_that_shows_no_more_ends_soon_and_comes_again_late() -> None:
    arms = run(under=SlowWayBack(0.5 * 0.97), duration_s=40.0, chooser=filling())
    began_s = [at for at, arm in times_s(arms[:, 0]) if arm == CUBIC]
    assert after_start(arms)[:3] == [BBR, CUBIC, LTP]
    # Sixteen round trips of 120 ms, and a look.
    assert np.mean(arms == CUBIC) * 40.0 / len(began_s) < 2.4
    assert min(np.diff(began_s), default=10.0) >= 10.0
    assert len(began_s) <= 3


def test_the_filling_arm_is_asked_anew_after_a_minute_and_later_after_two() -> None:
    began = times_s(run(under=SlowWayBack(), duration_s=250.0, chooser=filling())[:, 0])
    assert [arm for _, arm in began] == [BBR, CUBIC, BBR, CUBIC, BBR, CUBIC]
    lasted_s = [(arm, end - at) for (at, arm), (end, _) in pairwise(began)]
    # A trial of 16 round trips of 120 ms may come before a stay.
    assert [time_s for arm, time_s in lasted_s if arm == CUBIC] == pytest.approx([60.0, 120.0], abs=3.0)
    assert all(time_s < 3.0 for arm, time_s in lasted_s if arm == BBR)


def test_the_filling_arm_leaves_a_way_back_that_has_become_fast() -> None:
    """From 30 s on nothing is slow. Cubic has the whole rate there, too, but a full buffer."""

    class Freed(SlowWayBack):
        def __call__(self, t: float, arm: int) -> tuple[float, float]:
            return super().__call__(t, arm) if t < 30.0 else (STANDS_MS if arm == CUBIC else FLOOR_MS, 1.0)

    began = times_s(run(under=Freed(), duration_s=100.0, chooser=filling())[:, 0])
    assert CUBIC in [arm for at, arm in began if at < 30.0]
    assert CUBIC not in [arm for at, arm in began if at > 30.0]
    assert began[-1][0] < 75.0


def test_a_small_gain_does_not_keep_the_steady_arm_from_its_turn() -> None:
    """LTP has a fifth of the rate at a third of the RTT, which is too little, so Cubic comes back."""
    arms = after_start(run(under=SlowWayBack(0.5 * 1.2), duration_s=20.0, chooser=filling()))
    assert arms[:4] == [BBR, CUBIC, LTP, CUBIC]
    assert LTP not in arms[4:]


def test_a_trial_that_costs_reward_ends_at_once() -> None:
    arms = run(under=SlowWayBack(0.5 * 0.8), duration_s=12.0, chooser=filling())
    began_s = [at for at, arm in times_s(arms[:, 0]) if arm == CUBIC]
    assert len(began_s) == 1
    # A look takes 0.27 s here.
    assert np.sum(arms == CUBIC) * STEP_S < 0.6


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
        filling(without=("stands",)),
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


@pytest.mark.parametrize("kind", ["moves", "loses", "short", "few packets", "siblings"])
def test_no_trial_where_the_rtt_does_not_stand(kind: str) -> None:
    steady = lambda t, ms: FLOOR_MS if t < 0.3 else ms  # noqa: E731
    path = SlowWayBack(swings=0.3 if kind == "moves" else 0.0)
    lost = (lambda t: round(t * 40)) if kind == "loses" else (lambda _: 0)
    chooser = filling()
    if kind == "short":
        arms = run(lambda t: steady(t, 1.9 * FLOOR_MS), duration_s=6.0, chooser=chooser)
    elif kind == "few packets":
        arms = run(lambda t: steady(t, STANDS_MS), duration_s=6.0, chooser=chooser, rate_pps=120.0)
    elif kind == "siblings":
        chooser.open(np.array([1]), [""])
        arms = run(under=path, duration_s=6.0, chooser=chooser)
    else:
        arms = run(under=path, duration_s=6.0, chooser=chooser, total_lost=lost)
    assert CUBIC not in arms


@pytest.mark.parametrize(
    ("told", "tried"),
    [({"turn_pkts": 30}, False), ({"silent_us": 21_000}, False), ({"silent_us": 5_000}, True)],
)
def test_acks_in_bursts_are_no_reason_for_a_trial(
    told: dict[str, int], tried: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The RTT exceeds twice the floor by 40 ms, and BBR's window holds the largest burst, too."""
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
