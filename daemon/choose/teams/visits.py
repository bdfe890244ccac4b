# SPDX-License-Identifier: Apache-2.0
"""Team selection (the search for a path's best arms) by Mutant's Algorithm 2, with whole visits as pulls:
`ltp-switcher mpts start PREFIX --by visits`.

A visit is a group of flows to a prefix that began near each other on one arm. A pull is one trial of an arm.
Here it is a visit that began on the arm, so that it sees the arm's start. A pull within a flow (`pulls`) does
not see it.

The learner from flow to flow does the work. While a selection runs, the prefix's plan has the arm of the next
pull as its trial, and the visits draw it with the chance `CHANCE`. The other visits run the learner's
incumbent, the arm that seems best. The value of a pull is the value of the visit, a clipped log reward. More
visits than one may draw an arm before the first of them has ended. They count as later pulls of this arm.

The operator has asked for the pulls, so the learner's purse does not pay for them. Each selection has a
ledger of its own, with the purse's measure: a flow costs the logarithm of the incumbent's reward over its
own, and at most the reward of one flow.
"""

from __future__ import annotations

import logging
import zlib
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ltp_switcher.daemon.choose.teams.terms import Budgeted, Outcome, Progress, Terms
from ltp_switcher.errors import InvalidValueError
from ltp_switcher.mpts import SuccessiveAcceptsRejects

log = logging.getLogger(__name__)

CHANCE: Final = 0.5
"""Chance that a visit, a group of flows on one arm, runs the arm of the next pull."""
PATIENCE_S: Final = 21_600.0
"""Time in seconds without a pull, a trial of an arm, after which a selection is given up."""
GIVEN_UP_MAX: Final = 64
"""Largest number of selections without a team that are remembered. The oldest one is forgotten first."""


@dataclass(slots=True)
class VisitSearch(Budgeted):
    """A selection under way on a prefix. A pull, one trial of an arm, is a whole visit: a group of flows that
    began near each other. Arm i of `bandit` has the id `arms[i]`.
    """

    pulled_s: float
    """Unix time at which the latest pull ended, or the start of the selection."""
    cost: float = 0.0
    """Reward that the visits have cost so far beside the incumbent's, in rewards of one flow."""
    ahead: dict[int, deque[float]] = field(default_factory=dict)
    """Values of visits that have ended before their pulls were due, by index of the arm."""

    @property
    def progress(self) -> Progress:
        """The number of pulls so far, the mean value of each arm's pulls, and the cost."""
        return self.told("visits", self.cost)


@dataclass(frozen=True, slots=True)
class GivenUp:
    """A selection that ended without a team, and the reason as the end of a sentence."""

    search: VisitSearch
    reason: str


