# SPDX-License-Identifier: Apache-2.0
"""Paired tournaments on flows whose arms have known worth."""

import dataclasses

import numpy as np
import pytest
from support.pair_path import BBR, LTP, PREFIX, RTT_US, SETTINGS, STEP_NS, VEGAS, WORTH, Path

from ltp_switcher.daemon.choose.teams.pairs import log_ratio
from ltp_switcher.daemon.choose.teams.terms import STALLED_NS
from ltp_switcher.daemon.datapath.commands import PINNED
from ltp_switcher.daemon.datapath.protocol import FlowFlags


def test_the_incumbent_stays_where_it_is_the_best() -> None:
    path = Path()
    path.open(0)
    path.run()
    outcome = path.teams.found[PREFIX]
    assert (outcome.team, outcome.method) == ((LTP,), "tournament")
    assert outcome.means is not None
    # Eq. 1 squares the throughput.
    expected = {LTP: 0.0, BBR: 2 * np.log(0.6), VEGAS: 2 * np.log(0.25)}
    assert outcome.means == pytest.approx(expected, abs=0.05)
    assert path.pools == {0: (LTP,)}


def test_a_better_arm_wins_though_all_rates_rise_meanwhile() -> None:
    """The rate grows by a tenth of a percent a step, so by half within a pair."""
    path = Path(worth={LTP: 1.0, BBR: 1.25, VEGAS: 0.9})
    path.open(0)
    path.run()
    outcome = path.teams.found[PREFIX]
    assert outcome.team == (BBR,)
    assert outcome.means is not None
    assert outcome.means[BBR] == pytest.approx(2 * np.log(1.25), abs=0.05)


def test_a_bad_arm_is_aborted_and_weighs_less() -> None:
    path = Path()
    path.open(0)
    away = {BBR: 0, VEGAS: 0}
    while path.teams.searches and sum(away.values()) < 2000:
        path.step()
        arm = path.given[0]
        if arm in away:
            away[arm] += 1
    assert away[VEGAS] < 0.8 * away[BBR], "vegas earns a sixteenth, bbr a third"
    assert min(away.values()) > 0


def test_an_arm_that_fills_the_queue_does_not_stretch_its_own_half() -> None:
    """Its round trips take 0.9 s. It has four of the incumbent's to settle, and three to show its worth."""
    path = Path()
    path.slower[BBR] = path.slower[VEGAS] = 30
    path.open(0)
    path.run_to_pull()
    before_ns = path.away_ns - STEP_NS
    while path.given[0] != LTP:
        path.step()
    assert path.away_ns - before_ns <= (4 + 3) * RTT_US * 1000 + 4 * STEP_NS
    path.run()
    assert path.teams.found[PREFIX].team == (LTP,)


def test_noise_ends_a_tournament_early_and_leaves_the_order() -> None:
    path = Path(noise=1.2, worth={LTP: 1.0, BBR: 1.0, VEGAS: 1.0}, k=2)
    path.open(0)
    path.run()
    assert path.teams.found[PREFIX].team == (LTP, BBR)


def test_all_flows_of_a_prefix_change_their_arm_together() -> None:
    path = Path()
    path.open(0, 1, 2)
    for _ in range(600):
        path.step()
        assert len(set(path.given.values())) == 1
    assert path.away_ns > 0
    path.run()
    assert path.teams.found[PREFIX].team == (LTP,)
    assert path.pools == dict.fromkeys((0, 1, 2), (LTP,))


@pytest.mark.parametrize("flag", [FlowFlags.DRAINING, FlowFlags.APP_LIMITED, PINNED])
def test_no_pair_begins_while_a_queue_drains_or_the_flow_is_idle_or_pinned(flag: int) -> None:
    path = Path()
    path.flags = int(flag)
    path.open(0)
    path.run(300)
    assert path.away_ns == 0
    path.flags = 0
    path.run_to_pull()


def test_no_pair_begins_just_after_the_arm_emptied_the_queue() -> None:
    """The queue was empty within the last quarter of a second: the next arm would find none."""
    path = Path()
    path.open(0)
    for _ in range(30):
        path.flags = int(FlowFlags.DRAINING)
        path.step()
        path.flags = 0
        path.run(20)
        assert path.away_ns == 0
    path.run_to_pull()


def test_an_incumbent_that_empties_the_queue_before_the_other_arm_ends_the_pair() -> None:
    """The other arm would take over an empty path."""
    path = Path()
    path.open(0)
    path.run(12)
    assert path.search.pair is not None
    assert path.search.pair.half == 0
    path.flags = int(FlowFlags.DRAINING)
    path.step()
    assert path.search.pair is None
    path.flags = 0
    path.run(20)
    assert path.away_ns == 0
    path.run_to_pull()


