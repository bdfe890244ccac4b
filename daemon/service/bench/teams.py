# SPDX-License-Identifier: Apache-2.0
"""Algorithm 2 of the Mutant paper with visits as pulls: `python -m ltp_switcher.daemon.service.bench.teams`.

Algorithm 2 picks a team, the k best arms, by trying arms; each try is a pull. A visit is a group of flows to
a prefix that began near each other on one arm. Teams are picked on simulated prefixes (`bench.learner`) with
sixteen arms, of which the best is known. A pull draws one of its arm's visits with repetition.

`--live` asks another question: should Algorithm 2 choose the trials of the learner on a running server, where
trials cost reward?
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Ints
from ltp_switcher.daemon.choose.visits.learner import Learner, Visits
from ltp_switcher.daemon.choose.visits.posterior import Mixture
from ltp_switcher.daemon.choose.visits.replay import Pool, replay
from ltp_switcher.daemon.service.bench.learner import (
    OFF,
    SHOWN,
    TUNING,
    VISITS,
    Interval,
    Kind,
    factor,
    judged,
    made,
    mean_of,
    text,
)  # fmt: skip
from ltp_switcher.mpts import SuccessiveAcceptsRejects

ARMS: Final = 16
TEAM: Final = 6
PULLS: Final = 150
"""Number of pulls of a team selection: T of Mutant, Algorithm 2."""
RESAMPLINGS: Final = 1000
NEAR: Final = 0.02
"""Greatest distance from the best arm, in log reward, at which an arm counts as equally good."""
PRIOR: Final = 6
"""Number of arms among which a live selection chooses. They are the decision's own choice and the arms that
are expected to be the best on a new prefix.
"""
LIVE_TEAM: Final = 3
LIVE_PULLS: Final = (20, 100)


def picked(pools: Sequence[Pool], k: int, pulls: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Pick k arms by Algorithm 2 in `pulls` pulls. A pull draws a visit from an arm's past visits, its pool.

    Returns:
        The indices of the team's arms, shape (k,), and the number of pulls of each arm, shape (arms,).
    """
    search = SuccessiveAcceptsRejects(len(pools), k, pulls, rng)
    while (arm := search.next_arm()) is not None:
        search.observe(float(rng.choice(pools[arm].values)))
    return np.array(search.result), search.pulls


