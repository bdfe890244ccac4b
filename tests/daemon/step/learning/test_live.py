# SPDX-License-Identifier: Apache-2.0
"""Learning from flow to flow, with a table and visits that are made here, and all else real."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

import numpy as np
import pytest
from support.records import NETNS, flow
from support.told import Module, lot, row

from ltp_switcher.daemon.choose.choice import Cause, of_policy
from ltp_switcher.daemon.choose.chooser import Number, Told
from ltp_switcher.daemon.choose.visits.posterior import Effects
from ltp_switcher.daemon.datapath.protocol import ArmId, StartCause
from ltp_switcher.daemon.gain.outcomes import PREFIX_KEY, ROW_DTYPE, prefix_key
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.daemon.step.learning.live import LiveLearner
from ltp_switcher.daemon.step.starts import StartingArms
from ltp_switcher.errors import ArtifactError

BBR, LTP, VEGAS, CUBIC = (int(arm) for arm in (ArmId.BBR, ArmId.LTP, ArmId.VEGAS, ArmId.CUBIC))
BEGIN_S = 1_800_000_000.0
GAINS = {BBR: 0.0, LTP: -0.3, VEGAS: -0.5, CUBIC: -0.4}
"""What the decision, which runs BBR, suits."""
A, B = "192.0.2.0/24", "198.51.100.0/24"


def free(prefixes: Sequence[str]) -> np.ndarray:
    return np.ones(len(prefixes), np.bool_)


def none(prefixes: Sequence[str]) -> np.ndarray:
    return np.zeros(len(prefixes), np.bool_)


def made(module: Module) -> LiveLearner:
    return LiveLearner([BBR, LTP, VEGAS, CUBIC], CUBIC, StartingArms(module, 600), 600)


def rows_of(*rows: np.ndarray) -> np.ndarray:
    return np.concatenate([np.zeros(0, ROW_DTYPE), *rows])


def run(live: LiveLearner, module: Module, visits: int, begin_s: float = BEGIN_S, flows: int = 1) -> float:
    """One visit of each prefix in 15 s. Returns the time."""
    table, now_s = FlowTable(home_netns=NETNS), begin_s
    for _ in range(visits):
        told = rows_of(*(module.visit(prefix, now_s) for prefix in module.gains for _ in range(flows)))
        for second in range(15):
            live.take(told if not second else told[:0], table, free, now_s)
            live.plan(free, now_s)
            now_s += 1.0
    return now_s


def incumbents(live: LiveLearner, now_s: float) -> dict[str, int]:
    return {one.prefix: one.incumbent for one in live.of(live.prefixes.numbers(), now_s)}


def test_where_another_arm_is_better_visits_move_there_and_elsewhere_they_stay() -> None:
    right = {f"10.0.{number}.0/24": GAINS for number in range(4)}
    wrong = {f"10.1.{number}.0/24": {**GAINS, VEGAS: 1.5} for number in range(3)} | {A: {**GAINS, VEGAS: 1.5}}
    module = Module(right | wrong, BBR)
    live = made(module)
    now_s = run(live, module, 220)
    found = incumbents(live, now_s)
    assert {prefix: found[prefix] for prefix in right} == dict.fromkeys(right, 0)
    assert {prefix: found[prefix] for prefix in wrong} == dict.fromkeys(wrong, VEGAS)
    last = [visit.lot for visit in module.drawn[-20 * len(found) :] if visit.prefix == A]
    assert last.count(VEGAS) > 12
    assert live.learner.purse.share <= 0.01
    # The module's entry names the arm first, with most of the weight.
    choice = module.table[A]["choice"]
    assert (choice["arm"][0], choice["weight"][0] > 40_000) == (VEGAS, True)


def test_a_move_to_a_better_arm_is_no_change_of_the_path() -> None:
    """Values are relative to the decision's own choice, whichever arm most flows run."""
    module = Module({f"10.1.{number}.0/24": {**GAINS, VEGAS: 1.5} for number in range(4)}, BBR)
    live = made(module)
    now_s = run(live, module, 120)
    moved = {prefix for prefix, arm in incumbents(live, now_s).items() if arm == VEGAS}
    assert moved
    for _ in range(20):
        now_s = run(live, module, 10, now_s)
        found = incumbents(live, now_s)
        assert {found[prefix] for prefix in moved} == {VEGAS}
    assert live.path_changes <= 2


