# SPDX-License-Identifier: Apache-2.0
"""Team selection by Algorithm 2 (`mpts start`) on flows whose arms have known worth, and the teams found."""

import dataclasses

import numpy as np
import pytest
from support.records import record

from ltp_switcher.daemon.choose.choice import of_policy
from ltp_switcher.daemon.choose.teams.teams import Teams
from ltp_switcher.daemon.choose.teams.terms import STALLED_NS, Outcome
from ltp_switcher.daemon.settings.schema import MptsSection
from ltp_switcher.errors import ArtifactError, ConfigError

STEP_NS = 10_000_000
ARMS = tuple(range(1, 12))
NAMES = {arm: f"arm{arm}" for arm in ARMS}
SETTINGS = MptsSection(
    enabled=False, budget=60, share=1.0, settle_rtts=1.0, measure_rtts=2.0, measure_ms=20.0
)


class Path:
    """Flows on one path of 30 ms: arm a delivers a x 10 kB a step, one step after it was given."""

    def __init__(self, k: int = 3, settings: MptsSection = SETTINGS) -> None:
        self.pools: dict[int | None, tuple[int, ...]] = {}
        self.teams = Teams(settings, ARMS, k, self.set_pool, names=NAMES, zeta=5.0, kappa=2.0)
        self.now_ns = 1_000_000_000
        self.arm: dict[int, int] = {}
        self.pulled: dict[int, set[int]] = {}
        self.pulling = 0

    def set_pool(self, arms, slots) -> None:  # noqa: ANN001
        if slots is None:
            self.pools = {None: tuple(arms)}
        else:
            self.pools |= dict.fromkeys(slots.tolist(), tuple(arms))

    def open(self, *slots: int, prefix: str = "192.0.2.0/24") -> None:
        self.arm |= dict.fromkeys(slots, 1)
        self.teams.open(np.array(slots), [prefix] * len(slots))
        if prefix not in self.teams.found and prefix not in self.teams.searches:
            self.teams.restart(prefix)

    def close(self, *slots: int) -> None:
        for slot in slots:
            del self.arm[slot]
        self.teams.close(np.array(slots))

    def step(self, *silent: int) -> None:
        self.now_ns += STEP_NS
        slots = np.array([slot for slot in self.arm if slot not in silent])
        records = np.concatenate([record(int(slot) + 1) for slot in slots])
        arms = np.array([self.arm[int(slot)] for slot in slots])
        records["arm"] = arms
        records["time_ns"] = self.now_ns
        records["srtt_us"] = 30_000
        records["delivered"] = arms * 10
        records["mss"] = 1000
        records["rtt_samples"] = 1
        records["rtt_stat"]["sum"] = 30_000
        policy = np.zeros(len(slots), np.uint8)
        given = self.teams.step(slots, records, of_policy(policy)).arms.tolist()
        self.pulling = sum(arm != 0 for arm in given)
        for slot, arm in zip(slots.tolist(), given, strict=True):
            if arm:
                self.pulled.setdefault(slot, set()).add(arm)
            self.arm[slot] = arm or 1

    def run(self, steps: int = 3000, until_found: bool = True) -> int:
        for taken in range(steps):
            self.step()
            if until_found and not self.teams.searches:
                return taken + 1
        return steps


def test_the_best_arms_become_the_team_of_the_prefix() -> None:
    path = Path()
    path.open(0, 1)
    steps = path.run()
    assert set(path.teams.found["192.0.2.0/24"].team) == {9, 10, 11}
    assert set(path.pools[0]) == set(path.pools[1]) == {9, 10, 11}
    # 60 pulls of an RTT to settle and two to measure, and no more than a few steps beside.
    assert 60 * 9 <= steps <= 60 * 12


def test_pulls_take_their_share_of_the_flows_time() -> None:
    for flows in (1, 2, 8):
        path = Path(settings=dataclasses.replace(SETTINGS, share=0.25))
        path.open(*range(flows))
        steps = path.run(steps=20_000)
        assert len(path.teams.found) == 1
        pulls = 60 * 10
        assert pulls * max(4 / flows, 1) * 0.9 <= steps <= pulls * max(4 / flows, 1) * 1.2


def test_pulls_take_turns_among_the_flows() -> None:
    path = Path()
    path.open(0, 1, 2)
    path.run()
    assert all(len(path.pulled[slot]) > 5 for slot in (0, 1, 2))


def test_one_flow_pulls_at_a_time_and_the_others_follow_the_policy() -> None:
    path = Path()
    path.open(0, 1, 2)
    pulling = []
    for _ in range(200):
        path.step()
        pulling.append(path.pulling)
    assert max(pulling) == 1


def test_a_later_flow_gets_the_team_at_once() -> None:
    path = Path()
    path.open(0)
    path.run()
    path.open(5)
    assert set(path.pools[5]) == {9, 10, 11}
    assert not path.teams.searches


def test_prefixes_are_searched_apart() -> None:
    path = Path()
    path.open(0)
    path.open(1, prefix="198.51.100.0/24")
    path.run()
    assert path.teams.found.keys() == {"192.0.2.0/24", "198.51.100.0/24"}