def spread(pools: Sequence[Pool], k: int, pulls: int, rng: np.random.Generator) -> Ints:
    """Pick k arms by equal shares: all arms get equally many of the `pulls`, and the highest means win.
    Returns indices of arms, shape (k,).
    """
    means = np.array([rng.choice(pool.values, pulls // len(pools)).mean() for pool in pools])
    return np.argsort(-means)[:k]


@dataclass(frozen=True, slots=True)
class Picks:
    """The quality of picked teams; each array has the shape (prefixes,). Rewards are logarithms."""

    near: Mapping[str, Floats]
    """Share of teams with an arm within `NEAR` of the best one, for each method of picking."""
    gain: Floats
    """Gain of the team's best arm over the best arm of a random team."""
    cost: Floats
    """Cost of all pulls, in units of the reward that the decision's own choice earns in a visit: the sum of
    the shares of this reward that the pulls fell short.
    """


def measure(kind: Kind, seed: int, draws: int) -> Picks:
    """Pick `draws` teams or a few more, equally many for each prefix of a kind."""
    rng = np.random.default_rng(seed)
    effects = kind.effects(rng, kind.prefixes, ARMS)
    each = -(-draws // kind.prefixes)
    near = {way: np.zeros(kind.prefixes) for way in ("algorithm 2", "equal shares", "prior", "lot")}
    gain, cost = np.zeros(kind.prefixes), np.zeros(kind.prefixes)
    for number, (pools, worth) in enumerate(zip(made(effects, kind, rng), effects, strict=True)):
        # A new prefix begins with the mean of all other prefixes.
        prior = np.argsort(-np.delete(effects, number, axis=0).mean(axis=0))[:TEAM]
        for _ in range(each):
            team, pulls = picked(pools, TEAM, PULLS, rng)
            lot = rng.permutation(ARMS)[:TEAM]
            teams = (team, spread(pools, TEAM, PULLS, rng), prior, lot)
            for way, of in zip(near.values(), teams, strict=True):
                way[number] += (worth[of].max() >= worth.max() - NEAR) / each
            gain[number] += (worth[team].max() - worth[lot].max()) / each
            cost[number] += (pulls @ (1.0 - np.exp(np.minimum(worth, 0.0)))) / each
    return Picks(near, gain, cost)


class PickingLearner(Learner):
    """A learner whose trials are the pulls of Algorithm 2. Once a team is picked, only the team's arms are
    tried.

    Args:
        k: size of the team.
        pulls: number of pulls, T of Algorithm 2.
    """

    def __init__(self, k: int, pulls: int) -> None:
        super().__init__(PRIOR)
        self._k, self._pulls = k, pulls
        self._searches: dict[int, SuccessiveAcceptsRejects] = {}

    def _search(self, prefix: int) -> SuccessiveAcceptsRejects:
        if prefix not in self._searches:
            rng = np.random.default_rng(prefix)
            self._searches[prefix] = SuccessiveAcceptsRejects(PRIOR, self._k, self._pulls, rng)
        return self._searches[prefix]

    @property
    def ended(self) -> float:
        """The share of the prefixes for which Algorithm 2 has picked a team."""
        return float(np.mean([search.result is not None for search in self._searches.values()]))

    def observe(self, visits: Visits) -> Ints:
        """Learn from visits of different prefixes. A visit counts as a pull if it ran the arm that Algorithm
        2 pulls next.
        """
        for prefix, arm, worth in zip(
            visits.prefixes.tolist(), visits.arms.tolist(), visits.values.tolist(), strict=True
        ):
            if self._search(prefix).next_arm() == arm:
                self._search(prefix).observe(worth)
        return super().observe(visits)

    def _trials(self, prefixes: Ints, found: Mixture, incumbents: Ints) -> tuple[Ints, Floats]:
        trials, worths = super()._trials(prefixes, found, incumbents)
        for place, prefix in enumerate(prefixes.tolist()):
            search = self._search(prefix)
            due = search.next_arm()
            if due is not None:
                trials[place], worths[place] = due, float(due != incumbents[place])
            elif trials[place] not in (search.result or ()):
                worths[place] = 0.0
        return trials, worths


class TeamLearner(Learner):
    """A learner that tries only the k arms with the highest expected reward on a prefix, as estimated at that
    time.
    """

    def __init__(self, k: int) -> None:
        super().__init__(PRIOR)
        self._k = k

    def _trials(self, prefixes: Ints, found: Mixture, incumbents: Ints) -> tuple[Ints, Floats]:
        trials, worths = super()._trials(prefixes, found, incumbents)
        team = np.argsort(-found.effects.mean, axis=1)[:, : self._k]
        worths[(team != trials[:, None]).all(axis=1)] = 0.0
        return trials, worths


LIVE: Final[Mapping[str, Callable[[], Learner]]] = {
    "the learner": partial(Learner, PRIOR),
    "best 3 alone": partial(TeamLearner, LIVE_TEAM),
    **{f"{pulls} pulls": partial(PickingLearner, LIVE_TEAM, pulls) for pulls in LIVE_PULLS},
}
"""The learners that `--live` compares, by the way in which they choose trials."""


def live(
    kind: Kind, seeds: Sequence[int], begun: Callable[[], Learner]
) -> tuple[tuple[Interval | None, ...], Interval | None, float]:
    """Replay one of the learners of `LIVE`, which chooses among `PRIOR` arms. `bench.learner` defines
    off-model.

    Returns:
        Three results: the gain on off-model prefixes as a share of the best arm's gain, in visits 31 to 100
        and 101 to 400; the reward relative to the decision's, on all other prefixes; the share of prefixes
        that got a team.
    """
    gains, best, ended = [], [], []
    off: list[Bools] = []
    for seed in seeds:
        rng = np.random.default_rng(seed)
        effects = kind.effects(rng, kind.prefixes, PRIOR)
        learner = begun()
        each = [np.array([place]) for place in range(kind.prefixes)]
        found = replay(made(effects, kind, rng), VISITS, learner, seed, each).parts
        gains += [[window.gain for window in prefix] for prefix in found]
        best += [prefix[0].best_gain for prefix in found]
        off.append(effects.max(axis=1) >= OFF)
        ended.append(learner.ended if isinstance(learner, PickingLearner) else 0.0)
    return *judged(np.array(gains), np.array(best), np.concatenate(off), (2, 3)), float(np.mean(ended))


def _print_picks(kinds: Mapping[str, Kind], seeds: Sequence[int], draws: int) -> None:
    print("kind      near: algorithm 2     equal shares          prior                 lot", end="")
    print("                   reward over lot       cost, visits")
    for name, kind in kinds.items():
        found = [measure(kind, seed, draws) for seed in seeds]
        near = [mean_of(np.concatenate([one.near[way] for one in found])) for way in found[0].near]
        gain = factor(mean_of(np.concatenate([one.gain for one in found])))
        print(
            f"{name:<8}  {'  '.join(text(way, 2) for way in near)}  {text(gain, 2)}  "
            f"{text(mean_of(np.concatenate([one.cost for one in found])), 0)}"
        )


def _print_live(kinds: Mapping[str, Kind], seeds: Sequence[int]) -> None:
    print(
        "kind      trials by     closed, visits 31-100  101-400                on-model reward         teams"
    )
    for name, kind in kinds.items():
        for chooser, begun in LIVE.items():
            (early, late), kept, ended = live(kind, seeds, begun)
            print(
                f"{name:<8}  {chooser:<12}  "
                f"{text(early, 2):<21}  {text(late, 2):<21}  {text(kept, 3):<22}  {ended:>5.0%}"
            )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status."""
    prog = "python -m ltp_switcher.daemon.service.bench.teams"
    parser = argparse.ArgumentParser(prog=prog, description=__doc__)
    parser.add_argument("--kinds", choices=("shown", "tuning"), default="shown")
    parser.add_argument("--seeds", type=int, default=3, help="made sets of prefixes of each kind")
    parser.add_argument("--draws", type=int, default=RESAMPLINGS, help="teams of each seed and kind")
    parser.add_argument("--live", action="store_true", help="the learner with the pick, instead")
    options = parser.parse_args(arguments)
    if options.seeds < 1 or options.draws < 1:
        parser.error("--seeds and --draws must be 1 or more")
    kinds, seeds = SHOWN if options.kinds == "shown" else TUNING, range(1, options.seeds + 1)
    if options.live:
        _print_live(kinds, seeds)
    else:
        _print_picks(kinds, seeds, options.draws)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