def test_a_prefix_whose_path_has_changed_is_planned_at_once() -> None:
    """All arms fall to a tenth. The prefix is due at the look that shows it, and not before."""
    gains = dict(GAINS)
    module = Module({A: gains}, BBR)
    live, table = made(module), FlowTable(home_netns=NETNS)

    def due(visits: int, now_s: float) -> tuple[int, float]:
        count = 0
        for _ in range(visits):
            told = rows_of(module.visit(A, now_s))
            for second in range(15):
                live.take(told if not second else told[:0], table, free, now_s)
                number = live.prefixes.find(A)
                # A new prefix is due as well.
                count += int(bool(live._plans.due[number]) and live.visits > 0)
                live.plan(free, now_s)
                now_s += 1.0
        return count, now_s

    before, now_s = due(60, BEGIN_S)
    assert before == 0
    gains.update({arm: gain - 2.3 for arm, gain in gains.items()})
    after, _ = due(40, now_s)
    assert after >= 1


def test_trials_stay_seldom_and_the_ledger_counts_them() -> None:
    module = Module({f"10.0.{number}.0/24": GAINS for number in range(12)}, BBR)
    live = made(module)
    run(live, module, 120)
    trials = sum(visit.is_trial for visit in module.drawn)
    assert 0 < trials < 0.1 * len(module.drawn)
    assert (live.trials, live.visits) == (trials, len(module.drawn))
    assert live.learner.purse.share <= 0.01


def test_a_hostile_prefix_changes_no_other_s_choice() -> None:
    """It acts as if each arm but the decision's earned 20 times as much, or nothing."""
    others = {f"10.0.{number}.0/24": GAINS for number in range(19)}
    for claim in (3.0, -30.0):
        found = []
        for hostile in (GAINS, {BBR: 0.0, LTP: claim, VEGAS: claim, CUBIC: claim}):
            module = Module({**others, A: hostile}, BBR)
            live = made(module)
            now_s = run(live, module, 60)
            found.append({p: arm for p, arm in incumbents(live, now_s).items() if p != A})
        assert found[0] == found[1]
        assert set(found[1].values()) == {0}


def test_a_restart_keeps_what_was_learned() -> None:
    module = Module({A: {**GAINS, VEGAS: 1.5}, B: GAINS}, BBR)
    first = made(module)
    now_s = run(first, module, 220)
    second = made(module)
    saved = {name: array.copy() for name, array in first.state().items()}
    # The first goes on, and must not change what was saved.
    run(first, module, 3, now_s)
    assert second.restore(saved)
    for name, array in second.state().items():
        assert np.array_equal(array, saved[name], equal_nan=array.dtype.kind == "f"), name
    module.table.clear()
    run(second, module, 2, now_s)
    assert incumbents(second, now_s)[A] == VEGAS
    assert module.table[A]["choice"]["arm"][0] == VEGAS


def effects_of(live: LiveLearner, means: dict[int, float], variance: float = 0.01) -> Effects:
    """What another host tells of one prefix."""
    mean, spread = np.zeros((1, live.arms.size)), np.full((1, live.arms.size), np.inf)
    for arm, value in means.items():
        place = live.arms.tolist().index(arm)
        mean[0, place], spread[0, place] = value, variance
    return Effects(mean, spread)


def test_a_prefix_that_others_know_has_its_arm_before_its_first_flow() -> None:
    module = Module({A: GAINS}, BBR)
    live = made(module)
    refused = live.tell(prefix_keys_of(A), effects_of(live, {VEGAS: 1.0}), np.array([2]), BEGIN_S)
    assert refused == 0
    live.plan(free, BEGIN_S)
    choice = module.table[A]["choice"]
    # Nobody pays for a trial before a flow has earned anything.
    assert (choice["arm"].tolist(), choice["weight"].tolist()) == ([VEGAS, 0, 0, 0], [65_535, 0, 0, 0])
    # Its own word is none yet, so others do not hear theirs again.
    assert live.lessons(-1, BEGIN_S)[0].size == 0
    again = made(Module({}, BBR))
    assert again.restore(live.state())
    assert incumbents(again, BEGIN_S) == {A: 0}  # No plan yet.
    again.plan(free, BEGIN_S + 1)
    for _ in range(10):
        again.plan(free, BEGIN_S + 1)
    assert incumbents(again, BEGIN_S + 1) == {A: VEGAS}


