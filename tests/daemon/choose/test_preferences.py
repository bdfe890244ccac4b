# SPDX-License-Identifier: Apache-2.0
"""The outcomes of tournaments age, and end with the path. Where they bind no flow, they are preferences."""

import numpy as np
import pytest
from support.pair_path import BBR, LTP, PREFIX, VEGAS, Path

from ltp_switcher.daemon.choose.chooser import Verdict

TEN_MINUTES_NS = 600_000_000_000
BETTER = {LTP: 1.0, BBR: 1.25, VEGAS: 0.9}


def preferring(worth: dict[int, float] = BETTER) -> Path:
    """A path whose first flow has found the arm that flows prefer."""
    path = Path(worth=worth, binds=False)
    path.open(0)
    path.run()
    assert not path.searching
    return path


def tell(path: Path, verdict: Verdict, slot: int = 0) -> None:
    path.teams.hear(np.array([slot]), np.array([verdict], np.uint8))


def test_a_better_arm_is_preferred_and_binds_no_flow() -> None:
    path = preferring()
    assert path.teams.preferred[PREFIX].team == (BBR,)
    assert path.preferred == {0: BBR}
    path.open(1)
    assert path.preferred == {0: BBR, 1: BBR}, "the next flow prefers it at once"
    assert (path.pools, path.teams.found, path.searching) == ({}, {}, False)


def test_where_the_incumbent_is_the_best_the_policy_chooses_freely() -> None:
    path = preferring({LTP: 1.0, BBR: 0.6, VEGAS: 0.25})
    assert path.teams.preferred[PREFIX].team == ()
    path.open(1)
    assert (path.preferred, path.pools, path.searching) == ({}, {}, False)


def test_a_preference_ages_in_ten_minutes_and_its_flows_compare_anew() -> None:
    path = preferring()
    found_ns = path.now_ns
    path.now_ns = found_ns + TEN_MINUTES_NS - 100_000_000
    path.step()
    assert PREFIX in path.teams.preferred
    path.now_ns = found_ns + TEN_MINUTES_NS
    path.step()
    assert PREFIX not in path.teams.preferred
    assert path.pools == {0: (BBR, VEGAS, LTP)}
    assert [*path.comparison.members] == [0]
    path.open(1)
    assert path.preferred == {0: BBR}


@pytest.mark.parametrize("verdict", [Verdict.OTHER_PATH, Verdict.EARNED_LESS])
def test_news_end_a_preference_and_the_next_tournament_waits_until_it_has_aged(verdict: Verdict) -> None:
    path = preferring()
    path.open(1)
    tell(path, verdict)
    assert path.pools == dict.fromkeys((0, 1), (BBR, VEGAS, LTP)), "a pool ends the flows' preference"
    path.preferred.clear()
    path.open(2)
    tell(path, verdict, slot=2)
    path.step()
    assert (path.preferred, path.searching) == ({}, False)
    path.now_ns += TEN_MINUTES_NS
    path.step()
    assert [*path.comparison.members] == [0, 1, 2]


def test_on_another_path_a_tournament_under_way_begins_anew() -> None:
    path = Path(worth=BETTER, binds=False)
    path.open(0)
    while path.comparison.progress.pulls < 2:
        path.step()
    tell(path, Verdict.EARNED_LESS)
    assert path.comparison.progress.pulls == 2, "no preference has earned anything yet"
    tell(path, Verdict.OTHER_PATH)
    assert path.comparison.progress.pulls == 0
    path.run()
    assert path.teams.preferred[PREFIX].team == (BBR,)


def test_news_end_a_team_as_well() -> None:
    path = Path(worth=BETTER)
    path.open(0)
    path.run()
    assert path.pools == {0: (BBR,)}
    tell(path, Verdict.OTHER_PATH)
    assert path.pools == {0: (BBR, VEGAS, LTP)}
    assert PREFIX not in path.teams.found
    path.open(1)
    assert (1 in path.pools, path.searching) == (False, False)


def test_news_of_a_flow_outside_of_team_selection_count_for_nothing() -> None:
    path = preferring()
    tell(path, Verdict.OTHER_PATH, slot=9)
    assert PREFIX in path.teams.preferred


@pytest.mark.parametrize("pool", [False, True])
def test_another_pool_and_a_request_end_all_preferences(pool: bool) -> None:
    path = preferring()
    if pool:
        path.teams.configure(path.teams.settings, 1, (BBR, LTP))
        assert path.comparison.terms.candidates == (BBR, LTP)
    else:
        path.teams.restart()
        (search,) = path.teams.searches.values()
        assert search.progress.method == "budget"
    assert not path.teams.preferred


@pytest.mark.parametrize(("age_ns", "kept"), [(100_000_000_000, True), (700_000_000_000, False)])
def test_a_preference_outlives_the_daemon_and_grows_old_meanwhile(age_ns: int, kept: bool) -> None:
    path = preferring()
    saved = path.teams.state()
    saved["preferred_found_ns"] = saved["preferred_found_ns"] - age_ns
    again = Path(binds=False)
    again.now_ns = path.now_ns
    again.teams.restore(saved)
    again.open(3)
    assert again.preferred == {3: BBR}
    again.step()
    assert (PREFIX in again.teams.preferred) == kept


def test_a_team_that_binds_ages_as_well() -> None:
    path = Path(worth=BETTER)
    path.open(0)
    path.run()
    assert path.pools == {0: (BBR,)}
    path.now_ns += TEN_MINUTES_NS
    path.step()
    assert path.pools == {0: (BBR, VEGAS, LTP)}
    assert [*path.search.members] == [0]


def test_a_team_of_algorithm_2_does_not_age() -> None:
    path = Path()
    path.open(0)
    path.teams.restart()
    path.run(20_000)
    team = path.teams.found[PREFIX]
    assert team.method == "budget"
    path.now_ns += 2 * TEN_MINUTES_NS
    path.step()
    assert path.teams.found[PREFIX] == team


def test_a_request_for_teams_of_all_arms_leaves_the_comparison_to_begin_anew() -> None:
    path = Path(worth=BETTER, binds=False, k=3)
    path.open(0)
    path.run()
    path.teams.restart()
    assert [*path.comparison.members] == [0]
    assert not path.teams.preferred


def test_a_pool_of_one_arm_needs_no_tournament() -> None:
    path = Path(binds=False)
    path.teams.configure(path.teams.settings, 1, (LTP,))
    path.open(0)
    assert not path.searching
