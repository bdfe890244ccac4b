# SPDX-License-Identifier: Apache-2.0
"""How far runs of team selection agree, and a tournament on the real kernel."""

import tomllib

import pytest
from rich.console import Console

from ltp_switcher.eval.report.team_agreement import Agreement, agreement_table, measure_agreement
from ltp_switcher.eval.run.scenario import parse_scenario

SLOW = """
name = "tournament"
duration_s = 40
[link]
rate_mbps = 10.0
rtt_ms = 20.0
buffer_bdp = 2.0
[[flow]]
scheme = "switcher"
"""
ARMS = {"bbr": -0.2, "ltp": 0.0, "vegas": -0.1}


def test_the_agreement_is_the_share_of_the_most_frequent_team() -> None:
    teams = {1: ("bbr", "ltp"), 2: ("ltp", "bbr"), 3: ("bbr", "vegas"), 4: ()}
    found = Agreement("path", "tournament", teams, {1: ARMS, 2: ARMS, 3: ARMS, 4: {}})
    assert (found.agreement, found.k, found.arms) == (0.5, 2, 3)
    assert found.shared == pytest.approx((2 + 1 + 0 + 1 + 0 + 0) / 6)
    assert found.chance == pytest.approx(4 / 3)
    assert found.to_dict()["agreement"] == 0.5
    with Console(width=120) as console, console.capture() as capture:
        console.print(agreement_table(found))
    assert "50% of the runs agree" in capture.get()
    assert "none in time" in capture.get()


@pytest.mark.lab
def test_a_tournament_picks_a_team_on_the_real_kernel() -> None:
    scenario = parse_scenario(tomllib.loads(SLOW)).with_settings((("pool.k", 1),))
    found = measure_agreement(scenario, [1], "tournament", Console(stderr=True), kernel="6.1")
    (team,), (means,) = found.teams.values(), found.means.values()
    assert len(team) == 1
    assert means.keys() == {"bbr", "ltp", "vegas"}
    assert min(abs(mean) for mean in means.values()) == 0.0, "the incumbent is measured against itself"
    assert sum(mean != 0.0 for mean in means.values()) == 2, "both others were measured"
