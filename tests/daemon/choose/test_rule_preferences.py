# SPDX-License-Identifier: Apache-2.0
"""The rule runs the arm that won a tournament, while nothing speaks against it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from support.rule_flows import BBR, LTP, STEP_S, VEGAS, run, times_s

from ltp_switcher.arrays import ArmIds, Slots
from ltp_switcher.daemon.choose.chooser import Draw, Verdict
from ltp_switcher.daemon.choose.rule.roles import CAREFUL
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.settings.rule_policy import RuleSection

ASKED_S = 5.0
FLOW = np.array([0])


class Preferring(RuleChooser):
    """A rule that is asked once to prefer an arm, and that keeps the news that end preferences."""

    def __init__(self, arm: int, pool: Sequence[int] = (BBR, LTP, VEGAS)) -> None:
        super().__init__([*pool], RuleSection(without=("no-queue",)))
        self.arm, self.steps = arm, 0
        self.told: list[tuple[float, Verdict]] = []
        self.at_end: Callable[[], None] = lambda: None

    def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Draw:
        """Decide, and keep the news."""
        draw = super().step(slots, records, given)
        self.steps += 1
        news = self.verdicts(slots)
        if news is not None:
            self.told.append((self.steps * STEP_S, Verdict(news[0])))
        if self.steps == round(ASKED_S / STEP_S):
            self.prefer(slots, self.arm)
        return draw

    def why(self) -> str:
        """The reason of the flow's arm."""
        return self.reasons[self.reason(FLOW).code[0]]


def even(t: float, arm: int) -> tuple[float, float]:
    """A steady path on which all arms have the same."""
    return 40.0, 1.0


@pytest.mark.parametrize("arm", [VEGAS, BBR])
def test_a_preferred_arm_takes_over_within_a_look_and_stays(arm: int) -> None:
    chooser = Preferring(arm)
    arms = run(duration_s=60.0, under=lambda t, ran: (40.0, 1.0 if ran == arm else 0.95), chooser=chooser)
    times = times_s(arms[:, 0])
    assert [ran for _, ran in times] == [BBR, LTP, arm]
    assert ASKED_S < times[-1][0] < ASKED_S + 0.6
    assert "won a tournament" in chooser.why()
    assert chooser.told == []


def test_an_arm_that_the_flow_may_not_run_is_not_preferred() -> None:
    arms = run(duration_s=12.0, under=even, chooser=Preferring(VEGAS, pool=(BBR, LTP)))
    assert [ran for _, ran in times_s(arms[:, 0])] == [BBR, LTP]


def test_another_path_ends_the_preference() -> None:
    chooser = Preferring(VEGAS)
    arms = run(
        duration_s=30.0, chooser=chooser,
        under=lambda t, arm: (40.0 if t < 12.0 else 90.0, 1.0 if arm == VEGAS else 0.95),
    )  # fmt: skip
    assert arms[round(11.0 / STEP_S), 0] == VEGAS
    assert arms[-1, 0] == LTP
    assert chooser.told[0][0] > 12.0
    assert Verdict.OTHER_PATH in [verdict for _, verdict in chooser.told]


def test_a_preferred_arm_that_earns_less_than_the_one_before_gives_way() -> None:
    """A tenth less of the rate is no alarm: the self-check asks for half."""
    chooser = Preferring(VEGAS)
    arms = run(duration_s=20.0, under=lambda t, arm: (40.0, 0.9 if arm == VEGAS else 1.0), chooser=chooser)
    times = times_s(arms[:, 0])
    assert [ran for _, ran in times] == [BBR, LTP, VEGAS, LTP]
    lasted_s = times[3][0] - times[2][0]
    assert 1.5 < lasted_s < 5.0
    assert [verdict for _, verdict in chooser.told] == [Verdict.EARNED_LESS]


def test_a_preferred_arm_that_earns_more_stays() -> None:
    chooser = Preferring(VEGAS)
    arms = run(duration_s=40.0, under=lambda t, arm: (40.0, 1.0 if arm == VEGAS else 0.9), chooser=chooser)
    assert [ran for _, ran in times_s(arms[:, 0])] == [BBR, LTP, VEGAS]
    assert chooser.told == []


