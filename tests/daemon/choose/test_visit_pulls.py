# SPDX-License-Identifier: Apache-2.0
"""Team selection by Algorithm 2 with whole visits as pulls, on visits that are made here."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.daemon.choose.teams.teams import Teams
from ltp_switcher.daemon.choose.teams.terms import Terms
from ltp_switcher.daemon.choose.teams.visits import GIVEN_UP_MAX, PATIENCE_S
from ltp_switcher.daemon.settings.schema import MptsSection
from ltp_switcher.errors import InvalidValueError

PREFIX = "192.0.2.0/24"
NAMES = {arm: f"arm{arm}" for arm in range(1, 21)}
BEGIN_S = 1_800_000_000.0


def made(budget: int = 60, *, enabled: bool = False) -> tuple[Teams, dict[int, tuple[int, ...]]]:
    """Team selection over the arms 1 and 2, and the pools that flows have got by slot."""
    pools: dict[int, tuple[int, ...]] = {}

    def set_pool(arms, slots) -> None:  # noqa: ANN001
        pools.update(dict.fromkeys([] if slots is None else slots.tolist(), tuple(arms)))

    settings = MptsSection(enabled=enabled, budget=budget)
    return Teams(settings, [1, 2], 1, set_pool, names=NAMES, zeta=5.0, kappa=2.0), pools


def run(teams: Teams, worth: dict[int, float], visits: int = 1000, cost: float = 0.5) -> int:
    """Visits that draw the arm which is due, until the selection ends. Returns their number."""
    for number in range(visits):
        if PREFIX not in teams.visits.searches:
            return number
        arm = teams.visits.due(PREFIX)
        teams.visits.take(PREFIX, arm, worth[arm], cost, BEGIN_S + 60 * number)
    return visits


@given(
    st.lists(st.integers(-60, 60), min_size=2, max_size=16, unique=True),
    st.integers(1, 15),
    st.integers(0, 100),
    st.integers(0, 2**32 - 1),
    st.integers(1, 5),
)
def test_the_pulls_are_never_more_than_the_budget_and_the_best_arm_is_in_the_team(
    means: list[int], k: int, more: int, seed: int, together: int
) -> None:
    """The noise of a visit is less than half of the least distance of two arms. Several visits draw an arm
    before the first of them has ended, and some end late, after another arm is due.
    """
    rng = np.random.default_rng(seed)
    k, budget = min(k, len(means) - 1), len(means) + more
    worth = {arm + 3: mean / 10 for arm, mean in enumerate(means)}
    teams, _ = made(budget)
    teams.restart_by_visits(PREFIX, Terms.of(tuple(worth), k), BEGIN_S)
    search, late, ended = teams.visits.searches[PREFIX], [], 0
    while PREFIX in teams.visits.searches:
        due = teams.visits.due(PREFIX)
        drew = [due] * int(rng.integers(1, together + 1))
        rest = late if rng.random() < 0.5 else []
        for arm in [drew[0], *rest]:
            teams.visits.take(PREFIX, arm, worth[arm] + rng.uniform(-0.04, 0.04), 0.25, BEGIN_S)
            ended += 1
            pulls = teams.searches[PREFIX].progress.pulls if PREFIX in teams.searches else budget
            assert pulls <= min(budget, ended)
            # A visit that has ended already counts before a further one is asked for.
            assert not search.ahead.get(search.bandit.next_arm() or 0) or PREFIX in teams.found
        late = drew[1:] + ([] if rest else late)
        assert ended < 20 * budget
    outcome = teams.found[PREFIX]
    assert search.bandit.pulls.sum() == budget
    assert (search.bandit.pulls >= 1).all()
    assert len(set(outcome.team)) == k
    assert outcome.team[0] == max(worth, key=worth.__getitem__)
    assert set(outcome.team) == set(sorted(worth, key=worth.__getitem__)[-k:])
    assert outcome.means == pytest.approx(worth, abs=0.04)
    # Each visit has a price, the ones beyond the budget as well.
    assert outcome.cost == pytest.approx(0.25 * ended)


def test_open_and_later_flows_choose_among_the_team() -> None:
    teams, pools = made()
    teams.open(np.array([0, 1]), [PREFIX, "198.51.100.0/24"])
    teams.restart_by_visits(PREFIX, Terms((1, 2, 3, 4), 2), BEGIN_S)
    teams.open(np.array([2]), [PREFIX])
    assert run(teams, {1: 0.0, 2: -1.0, 3: 1.0, 4: 0.5}) == 60
    assert teams.found[PREFIX].team == (3, 4)
    assert (pools[0], pools[2], pools.get(1)) == ((3, 4), (3, 4), None)
    teams.open(np.array([3]), [PREFIX])
    assert pools[3] == (3, 4)


def test_no_tournament_begins_beside_a_selection_by_visits() -> None:
    teams, _ = made(enabled=True)
    teams.restart_by_visits(PREFIX, Terms((1, 2, 3), 1), BEGIN_S)
    teams.open(np.array([0, 1]), [PREFIX, "198.51.100.0/24"])
    assert {prefix: one.progress.method for prefix, one in teams.searches.items()} == {
        PREFIX: "visits", "198.51.100.0/24": "tournament",
    }  # fmt: skip
    assert list(teams._tournaments.searches) == ["198.51.100.0/24"]


def test_a_visit_that_ends_late_adds_its_cost_and_changes_nothing_else() -> None:
    teams, _ = made(budget=4)
    teams.restart_by_visits(PREFIX, Terms((1, 2, 3), 1), BEGIN_S)
    run(teams, {1: 0.0, 2: 1.0, 3: -1.0})
    before = teams.found[PREFIX]
    assert before.cost == pytest.approx(2.0)
    teams.visits.take(PREFIX, 3, 9.0, 0.75, BEGIN_S)
    after = teams.found[PREFIX]
    assert (after.team, after.means, after.cost) == (before.team, before.means, pytest.approx(2.75))
    # Nobody asked for this one.
    teams.visits.take("198.51.100.0/24", 3, 9.0, 0.75, BEGIN_S)
    assert list(teams.found) == [PREFIX]


def test_a_visit_on_an_arm_of_an_earlier_selection_costs_and_is_no_pull() -> None:
    teams, _ = made()
    teams.restart_by_visits(PREFIX, Terms((1, 2, 3), 1), BEGIN_S)
    teams.visits.take(PREFIX, 9, 0.0, 0.5, BEGIN_S)
    progress = teams.searches[PREFIX].progress
    assert (progress.pulls, progress.cost) == (0, 0.5)
    assert progress.means == dict.fromkeys((1, 2, 3))


def test_an_end_without_a_team_has_a_reason_and_a_cost() -> None:
    teams, _ = made()
    terms = Terms((1, 2, 3), 1)

    def ends() -> tuple[str, int, float]:
        assert not teams.visits.searches
        assert not teams.found
        one = teams.visits.given_up[PREFIX]
        return one.reason, one.search.progress.pulls, one.search.cost

    def begin() -> None:
        teams.restart_by_visits(PREFIX, terms, BEGIN_S)
        assert not teams.visits.given_up
        run(teams, dict.fromkeys(terms.candidates, 0.0), visits=5)

    begin()
    assert teams.cancel(PREFIX) == 1
    assert ends() == ("it was cancelled", 5, 2.5)
    teams.visits.take(PREFIX, 2, 0.0, 0.5, BEGIN_S)
    assert ends() == ("it was cancelled", 5, 3.0)
    begin()
    teams.configure(teams.settings, 2, [1, 2, 3])
    assert ends()[0] == "the pool or the size of teams has changed"
    begin()
    teams.restart()
    assert ends()[0] == "another selection began"
    begin()
    last_s = BEGIN_S + 60 * 4
    teams.visits.look(last_s + PATIENCE_S - 1)
    assert PREFIX in teams.visits.searches
    teams.visits.look(last_s + PATIENCE_S)
    assert ends() == ("no visit has counted for 6 hours", 5, 2.5)


def test_only_the_last_ends_are_remembered() -> None:
    teams, _ = made()
    for number in range(GIVEN_UP_MAX + 5):
        prefix = f"10.0.{number}.0/24"
        teams.restart_by_visits(prefix, Terms((1, 2, 3), 1), BEGIN_S)
        teams.cancel(prefix)
    assert len(teams.visits.given_up) == GIVEN_UP_MAX
    assert next(iter(teams.visits.given_up)) == "10.0.5.0/24"


@pytest.mark.parametrize(
    ("terms", "budget", "field", "allowed"),
    [
        (Terms((1, 2, 3), 3), 60, "pool.k", "1 to 2, less than the 3 arms that can begin a flow"),
        (Terms((1, 2, 3, 4), 1), 3, "mpts.budget", "4 or more: every arm is pulled once"),
    ],
)
def test_a_selection_that_could_not_select_is_refused_and_changes_nothing(
    terms: Terms, budget: int, field: str, allowed: str
) -> None:
    teams, _ = made(budget)
    teams.open(np.array([0]), [PREFIX])
    teams.restart()
    before = teams.searches
    assert before
    with pytest.raises(InvalidValueError) as caught:
        teams.restart_by_visits(PREFIX, terms, BEGIN_S)
    assert (caught.value.field, caught.value.allowed) == (field, allowed)
    assert teams.searches == before


def test_a_restart_keeps_the_team_its_method_and_its_cost() -> None:
    first, _ = made(budget=4)
    first.restart_by_visits(PREFIX, Terms((1, 2, 3), 1), BEGIN_S)
    run(first, {1: 0.0, 2: 1.0, 3: -1.0})
    second, _ = made(budget=4)
    second.restore(first.state())
    assert second.found == first.found
    assert second.found[PREFIX].cost == pytest.approx(2.0)
    # An earlier release saved no costs.
    old = {name: array for name, array in first.state().items() if name != "costs"}
    second.restore(old)
    assert second.found[PREFIX].cost is None