def test_own_visits_overrule_what_others_tell() -> None:
    module = Module({A: GAINS, B: GAINS}, BBR)
    live = made(module)
    now_s = run(live, module, 220)
    before = {one.prefix: one.effects for one in live.of(live.prefixes.numbers(), now_s)}
    was = min(before[A], key=lambda one: one.upper - one.lower)
    live.tell(prefix_keys_of(A), effects_of(live, {was.arm: 6.0}, 1e-4), np.array([1]), now_s)
    after = {one.prefix: one.effects for one in live.of(live.prefixes.numbers(), now_s)}
    assert after[B] == before[B]
    told = next(one for one in after[A] if one.arm == was.arm)
    assert was.mean < told.mean < was.mean + 3 * (was.upper - was.mean)


def test_lessons_are_of_own_visits_and_of_what_is_new() -> None:
    module = Module({A: GAINS}, BBR)
    live = made(module)
    now_s = run(live, module, 30)
    numbers, own = live.lessons(-1, now_s)
    assert [live.prefixes.texts[number] for number in numbers] == [A]
    live.tell(prefix_keys_of(A), effects_of(live, {VEGAS: 2.0}), np.array([1]), now_s)
    assert live.lessons(-1, now_s)[1].mean.tolist() == own.mean.tolist()
    since = live.lesson
    assert live.lessons(since, now_s)[0].size == 0
    run(live, module, 2, now_s)
    assert live.lessons(since, now_s + 30)[0].size == 1
    # Without traffic for an hour there is nothing to tell or to ask.
    assert live.lessons(-1, now_s + 3700)[0].size == 0


def test_others_prefixes_take_no_room_from_own_ones() -> None:
    live = made(Module({}, BBR))
    live.prefixes._most = 8
    keys = prefix_keys_of(*(f"10.0.{number}.0/24" for number in range(6)))
    many = Effects(np.zeros((6, 5)), np.full((6, 5), np.inf))
    assert live.tell(keys, many, np.ones(6, np.int64), BEGIN_S) == 2
    assert len(live.prefixes) == 4


def prefix_keys_of(*texts: str) -> np.ndarray:
    return np.array([prefix_key(text) for text in texts], PREFIX_KEY)


def test_other_arms_begin_anew_and_damage_is_told() -> None:
    module = Module({A: GAINS}, BBR)
    live = made(module)
    run(live, module, 5)
    saved = live.state()
    other = LiveLearner([BBR, VEGAS], CUBIC, StartingArms(module, 600), 600)
    assert not other.restore(saved)
    assert len(other.prefixes) == 0
    damage: dict[str, np.ndarray] = {
        "covariance": saved["covariance"][:0], "incumbents": np.array([9]), "format": np.array(99),
        "keys": saved["keys"][:, :3], "spent": np.array([np.nan]), "flows": np.array([-1.0]),
    }  # fmt: skip
    for name, array in damage.items():
        fresh = made(module)
        with pytest.raises(ArtifactError):
            fresh.restore({**saved, name: array})
        assert len(fresh.prefixes) == 0, name
    # An earlier release did not save the visits of the purse.
    for name in saved.keys() - {"paid_visits"}:
        with pytest.raises(ArtifactError):
            made(module).restore({other: array for other, array in saved.items() if other != name})


def test_the_state_of_an_earlier_release_still_counts() -> None:
    """It has means by size class, which are not read any more, and no count of the visits that paid in."""
    module = Module({A: GAINS}, BBR)
    live = made(module)
    run(live, module, 5)
    new = {"paid_visits", *(name for name in live.state() if name.startswith("line_"))}
    old = {name: array for name, array in live.state().items() if name not in new}
    later = made(module)
    assert later.restore(old)
    assert later.learner.purse.flows.tolist() == live.learner.purse.flows.tolist()
    assert later.learner.purse.visits.tolist() == live.learner.posteriors.visits.tolist()
    number = later.prefixes.find(A)
    assert number is not None
    assert not later.prefixes.lines.flows[number].any()