def test_another_flow_takes_over_where_one_ends_or_falls_silent() -> None:
    path = Path()
    path.open(0, 1)
    for _ in range(20):
        path.step()
    search = path.teams.searches["192.0.2.0/24"]
    first = search.slot
    assert first is not None
    path.close(first)
    for _ in range(40):
        path.step()
    assert search.slot == 1 - first
    path.open(first)
    busy = search.slot
    for _ in range(2 * STALLED_NS // STEP_NS):
        path.step(busy)
    assert search.slot == first
    assert path.run() < 3000


def test_a_search_ends_with_its_last_flow() -> None:
    path = Path()
    path.open(0)
    path.step()
    path.close(0)
    assert not path.teams.searches
    assert not path.teams.found


def test_a_cancelled_search_gives_no_arm_and_no_team() -> None:
    path = Path()
    path.open(0, 1)
    for _ in range(20):
        path.step()
    assert path.teams.cancel("203.0.113.0/24") == 0
    assert path.teams.cancel() == 1
    path.step()
    assert (path.pulling, path.teams.found, path.teams.searches) == (0, {}, {})


def test_the_outcome_has_the_mean_of_every_arm_until_it_is_forgotten() -> None:
    path = Path()
    path.open(0)
    path.run()
    means = path.teams.found["192.0.2.0/24"].means
    assert means is not None
    assert sorted(means, key=lambda arm: -means[arm])[:3] == [11, 10, 9]
    path.teams.restart()
    assert not path.teams.found


def test_nothing_to_choose_needs_no_search() -> None:
    path = Path(k=11)
    path.open(0)
    assert not path.teams.searches


def test_another_pool_picks_teams_anew_from_it() -> None:
    path = Path()
    path.open(0)
    path.run()
    path.teams.configure(SETTINGS, 3, (2, 3, 4, 5))
    assert path.pools == {None: (2, 3, 4, 5)}
    assert not path.teams.found
    path.open(1)
    path.run()
    assert set(path.teams.found["192.0.2.0/24"].team) == {3, 4, 5}
    assert set(path.pools[0]) == set(path.pools[1]) == {3, 4, 5}


def test_teams_of_another_size_are_forgotten_and_picked_anew() -> None:
    path = Path(k=3)
    path.open(0)
    path.run()
    path.teams.configure(SETTINGS, 3, ARMS)
    assert path.teams.found, "the same size keeps its teams"
    path.teams.configure(SETTINGS, 2, ARMS)
    assert not path.teams.found
    assert path.pools[None] == ARMS
    path.teams.restart()
    path.run()
    assert set(path.teams.found["192.0.2.0/24"].team) == {10, 11}
    path.teams.configure(SETTINGS, 11, ARMS)
    assert not path.teams.found
    assert not path.teams.searches


def test_without_automatic_selection_teams_are_picked_only_on_request() -> None:
    path = Path()
    path.teams.open(np.array([0]), ["192.0.2.0/24"])
    path.arm[0] = 1
    assert not path.teams.searches
    path.teams.configure(path.teams.settings, 2, (2, 3, 4, 5))
    assert not path.teams.searches
    path.teams.restart("192.0.2.0/24")
    path.open(1)
    path.teams.open(np.array([2]), ["198.51.100.0/24"])
    assert path.teams.searches.keys() == {"192.0.2.0/24"}
    path.run()
    assert set(path.pools[0]) == set(path.pools[1]) == {4, 5}
    assert path.pools[None] == (2, 3, 4, 5)
    assert 2 not in path.pools


def test_no_arm_is_given_while_the_daemon_only_advises() -> None:
    path = Path()
    path.teams.active = False
    path.open(0)
    path.run(300)
    assert not path.pulled


def test_teams_survive_a_restart_only_for_the_same_choice() -> None:
    path = Path()
    path.open(0)
    path.run()
    saved = path.teams.state()
    again = Path()
    again.teams.restore(saved)
    assert again.teams.found == path.teams.found
    old = {name: array for name, array in saved.items() if name in ("prefixes", "teams", "candidates", "k")}
    again.teams.restore(old)
    (outcome,) = again.teams.found.values()
    assert (outcome.team, not outcome.means) == (path.teams.found["192.0.2.0/24"].team, True), (
        "an earlier daemon's"
    )
    other = Path(k=4)
    other.teams.restore(saved)
    assert not other.teams.found
    with pytest.raises(ArtifactError):
        again.teams.restore({"prefixes": np.array(["x"])})


def test_a_kept_team_with_an_arm_that_is_gone_is_left_out() -> None:
    path = Path()
    path.open(0)
    path.run()
    saved = path.teams.state()
    saved["teams"][0, 0] = 99
    again = Path()
    again.teams.restore(saved)
    assert not again.teams.found


def test_measurements_of_an_arm_that_is_gone_are_left_out() -> None:
    path = Path()
    path.open(0)
    path.run()
    saved = path.teams.state()
    saved["means"][0, 20] = 1.0
    again = Path()
    again.teams.restore(saved)
    (outcome,) = again.teams.found.values()
    assert outcome == Outcome(path.teams.found["192.0.2.0/24"].team)


def test_a_team_is_no_larger_than_the_pool() -> None:
    path = Path(k=20)
    assert path.teams.k == len(ARMS)
    path.teams.configure(SETTINGS, 6, (2, 3, 4))
    assert path.teams.k == 3
    path.teams.configure(SETTINGS, 6, ARMS)
    assert path.teams.k == 6


def test_a_budget_too_small_is_named() -> None:
    with pytest.raises(ConfigError, match=r"mpts.budget: 5 .* 11 or more"):
        Path(settings=MptsSection(budget=5))
    path = Path(settings=MptsSection(budget=4), k=11)
    with pytest.raises(ConfigError, match=r"mpts.budget: 4 .* 11 or more"):
        path.teams.configure(path.teams.settings, 3, ARMS)
    assert path.teams.k == 11