def test_a_new_flow_prefers_after_its_start_and_compares_with_no_start() -> None:
    """BBR's start earns more than Vegas does later. The tournament was with another arm."""

    class New(Preferring):
        def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Draw:
            if not self.steps:
                self.prefer(slots, VEGAS)
            return super().step(slots, records, given)

    chooser = New(VEGAS)
    arms = run(duration_s=30.0, under=lambda t, arm: (40.0, 1.0 if arm == BBR else 0.9), chooser=chooser)
    times = times_s(arms[:, 0])
    assert [ran for _, ran in times] == [BBR, VEGAS]
    assert times[1][0] > 2.0, "the start goes on"
    assert chooser.told == []


def test_a_preferred_arm_that_starves_gives_way_at_once_and_is_not_preferred_again() -> None:
    chooser = Preferring(VEGAS)
    arms = run(duration_s=30.0, under=lambda t, arm: (40.0, 0.2 if arm == VEGAS else 1.0), chooser=chooser)
    times = times_s(arms[:, 0])
    began_s = next(at for at, ran in times if ran == VEGAS)
    after = [at for at, _ in times if at > began_s]
    assert after[0] - began_s < 2.5
    assert VEGAS not in [ran for at, ran in times if at > began_s]
    assert chooser.told[0][1] == Verdict.OTHER_PATH


def test_an_arm_that_the_self_check_has_barred_is_not_preferred() -> None:
    class Barred(Preferring):
        def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Draw:
            draw = super().step(slots, records, given)
            self._players._surprise.bar(FLOW, np.array([CAREFUL]), int(records["time_ns"][0]))
            return draw

    arms = run(duration_s=12.0, under=even, chooser=Barred(VEGAS))
    assert [ran for _, ran in times_s(arms[:, 0])] == [BBR, LTP]


def test_the_self_check_goes_on_under_an_arm_that_the_rule_would_not_choose() -> None:
    """Packets are lost without a queue, so the rule would run LTP. Each look at Vegas has to count."""

    class Looking(Preferring):
        def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Draw:
            draw = super().step(slots, records, given)
            looks.append(int(self._players._surprise._looks[0]))
            return draw

    looks: list[int] = []
    chooser = Looking(VEGAS)
    arms = run(lambda _: 40.0, duration_s=15.0, chooser=chooser, lost=lambda _: 0.01)
    assert [ran for _, ran in times_s(arms[:, 0])] == [BBR, LTP, VEGAS]
    assert looks[-1] > 20


def test_another_pool_ends_the_preference() -> None:
    chooser = Preferring(VEGAS)
    run(duration_s=10.0, under=even, chooser=chooser)
    chooser.set_pool([BBR, LTP, VEGAS], FLOW)
    assert chooser._players.preferred[0] == -1
    chooser.prefer(FLOW, VEGAS)
    assert chooser._players.preferred[0] != -1
    chooser.set_pool([BBR, LTP, VEGAS])
    assert chooser._players.preferred[0] == -1


def test_only_arms_with_a_role_of_their_own_can_be_preferred() -> None:
    chooser = Preferring(VEGAS)
    assert chooser.preferable((BBR, LTP, VEGAS)) == (BBR, LTP, VEGAS)
    assert chooser.preferable((1, LTP, 9, VEGAS)) == (LTP, VEGAS)
    assert chooser.preferable((5, 7)) == (5,)


def test_a_flow_on_another_arm_for_a_comparison_says_nothing_about_the_rules() -> None:
    """Without that, the comparison's arm would starve in the rule's eyes."""

    class Compared(Preferring):
        def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Draw:
            away = 6.0 < self.steps * STEP_S < 9.0
            return super().step(slots, records, np.array([VEGAS], np.uint8) if away else None)

    chooser = Compared(0)
    assert chooser.learns_from_teams, "the daemon tells it of such flows"
    arms = run(
        duration_s=20.0, chooser=chooser,
        under=lambda t, arm: (40.0, 0.1 if 6.0 < t < 9.0 else 1.0),
    )  # fmt: skip
    assert [ran for _, ran in times_s(arms[:, 0])] == [BBR, LTP]
    assert chooser.told == []