def test_prefixes_are_bounded_and_the_one_unseen_for_longest_goes() -> None:
    module = Module({}, BBR)
    live = made(module)
    live.prefixes._most = 32
    table = FlowTable(home_netns=NETNS)
    for number in range(40):
        now_s = BEGIN_S + 100 * number
        told = rows_of(row(now_s, f"10.0.{number}.9", visit=1), row(now_s, "192.0.2.9", visit=number))
        live.take(told, table, free, now_s)
        for _ in range(10):
            live.plan(free, now_s)
    assert len(live.prefixes) <= 32
    assert {A, "10.0.39.0/24"} <= incumbents(live, now_s).keys()
    assert "10.0.0.0/24" not in incumbents(live, now_s)
    # What is forgotten has no entry of ours either.
    assert module.table.keys() == incumbents(live, now_s).keys()
    assert len(live.learner.posteriors) <= 33
    # What they earned stays in the server's purse; the last two visits are open.
    assert live.learner.purse.totals[0] == 78


def opened(live: LiveLearner, table: FlowTable, cookie: int, address: str, **fields: int) -> int:
    slot = table.add(flow(cookie, address, **fields), 0)
    assert slot is not None
    live.open(np.array([slot]), table)
    return slot


def planned(lots: tuple[int, int], chance: float) -> tuple[LiveLearner, FlowTable]:
    """A prefix with this plan."""
    live = made(Module({}, BBR))
    table = FlowTable(home_netns=NETNS)
    live.take(row(BEGIN_S, visit=1), table, free, BEGIN_S)
    (number,) = live.prefixes.numbers()
    plans = live._plans
    plans.lots[number] = lots
    plans.chance[number], plans.written[number] = chance, True
    return live, table


def test_a_flow_stays_on_the_arm_that_it_drew() -> None:
    live, table = planned((0, VEGAS), 0.08)
    drawn = lot(0, VEGAS, is_trial=True)
    own = opened(live, table, 1, "192.0.2.7", arm=BBR, want_arm=BBR, **lot(0, VEGAS, is_trial=False))
    held = opened(live, table, 2, "192.0.2.8", arm=VEGAS, want_arm=VEGAS, **drawn)
    elsewhere = opened(live, table, 3, "198.51.100.7", arm=VEGAS, want_arm=VEGAS)
    late = opened(live, table, 4, "192.0.2.9", arm=VEGAS, want_arm=VEGAS, switches=1, **drawn)
    slots = np.array([own, held, elsewhere, late])
    choice = live.step(slots, of_policy(np.full(4, LTP, np.uint8)))
    assert choice.arms.tolist() == [LTP, VEGAS, LTP, LTP]
    assert choice.causes.tolist() == [Cause.POLICY, Cause.VISIT, Cause.POLICY, Cause.POLICY]
    given = live.given(slots, None)
    assert given is not None
    assert given.tolist() == [0, VEGAS, 0, 0]
    assert live.lot(held) == (VEGAS, pytest.approx(0.08, abs=1e-4), 9, False)
    assert live.lot(own) == (0, pytest.approx(0.92, abs=1e-4), 9, False)
    assert live.lot(elsewhere) is live.lot(late) is None
    # The slot may be another flow's next.
    live.close(np.array([held]))
    assert live.step(slots, of_policy(np.full(4, LTP, np.uint8))).arms.tolist() == [LTP] * 4