class VisitPulls:
    """The selections under way whose pulls, trials of arms, are whole visits: groups of flows that began near
    each other on one arm.

    Args:
        names: names of the arms, by id.
        found: callback for each team that a selection finds, with its prefix.
        late: callback for the cost of a visit that ended after its selection had found a team, with the
            prefix. The unit is the reward of one flow.
        seed: seed of the order in which arms are pulled.
    """

    def __init__(
        self,
        names: Mapping[int, str],
        found: Callable[[str, Outcome], None],
        late: Callable[[str, float], None],
        seed: int,
    ) -> None:
        self.searches: dict[str, VisitSearch] = {}
        self.given_up: OrderedDict[str, GivenUp] = OrderedDict()
        """The last selections that ended without a team, by prefix, the oldest one first."""
        self._names, self._found, self._late, self._seed = names, found, late, seed

    @staticmethod
    def check(terms: Terms, budget: int) -> None:
        """Raise `InvalidValueError` if the team would be all arms, or if `budget` does not pay for a pull of
        each arm.
        """
        arms = len(terms.candidates)
        if not terms.open:
            raise InvalidValueError(
                "pool.k", terms.k, f"1 to {arms - 1}, less than the {arms} arms that can begin a flow"
            )
        if budget < arms:
            raise InvalidValueError("mpts.budget", budget, f"{arms} or more: every arm is pulled once")

    def start(self, prefix: str, terms: Terms, budget: int, now_s: float) -> None:
        """Start a selection for a prefix.

        Args:
            prefix: the destination prefix. It must have no selection.
            terms: the arms, and the size k of the team. They must fit `budget`; see `check`.
            budget: number of all pulls, T of Mutant, Algorithm 2.
            now_s: Unix time.
        """
        rng = np.random.default_rng([self._seed, zlib.crc32(prefix.encode())])
        bandit = SuccessiveAcceptsRejects(len(terms.candidates), terms.k, budget, rng)
        self.searches[prefix] = VisitSearch(terms, bandit, now_s)
        self.given_up.pop(prefix, None)
        log.info(
            "team selection by visits started for %s: %d pulls among %d arms, k=%d",
            prefix, budget, len(terms.candidates), terms.k,
        )  # fmt: skip

    def stop(self, prefix: str, reason: str) -> None:
        """End the selection for a prefix, if there is one, without a team. `reason` is the end of a
        sentence.
        """
        search = self.searches.pop(prefix, None)
        if search is None:
            return
        self.given_up[prefix] = GivenUp(search, reason)
        if len(self.given_up) > GIVEN_UP_MAX:
            self.given_up.popitem(last=False)
        progress = search.progress
        log.warning(
            "team selection by visits for %s ended after %d of %d pulls: %s",
            prefix, progress.pulls, progress.budget, reason,
        )  # fmt: skip

    def look(self, now_s: float) -> None:
        """Give up selections that have had no pull for `PATIENCE_S`. `now_s` is Unix time."""
        for prefix, search in list(self.searches.items()):
            if now_s - search.pulled_s >= PATIENCE_S:
                self.stop(prefix, f"no visit has counted for {PATIENCE_S / 3600:.0f} hours")

    def due(self, prefix: str) -> int:
        """The id of the arm that the next pull for a prefix runs; 0 if there is no further pull."""
        search = self.searches[prefix]
        arm = search.bandit.next_arm()
        return 0 if arm is None else search.arms[arm]

    def take(self, prefix: str, arm: int, value: float, cost: float, now_s: float) -> None:
        """Take in a visit that has ended, and that drew the arm of a pull.

        Args:
            prefix: the destination prefix.
            arm: id of the arm that the visit drew.
            value: the visit's value, a clipped log reward.
            cost: reward that the visit cost beside the incumbent's, in rewards of one flow. It is below 0 if
                the visit earned more.
            now_s: Unix time at which the visit ended.
        """
        search = self.searches.get(prefix)
        if search is None:
            if prefix in self.given_up:
                self.given_up[prefix].search.cost += cost
            else:
                self._late(prefix, cost)
            return
        search.cost += cost
        if arm not in search.arms:
            return
        search.pulled_s = max(search.pulled_s, now_s)
        search.ahead.setdefault(search.arms.index(arm), deque()).append(value)
        bandit = search.bandit
        while (due := bandit.next_arm()) is not None and search.ahead.get(due):
            bandit.observe(search.ahead[due].popleft())
        if bandit.result is not None:
            self._finish(prefix, search, bandit.result)

    def _finish(self, prefix: str, search: VisitSearch, result: tuple[int, ...]) -> None:
        del self.searches[prefix]
        arms, means = search.arms, search.bandit.means.tolist()
        team = tuple(arms[arm] for arm in result)
        ranked = sorted(range(len(arms)), key=lambda arm: -means[arm])
        log.info(
            "team for %s after %d visits, at a cost of %.1f flows: %s (mean log reward of all: %s)",
            prefix, search.bandit.budget, search.cost, ", ".join(self._names[arm] for arm in team),
            ", ".join(f"{self._names[arms[arm]]} {means[arm]:.3g}" for arm in ranked),
        )  # fmt: skip
        by_arm = dict(zip(arms, means, strict=True))
        self._found(prefix, Outcome(team, "visits", by_arm, {}, search.cost))
