# SPDX-License-Identifier: Apache-2.0
"""Team selection by whole visits, from the module's table and back, with a table and visits that are made
here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from support.records import NETNS
from support.told import Module, row

from ltp_switcher.daemon.choose.teams.teams import Teams
from ltp_switcher.daemon.choose.teams.terms import Terms
from ltp_switcher.daemon.datapath.protocol import ArmId
from ltp_switcher.daemon.gain.outcomes import ROW_DTYPE
from ltp_switcher.daemon.settings.schema import MptsSection
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.daemon.step.learning import lots, places
from ltp_switcher.daemon.step.learning.live import LiveLearner
from ltp_switcher.daemon.step.starts import StartingArms

BBR, VEGAS, CUBIC, WESTWOOD, YEAH = (
    int(arm) for arm in (ArmId.BBR, ArmId.VEGAS, ArmId.CUBIC, ArmId.WESTWOOD, ArmId.YEAH)
)
NAMES = {int(arm): arm.name.lower() for arm in ArmId}
BEGIN_S = 1_800_000_000.0
A, B = "192.0.2.0/24", "198.51.100.0/24"
GAINS = {BBR: 0.0, VEGAS: -0.6, CUBIC: -0.3, WESTWOOD: -1.0, YEAH: 0.9}
"""The decision runs BBR. The learner knows neither Westwood nor YeAH."""
TERMS = Terms((CUBIC, BBR, VEGAS, WESTWOOD, YEAH), 2)
HELD = {"ruled": False}


def free(prefixes: Sequence[str]) -> np.ndarray:
    return np.full(len(prefixes), not HELD["ruled"])


class World:
    """A learner with the selections of a daemon, and a module with these prefixes."""

    def __init__(self, *prefixes: str, budget: int = 40, noise: float = 0.2) -> None:
        self.module = Module(dict.fromkeys(prefixes, GAINS), BBR, noise=noise)
        self.live = LiveLearner([BBR, VEGAS, CUBIC], CUBIC, StartingArms(self.module, 600), 600)
        self.teams = Teams(
            MptsSection(enabled=False, budget=budget), [BBR, VEGAS], 1, lambda *_: None, names=NAMES,
            zeta=5.0, kappa=2.0,
        )  # fmt: skip
        self.live.pulls = self.teams.visits
        self.now_s = BEGIN_S
        self._table = FlowTable(home_netns=NETNS)

    def run(self, visits: int, *, each_s: int = 15, told: bool = True, until_found: bool = False) -> int:
        """So many visits of each prefix, one after the other. Returns how many there were."""
        for number in range(visits):
            if until_found and A not in self.teams.visits.searches:
                return number
            rows = [self.module.visit(prefix, self.now_s) for prefix in self.module.gains if told]
            self.look(each_s, np.concatenate([np.zeros(0, ROW_DTYPE), *rows]))
        return visits

    def look(self, seconds: int, rows: np.ndarray | None = None) -> None:
        rows = np.zeros(0, ROW_DTYPE) if rows is None else rows
        for second in range(seconds):
            self.live.take(rows if not second else rows[:0], self._table, free, self.now_s)
            self.live.plan(free, self.now_s)
            self.now_s += 1.0

    def start(self, prefix: str = A) -> None:
        self.teams.restart_by_visits(prefix, TERMS, self.now_s)

    def spent(self) -> float:
        return self.live.learner.purse.totals[1]


@pytest.fixture(autouse=True)
def unruled() -> None:
    HELD["ruled"] = False


def test_the_best_arms_are_found_though_the_learner_knows_one_of_them_alone() -> None:
    world = World(A, B)
    world.run(5)
    before = len(world.module.drawn)
    world.start()
    taken = world.run(300, until_found=True)
    outcome = world.teams.found[A]
    assert outcome.team == (YEAH, BBR)
    means = outcome.means
    assert means is not None
    assert sorted(means, key=means.__getitem__) == [WESTWOOD, VEGAS, CUBIC, BBR, YEAH]
    assert means[YEAH] - means[BBR] == pytest.approx(0.9, abs=0.35)
    # About every second visit is a pull, and the others run the incumbent.
    assert 50 <= taken <= 130
    drawn = [visit for visit in world.module.drawn[before:] if visit.prefix == A]
    assert {visit.lot for visit in drawn} >= {0, *TERMS.candidates}
    pulls = sum(visit.is_trial for visit in drawn)
    assert 40 <= pulls <= 44
    assert 0.35 < pulls / len(drawn) < 0.65
    # The other prefix has not heard of it.
    assert {visit.lot for visit in world.module.drawn if visit.prefix == B} <= {0, BBR, VEGAS, CUBIC}
    # The plan has no pull any more.
    world.look(2)
    assert world.module.table[A]["choice"]["arm"][1] not in {WESTWOOD, YEAH}


def test_the_entry_names_the_arm_of_the_next_pull_with_half_of_the_weight() -> None:
    world = World(A)
    world.run(5)
    world.start()
    world.look(1)
    due = world.teams.visits.due(A)
    entry = world.module.table[A]
    assert entry["choice"]["arm"].tolist() == [CUBIC, due, 0, 0], "the decision's flows begin on the default"
    assert entry["choice"]["weight"].tolist() == [32_768, 32_767, 0, 0]
    (state,) = world.live.of(np.array([0]), world.now_s)
    assert (state.incumbent, state.trial, state.chance) == (0, due, pytest.approx(0.5, abs=1e-4))
    world.teams.cancel(A)
    world.look(1)
    assert not lots.are_pulls(world.module.table[A]["generation"][None], np.array([due]))[0]


def test_the_selection_has_its_own_ledger_and_draws_on_no_purse() -> None:
    """The learner tries nothing itself here, because it has no money after five visits."""
    world = World(A, noise=0.0)
    world.run(5)
    assert world.spent() == 0.0
    world.start()
    world.run(300, until_found=True)
    outcome = world.teams.found[A]
    pulls = [visit.lot for visit in world.module.drawn if visit.is_trial]
    # A flow costs the log ratio to what the decision earns, and one at most; its gain counts as much.
    assert outcome.cost == pytest.approx(sum(min(max(-GAINS[lot], -1), 1) for lot in pulls), rel=0.25)
    assert world.spent() == 0.0
    # The arms that the learner knows have taught it.
    (state,) = world.live.of(np.array([0]), world.now_s)
    known = {one.arm: one.mean for one in state.effects}
    assert known[VEGAS] == pytest.approx(-0.6, abs=0.3)
    assert state.flows < len(world.module.drawn), "visits on arms that it does not know earn nothing"


def test_a_selection_leaves_the_money_of_the_learner_s_own_trials_to_other_prefixes() -> None:
    world = World(A, noise=0.0)
    world.run(5)
    purse = world.live.learner.purse
    purse.earn(np.zeros(1, np.int64), np.array([1000.0]))
    world.look(10)
    assert purse._aside.sum() > 0
    world.start()
    world.look(60)
    assert world.module.table[A]["choice"]["weight"][1] == 32_767
    assert purse._aside.sum() == 0


def test_arms_that_the_learner_does_not_know_leave_the_lines_alone() -> None:
    """Otherwise the values of all visits would follow the arms that are pulled."""
    world = World(A)
    world.run(5)
    world.start()
    world.run(60)
    drawn = [visit.lot for visit in world.module.drawn]
    others = sum(lot in {WESTWOOD, YEAH} for lot in drawn)
    assert others > 3
    assert world.live.prefixes.lines.flows[0].sum() == len(drawn) - others


def test_a_pull_on_the_incumbent_costs_nothing() -> None:
    world = World(A)
    world.run(5)
    world.live.learner._incumbents[0] = 1
    world.live.learner._best = lambda prefixes, _: world.live.learner._incumbents[prefixes]  # type: ignore[method-assign]
    assert world.live.arms[1] == BBR
    world.start()
    while world.teams.visits.due(A) != BBR:
        world.run(1)
    world.look(2)
    assert world.module.table[A]["choice"]["arm"].tolist()[:2] == [BBR, BBR]
    search = world.teams.visits.searches[A]
    before, pulls = search.cost, search.progress.pulls
    world.run(1)
    assert (search.cost, search.progress.pulls) == (before, pulls + 1), "both lots are the arm that is due"


def test_a_selection_that_cannot_go_on_ends_and_says_why() -> None:
    def begun() -> World:
        world = World(A)
        world.run(5)
        world.start()
        world.look(1)
        assert A in world.teams.visits.searches
        return world

    def reason(world: World) -> str:
        world.look(1)
        assert not world.teams.searches
        return world.teams.visits.given_up[A].reason

    world = begun()
    HELD["ruled"] = True
    assert "a policy or an experiment" in reason(world)
    HELD["ruled"] = False
    world = begun()
    world.live.prefixes.forget(np.array([0]))
    assert "forgotten the prefix" in reason(world)
    world = begun()
    world.live.holds = False
    assert "the loaded module" in reason(world)
    world = begun()
    world.now_s += 6 * 3600
    assert reason(world) == "no visit has counted for 6 hours"


def test_hosts_with_entries_of_their_own_pull_for_their_prefix() -> None:
    world = World(A)
    world.run(5)
    prefixes = world.live.prefixes
    host = "192.0.2.1/32"
    number = prefixes._add(place_of(host))
    prefixes.parent[number], prefixes.seen_s[number], prefixes.hosts[0] = 0, world.now_s, 1
    world.live.learner.join(np.array([number]), np.array([0]))
    world.start()
    world.look(1)
    due = world.teams.visits.due(A)
    assert world.module.table[host]["choice"]["arm"][1] == due
    # The module looks for the longest prefix.
    world.module.gains[host] = GAINS
    del world.module.gains[A]
    for _ in range(20):
        world.run(1)
    assert world.teams.visits.searches[A].progress.pulls > 3


def place_of(host: str) -> np.void:
    found: np.void = places.hosts_of(row(0.0, host.split("/")[0])["outcome"])[0]
    return found


def test_a_restarted_daemon_forgets_the_selection_and_charges_its_last_visits_to_nobody() -> None:
    first = World(A, noise=0.0)
    first.run(5)
    first.start()
    first.look(1)
    told = first.module.visit(A, first.now_s)
    while not first.module.drawn[-1].is_trial or first.module.drawn[-1].lot != VEGAS:
        first.look(15, told)
        told = first.module.visit(A, first.now_s)
    first.look(1, told)
    second = World(A)
    assert second.live.restore(first.live.state())
    second.now_s = first.now_s
    spent = second.spent()
    second.look(15)
    assert second.live.visits >= 1
    assert second.spent() == spent