def test_the_price_of_a_trial_stays_aside_while_its_visit_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    live, table = planned((0, VEGAS), 0.08)
    now_s = known(live, table)
    told: list[list[int]] = []
    chances = live.learner.purse.chances

    def spy(
        prefixes: np.ndarray, worths: np.ndarray, flows: np.ndarray, at_s: float, trying: np.ndarray
    ) -> np.ndarray:
        told.append(trying.tolist())
        return chances(prefixes, worths, flows, at_s, trying)

    monkeypatch.setattr(live.learner.purse, "chances", spy)
    (number,) = live.prefixes.numbers()
    drawn = {name: value for name, value in lot(0, VEGAS, is_trial=True).items() if name != "start_cause"}
    for lasting_s, trying in ((0, [number]), (8, [number]), (16, [])):
        if lasting_s < 16:
            live.take(row(now_s, cookie=2, ended=0, arm=VEGAS, **drawn), table, free, now_s)
        else:
            live.take(rows_of(), table, free, now_s + lasting_s)
        live._plans.due[number] = True
        live.plan(free, now_s + lasting_s)
        assert told.pop() == trying


def test_two_lots_may_begin_on_the_same_arm() -> None:
    """A trial of the arm on which the decision begins stays there, and the decision goes on."""
    live, table = planned((0, BBR), 0.08)
    own, held = (
        opened(live, table, cookie, "192.0.2.7", arm=BBR, want_arm=BBR, **lot(0, BBR, is_trial=cookie == 2))
        for cookie in (1, 2)
    )
    choice = live.step(np.array([own, held]), of_policy(np.full(2, LTP, np.uint8)))
    assert choice.arms.tolist() == [LTP, BBR]


@pytest.mark.parametrize("fields", [{"visit": 0}, {"generation": 0}, {"start_cause": StartCause.REFUSED}])
def test_a_flow_whose_arm_no_lot_gave_is_the_decision_s(fields: dict[str, int]) -> None:
    live, table = planned((0, VEGAS), 0.08)
    told = {**lot(0, VEGAS, is_trial=True), **fields}
    slot = opened(live, table, 1, "192.0.2.7", arm=VEGAS, want_arm=VEGAS, **told)
    assert live.step(np.array([slot]), of_policy(np.full(1, LTP, np.uint8))).arms.tolist() == [LTP]
    assert live.lot(slot) is None


def test_while_records_tell_no_lots_every_visit_is_the_decision_s() -> None:
    module = Module({A: {**GAINS, VEGAS: 1.5}}, BBR)
    live = made(module)
    now_s = run(live, module, 220)
    assert module.table[A]["choice"]["arm"][0] == VEGAS
    live.holds = False
    (number,) = live.prefixes.numbers()
    live._plans.due[number] = True
    live.plan(free, now_s)
    entry = module.table[A]
    assert entry["choice"]["weight"].tolist() == [65_535, 0, 0, 0]
    assert entry["choice"]["arm"].tolist() == [CUBIC, 0, 0, 0]
    assert entry["generation"] & 1023 == 0
    # No knowledge is lost.
    live.holds = True
    live._plans.due[number] = True
    live.plan(free, now_s)
    assert module.table[A]["choice"]["arm"][0] == VEGAS


def known(live: LiveLearner, table: FlowTable) -> float:
    """Let the prefix have some visits of the usual value. Returns the time."""
    for number in range(5):
        live.take(row(BEGIN_S + 20 * number, visit=number + 2), table, free, BEGIN_S + 20 * number)
    live.take(rows_of(), table, free, BEGIN_S + 100)
    assert live.visits == 6
    return BEGIN_S + 100


@pytest.mark.parametrize(("gain", "left"), [(-1.2, False), (-1.6, True)])
def test_a_flow_leaves_its_lot_at_a_quarter_of_what_the_incumbent_promises(gain: float, left: bool) -> None:
    live, table = planned((0, VEGAS), 0.08)
    now_s = known(live, table)
    drawn = lot(0, VEGAS, is_trial=True)
    slot = opened(live, table, 2, "192.0.2.8", arm=VEGAS, want_arm=VEGAS, **drawn)
    lasting = row(now_s, gain=gain, cookie=2, ended=0, visit=9, arm=VEGAS)
    live.take(lasting, table, free, now_s)
    assert (live.held.held(np.array([slot]))[0] == 0) == left
    assert live.aborted == left
    assert live.lot(slot) == (VEGAS, pytest.approx(0.08, abs=1e-4), 9, left)