def test_no_pair_runs_while_the_policy_probes() -> None:
    path = Path()
    path.free = False
    path.open(0)
    path.run(300)
    assert path.away_ns == 0
    path.free = True
    path.run_to_pull()
    path.free = False
    path.step()
    assert path.given == {0: LTP}, "the policy has its flow back at once"
    assert path.search.progress.pulls == 0


def test_another_incumbent_starts_the_tournament_anew() -> None:
    path = Path()
    path.open(0)
    while path.search.progress.pulls < 2:
        path.step()
    while path.given[0] != path.policy:
        path.step()
    path.policy = VEGAS
    path.run(20)
    assert path.search.progress.pulls == 0
    assert path.search.progress.means[VEGAS] == 0.0
    path.run()
    assert path.teams.found[PREFIX].team == (LTP,)


def test_a_flow_that_comes_or_goes_or_falls_silent_ends_the_pair() -> None:
    path = Path()
    path.open(0, 1)
    for end in (lambda: path.open(2), lambda: path.close(2)):
        path.run_to_pull()
        end()
        path.step()
        assert set(path.given.values()) == {LTP}
    path.run_to_pull()
    for _ in range(STALLED_NS // STEP_NS + 2):
        path.step(1)
    assert path.search.progress.pulls == 0
    assert path.runs[1] != LTP
    path.step()
    assert path.given[1] == LTP


def test_a_flow_that_an_operator_moves_ends_the_pair() -> None:
    path = Path()
    path.open(0)
    path.run_to_pull()
    for _ in range(15):
        path.step()
    path.runs[0] = 7
    path.worth = {**WORTH, 7: 1.0}
    path.step()
    assert path.given == {0: LTP}
    assert path.search.progress.pulls == 0


def test_a_prefix_pays_its_share_and_no_more() -> None:
    """An arm without worth costs its time: a share of the first minute, half of that later."""
    settings = dataclasses.replace(SETTINGS, share=0.015)
    path = Path(settings=settings, worth={LTP: 1.0, BBR: 0.1, VEGAS: 0.1})
    path.open(0)
    began_s, away_s = [], []
    while path.teams.searches:
        path.run_to_pull(10_000)
        began_s.append(path.now_ns * 1e-9)
        before_ns = path.away_ns
        while path.given[0] != LTP:
            path.step()
        away_s.append((path.away_ns - before_ns) * 1e-9)
        for _ in range(30):
            path.step()
    assert len(began_s) == 6
    waited_s = np.diff([1.0, *began_s])
    # The price has the way back, too, which is two round trips.
    assert waited_s[0] >= (9 * 0.03) / 0.015
    for i in range(1, 6):
        share = 0.015 if began_s[i] < 61.0 else 0.0075 if began_s[i - 1] > 61.0 else 0.011
        assert 0.8 * away_s[i - 1] / share <= waited_s[i] <= 2.0 * away_s[i - 1] / share
    assert began_s[-2] > 61.0


def test_a_tournament_goes_on_with_the_next_flow() -> None:
    path = Path()
    path.open(0)
    while path.search.progress.pulls < 3:
        path.step()
    path.close(0)
    assert not path.teams.searches
    path.open(4)
    assert path.search.progress.pulls == 3
    path.run()
    path.open(5)
    assert path.pools[5] == (LTP,)


def test_a_team_of_a_tournament_survives_a_restart() -> None:
    path = Path()
    path.open(0)
    path.run()
    again = Path()
    again.teams.restore(path.teams.state())
    (before,), (after,) = path.teams.found.values(), again.teams.found.values()
    assert abs(after.found_ns - before.found_ns) < 1_000_000_000
    assert dataclasses.replace(after, found_ns=before.found_ns) == before
    again.open(7)
    assert (again.pools, again.teams.searches) == ({7: (LTP,)}, {})


def test_on_request_algorithm_2_takes_over() -> None:
    path = Path(settings=dataclasses.replace(SETTINGS, budget=30))
    path.open(0)
    path.step()
    path.teams.restart()
    (search,) = path.teams.searches.values()
    assert (search.progress.method, search.progress.budget) == ("budget", 30)
    path.run()
    assert path.teams.found[PREFIX].method == "budget"


def test_a_path_that_carries_nothing_has_no_value() -> None:
    assert log_ratio(0.0, 0.0, 0.0) is None
    assert log_ratio(2.0, 4.0, 8.0) == pytest.approx(0.0)
    assert log_ratio(1.0, 0.0, 1.0) == pytest.approx(np.log(1e-3))
    assert log_ratio(0.0, 1.0, 1.0) == pytest.approx(-0.5 * np.log(1e-3))