def test_each_report_is_judged_by_the_time_since_the_last_one() -> None:
    live, table = planned((VEGAS, 0), 0.1)
    now_s = known(live, table)
    drawn = lot(VEGAS, 0, is_trial=False, chance=0.1)
    slot = opened(live, table, 2, "192.0.2.8", arm=VEGAS, want_arm=VEGAS, **drawn)
    lasting = row(now_s, gain=1.0, cookie=2, ended=0, visit=9, arm=VEGAS)
    live.take(lasting, table, free, now_s)
    assert live.held.held(np.array([slot]))[0] == VEGAS
    # The second ten seconds bring nothing, which the mean of both does not show.
    lasting["outcome"]["busy_us"] *= 2
    live.take(lasting, table, free, now_s + 10)
    assert live.held.held(np.array([slot]))[0] == 0


def test_the_outcome_of_a_flow_that_left_counts_for_what_was_drawn() -> None:
    live, table = planned((0, VEGAS), 0.08)
    now_s = known(live, table)
    (number,) = live.prefixes.numbers()
    before = live.learner.posteriors.effects(np.array([number]), live.learner._wider, now_s)
    generation = 1 << 10 | VEGAS << 5
    ended = row(now_s, gain=-2.0, cookie=2, visit=9, generation=generation, weight=5, weights=100, arm=VEGAS)
    ended["outcome"]["share_arm"][0, :2] = LTP, VEGAS
    live.take(ended, table, free, now_s)
    live.take(rows_of(), table, free, now_s + 20)
    after = live.learner.posteriors.effects(np.array([number]), live.learner._wider, now_s)
    moved = after.mean[0] - before.mean[0]
    assert live.trials == 1
    assert moved[live.arms == VEGAS][0] < -0.5
    assert np.abs(moved[live.arms == LTP][0]) < 0.2


def test_the_decision_s_flows_begin_where_the_chooser_wants_it_whatever_is_tried() -> None:
    live, _ = planned((0, VEGAS), 0.08)
    number = live.prefixes.numbers()
    (prefix,) = incumbents(live, BEGIN_S)

    def begin(incumbent: int, trial: int) -> list[int]:
        lot = np.array([[incumbent, trial]], np.uint8)
        return [int(arm) for arm in live._starting(number, lot, BEGIN_S)[0]]

    assert begin(0, VEGAS) == [CUBIC, VEGAS]
    assert begin(0, CUBIC) == [CUBIC, CUBIC]
    assert begin(VEGAS, BBR) == [VEGAS, BBR]
    assert live.starts({prefix: BBR, B: VEGAS}, BEGIN_S) == {B: VEGAS}
    assert begin(0, VEGAS) == [BBR, VEGAS]
    assert begin(BBR, 0) == [BBR, BBR]
    live.starts({prefix: LTP}, BEGIN_S)
    assert begin(0, VEGAS) == [CUBIC, VEGAS]


def test_a_restart_keeps_where_the_chooser_wants_flows_to_begin_and_until_when() -> None:
    live, _ = planned((0, VEGAS), 0.08)
    (prefix,) = incumbents(live, BEGIN_S)
    live.starts({prefix: BBR}, BEGIN_S)
    saved, again, before = live.state(), made(Module({}, BBR)), made(Module({}, BBR))

    def begin(of: LiveLearner, now_s: float) -> int:
        return int(of._starting(of.prefixes.numbers(), np.array([[0, VEGAS]], np.uint8), now_s)[0, 0])

    again.restore(saved)
    assert [begin(again, BEGIN_S + age_s) for age_s in (599, 600)] == [BBR, CUBIC]
    # An earlier release did not save it.
    before.restore({name: array for name, array in saved.items() if not name.startswith("start")})
    assert begin(before, BEGIN_S) == CUBIC


def test_prefixes_that_others_rule_are_neither_learned_from_nor_planned() -> None:
    module = Module({A: GAINS}, BBR)
    live = made(module)
    now_s = run(live, module, 3)
    assert A in module.table
    live.release(none)
    assert module.table == {}
    table, before = FlowTable(home_netns=NETNS), live.visits
    for second in range(30):
        live.take(module.visit(A, now_s + second), table, none, now_s + second)
        live.plan(none, now_s + second)
    assert module.table == {}
    live.take(rows_of(), table, none, now_s + 60)
    assert live.visits == before
    (state,) = live.of(live.prefixes.numbers(), now_s)
    assert state.ruled


def test_flows_that_others_gave_arms_say_nothing() -> None:
    live, table = planned((0, VEGAS), 0.08)
    now_s = known(live, table)
    slot = opened(live, table, 7, "192.0.2.8", arm=BBR, want_arm=BBR)
    live.caused(np.array([slot]), np.array([Cause.OPERATOR], np.uint8))
    live.end(slot, 7)
    told = rows_of(
        row(now_s, cookie=7, visit=20),
        row(now_s, cookie=8, visit=21, cause=StartCause.NAMED),
        row(now_s, cookie=9, visit=22, cause=StartCause.REFUSED),
        row(now_s, cookie=10, visit=23, netns=5),
    )
    live.take(told, table, free, now_s)
    live.take(rows_of(), table, free, now_s + 20)
    assert live.visits == 6
    live.take(row(now_s + 20, cookie=7, visit=24), table, free, now_s + 20)
    live.take(rows_of(), table, free, now_s + 40)
    assert live.visits == 7


def test_where_the_decision_s_arm_starves_the_prefix_is_due() -> None:
    live, table = planned((0, VEGAS), 0.08)
    now_s = known(live, table)
    (number,) = live.prefixes.numbers()

    def due(starving: int, at_s: float, ruled: bool = False) -> bool:
        live._plans.ruled[number], live._plans.due[number] = ruled, False
        live.surprised(table, lambda slots: slots == starving, now_s + at_s)
        return bool(live._plans.due[number])

    assert not due(0, 0)
    ours = opened(live, table, 2, "192.0.2.8", arm=BBR, want_arm=BBR)
    pinned = opened(live, table, 3, "192.0.2.9", arm=BBR, want_arm=BBR)
    elsewhere = opened(live, table, 4, "198.51.100.7", arm=BBR, want_arm=BBR)
    live.caused(np.array([pinned]), np.array([Cause.OPERATOR], np.uint8))
    for starving, ruled in ((pinned, False), (elsewhere, False), (ours, True)):
        assert not due(starving, 0, ruled)
    assert [due(ours, at_s) for at_s in (1, 2, 602)] == [True, False, True]
    live.surprised(table, lambda slots: None, now_s + 2000)


def test_at_the_end_nothing_is_left_in_the_table() -> None:
    module = Module({A: GAINS, "2001:db8:7::/48": GAINS}, BBR)
    live = made(module)
    run(live, module, 2)
    assert {ipaddress.ip_network(prefix).version for prefix in module.table} == {4, 6}
    live.close_table()
    assert module.table == {}


def test_a_new_daemon_forgets_the_lots_of_the_last_one_alone() -> None:
    module = Module({A: GAINS}, BBR)
    live = made(module)
    run(live, module, 2)
    starts = StartingArms(module, 600)
    starts.write({B: VEGAS})
    starts.forget_lots()
    assert module.table.keys() == {B}


def test_the_paths_of_open_flows_are_told_in_turns() -> None:
    """Of 600 flows to two prefixes, of which one is known, each has its turn in three looks."""
    module = Module({A: GAINS}, BBR)
    live, table = made(module), FlowTable(home_netns=NETNS)
    live.take(rows_of(module.visit(A, BEGIN_S)), table, free, BEGIN_S)
    for cookie in range(1, 601):
        table.add(flow(cookie, "192.0.2.7" if cookie % 2 else "203.0.113.9"), 0)
    asked: list[int] = []

    def path(slots: np.ndarray) -> Told:
        asked.extend(slots.tolist())
        value = np.full((slots.size, len(Number)), np.nan)
        value[:, Number.PROPAGATION] = 40_000.0
        return Told(value, value, value)

    for second in range(3):
        live.walk(table, path)
        live.plan(free, BEGIN_S + second)
    assert sorted(asked) == sorted(table.slots())
    count = live.learner.paths.state()["path_count"]
    assert count.shape[0] == len(live.prefixes) == 1
    assert np.flatnonzero(count[0]).tolist() == [Number.PROPAGATION]
    live.walk(table, lambda slots: None)
    assert np.array_equal(live.learner.paths.state()["path_count"], count)
