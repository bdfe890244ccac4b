# SPDX-License-Identifier: Apache-2.0
"""Team selection on live flows: which k arms are worth choosing among on each path (Mutant §5.2).

A path is a destination prefix here. With `mpts.enabled` the first flow to a prefix starts a paired tournament
(`pairs`), and later flows continue it. The command `mpts start` runs Mutant's Algorithm 2 with its exact
budget instead (`pulls`). With `--by visits` its pulls, the trials of arms, are groups of flows (`visits`).
After that, flows to the prefix choose among the team that was found.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import isnan, nan
from typing import Final

import numpy as np

from ltp_switcher.arrays import ArmIds, Bools, Ints, Slots
from ltp_switcher.daemon.choose.choice import Cause, Choice
from ltp_switcher.daemon.choose.teams.pairs import Tournament, Tournaments
from ltp_switcher.daemon.choose.teams.pulls import Pulls, Search
from ltp_switcher.daemon.choose.teams.terms import METHODS, Eq1, Outcome, Terms
from ltp_switcher.daemon.choose.teams.visits import VisitPulls, VisitSearch
from ltp_switcher.daemon.datapath import RecordArray, protocol
from ltp_switcher.daemon.settings.schema import MptsSection
from ltp_switcher.errors import ArtifactError, ConfigError

TEAMS_MAX: Final = 4096
"""Largest number of prefixes whose teams are kept. A team is the arms that flows to a prefix choose among.
The team that was unused for longest is forgotten first.
"""

SetPool = Callable[[Sequence[int], "Ints | None"], None]
"""The type of a function that sets the arms among which flows may choose; see `Chooser.set_pool`."""


class Teams:
    """Team selections under way, and the teams found. A team is the k arms that flows to a prefix choose
    among.

    With `mpts.enabled` the first flow to a prefix starts a selection, if the chooser learns.

    Args:
        settings: the settings of team selection.
        candidates: ids of the arms from which teams are picked.
        k: wanted size of a team.
        set_pool: the chooser's `set_pool`.
        names: names of the arms, by id.
        zeta: weight of loss in the reward, Mutant Eq. 1.
        kappa: weight of throughput in the reward.
        learns: whether the chooser learns.
        free: the chooser's `free`, if its flows keep their arms for long; else None.
        seed: seed of the order in which arms are pulled.

    Raises:
        ConfigError: the budget is too small to try every candidate.
    """

    def __init__(
        self,
        settings: MptsSection,
        candidates: Sequence[int],
        k: int,
        set_pool: SetPool,
        *,
        names: Mapping[int, str],
        zeta: float,
        kappa: float,
        learns: bool = True,
        free: Callable[[Slots], Bools] | None = None,
        seed: int = 1,
    ) -> None:
        self._set_pool = set_pool
        self.names = names
        """Names of the arms that were available at the daemon's start, by id. The chooser knows no others."""
        self._prefix: dict[int, str] = {}
        self._slots = 0
        self._learns = learns
        self.active = True
        """Whether flows may be given arms; false while the daemon only advises."""
        worth = Eq1(zeta, kappa)
        self._pulls = Pulls(settings, names, worth, self._found, seed)
        self._tournaments = Tournaments(settings, names, worth, self._found, free)
        self.visits = VisitPulls(names, self._found_by_visits, self._late, seed)
        """The selections whose pulls, the trials of arms, are groups of flows."""
        self.found: OrderedDict[str, Outcome] = OrderedDict()
        """The outcomes of selections, by prefix. The prefix whose team was unused for longest comes first."""
        self.settings = settings
        self.candidates, self.k = Terms.of(candidates, k)
        self.special: Mapping[str, Terms] = {}
        """Terms by prefix, for the prefixes to which the general terms do not apply."""
        self.check(settings, k, self.candidates)

    @property
    def automatic(self) -> bool:
        """Whether a selection starts with the first flow of a prefix."""
        return self.settings.enabled and self._learns

    @property
    def prefixes(self) -> set[str]:
        """The prefixes of open flows."""
        return set(self._prefix.values())

    @property
    def searches(self) -> dict[str, Search | Tournament | VisitSearch]:
        """The selections under way, by prefix."""
        return {**self._tournaments.searches, **self._pulls.searches, **self.visits.searches}

    def terms(self, prefix: str) -> Terms:
        """The candidates and the size of the team for a prefix."""
        return self.special.get(prefix) or Terms(self.candidates, self.k)

    @staticmethod
    def check(settings: MptsSection, k: int, candidates: Sequence[int]) -> None:
        """Raise `ConfigError` if the budget is too small to try every candidate."""
        if Terms.of(candidates, k).open and settings.budget < len(candidates):
            raise ConfigError(
                "mpts.budget", settings.budget, f"{len(candidates)} or more: every arm is pulled once"
            )

    def configure(self, settings: MptsSection, k: int, candidates: Sequence[int]) -> None:
        """Take other settings, from the next selection on.

        Another k or other candidates end all teams and selections. If selection is automatic, it starts anew
        for the open flows.

        Raises:
            ConfigError: the budget is too small to try every candidate. Nothing has changed then.
        """
        self.check(settings, k, candidates)
        terms = Terms.of(candidates, k)
        other = terms != (self.candidates, self.k)
        self.settings, self.candidates, self.k = settings, *terms
        self._pulls.settings = self._tournaments.settings = settings
        if other:
            self._forget(None, "the pool or the size of teams has changed")
            self._set_pool(self.candidates, None)
            if self.automatic:
                self._search(self._tournaments, self._prefix)

    def restart(self, prefix: str | None = None) -> None:
        """Forget the team of a prefix, or all teams, and select anew among the candidates by Mutant's
        Algorithm 2.
        """
        self._search(self._pulls, self._begin_anew(prefix))

    def restart_by_visits(self, prefix: str, terms: Terms, now_s: float) -> None:
        """Forget the team of a prefix, and select anew by Mutant's Algorithm 2 with visits as pulls.

        A pull is one trial of an arm, and a visit is a group of flows that began near each other on one arm.
        The arms of `terms` need not be candidates. `now_s` is Unix time.

        Raises:
            InvalidValueError: the team would be all arms, or `mpts.budget` does not pay for one pull of each
                arm. Nothing has changed then.
        """
        self.visits.check(terms, self.settings.budget)
        self._begin_anew(prefix)
        self.visits.start(prefix, terms, self.settings.budget, now_s)

    def cancel(self, prefix: str | None = None) -> int:
        """End the selection for a prefix, or all selections, and return how many ended. The flows go on to
        choose among all candidates.
        """
        ended = [name for name in self.searches if prefix in (None, name)]
        for name in ended:
            self._stop(name, "it was cancelled")
        return len(ended)

    def open(self, slots: Slots, prefixes: Sequence[str]) -> None:
        """Take in new flows. A team is the few arms among which the flows to a prefix choose. A flow gets the
        team of its prefix; if there is none, the flow takes part in the search for it.
        """
        self._pulls.reset(slots)
        self._tournaments.reset(slots)
        for slot, prefix in zip(slots.tolist(), prefixes, strict=True):
            self._prefix[slot] = prefix
            if prefix in self.special:
                self._set_pool(self.special[prefix].candidates, np.array([slot], np.int64))
            outcome = self.found.get(prefix)
            if outcome is not None:
                self.found.move_to_end(prefix)
                self._set_pool(outcome.team, np.array([slot], np.int64))
            elif prefix in self._pulls.searches:
                self._search(self._pulls, {slot: prefix})
            elif self.automatic and prefix not in self.visits.searches:
                self._search(self._tournaments, {slot: prefix})

    def close(self, slots: Slots) -> None:
        """Forget flows that ended."""
        for slot in slots.tolist():
            prefix = self._prefix.pop(slot, "")
            self._pulls.leave(prefix, slot)
            self._tournaments.leave(prefix, slot)

    def pulled(self, slots: Slots) -> ArmIds:
        """The arms that flows try for a selection, shape (n,); 0 where a flow tries none."""
        self._grow(slots)
        found: ArmIds = np.maximum(self._pulls.pulled(slots), self._tournaments.pulled(slots))
        return found

    def step(self, slots: Slots, records: RecordArray, choice: Choice) -> Choice:
        """Replace the policy's arms where flows try other arms for a selection. All arrays have the shape
        (n,).
        """
        pulls, tournaments = self._pulls, self._tournaments
        if not self.active or not (pulls.searches or tournaments.searches):
            return choice
        self._grow(slots)
        if pulls.searches:
            pulls.step(slots, records)
        if tournaments.searches:
            tournaments.step(slots, records, choice.arms)
        pulled = self.pulled(slots)
        return choice.but(pulled != 0, pulled, Cause.TEAM_SELECTION) if pulled.any() else choice

    def state(self) -> dict[str, np.ndarray]:
        """The teams found so far, in the form that `restore` takes."""
        teams = np.zeros((len(self.found), protocol.ARMS_MAX), np.uint8)
        means, halves = (np.full((len(self.found), protocol.ARMS_MAX + 1), np.nan) for _ in range(2))
        for row, outcome in enumerate(self.found.values()):
            teams[row, : len(outcome.team)] = outcome.team
            for values, of in ((means, outcome.means), (halves, outcome.half_widths)):
                for arm, value in (of or {}).items():
                    values[row, arm] = value
        return {
            "prefixes": np.array(list(self.found), np.str_),
            "teams": teams,
            "methods": np.array([outcome.method for outcome in self.found.values()], np.str_),
            "means": means,
            "half_widths": halves,
            "costs": np.array(
                [nan if outcome.cost is None else outcome.cost for outcome in self.found.values()], np.float64
            ),
            "candidates": np.array(self.candidates, np.uint8),
            "k": np.array(self.k),
        }

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over the teams of `state`, if they were picked from the same arms with the same k.

        Raises `ArtifactError` if they cannot be read.
        """
        try:
            same = tuple(arrays["candidates"].tolist()) == self.candidates and int(arrays["k"]) == self.k
            prefixes = [str(prefix) for prefix in arrays["prefixes"].tolist()]
            count = len(prefixes)
            # The states of earlier releases lack methods, means, half widths and costs.
            methods = arrays.get("methods", np.full(count, "budget")).tolist()
            means, halves = (
                [_by_arm(row) for row in arrays.get(name, np.zeros((count, 0))).astype(np.float64).tolist()]
                for name in ("means", "half_widths")
            )
            costs = arrays.get("costs", np.full(count, nan)).astype(np.float64).tolist()
            found = OrderedDict(
                (
                    prefix,
                    Outcome(
                        tuple(arm for arm in team if arm), METHODS[METHODS.index(method)], mean, half,
                        None if isnan(cost) else cost,
                    ),
                )
                for prefix, team, method, mean, half, cost in zip(
                    prefixes, arrays["teams"].tolist(), methods, means, halves, costs, strict=True
                )
            )  # fmt: skip
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"saved teams cannot be read: {error!r}") from error
        if same:
            # An arm that was loaded for a policy may be absent now.
            self.found = OrderedDict(
                (prefix, outcome if self._knows(outcome) else replace(outcome, means=None, half_widths=None))
                for prefix, outcome in found.items()
                if self.names.keys() >= {*outcome.team}
            )

    def _knows(self, outcome: Outcome) -> bool:
        """Whether this machine has each arm that was measured, and each arm of the team was measured."""
        measured = (outcome.means or {}).keys()
        return self.names.keys() >= measured | (outcome.half_widths or {}).keys() and measured >= {
            *outcome.team
        }

    def _search(self, kind: Pulls | Tournaments, prefixes: Mapping[int, str]) -> None:
        """Let flows, by slot, take part in the selections for their prefixes."""
        for slot, prefix in prefixes.items():
            terms = self.terms(prefix)
            if terms.open:
                kind.join(prefix, terms, slot)

    def _grow(self, slots: Slots) -> None:
        """Make room for flows that take no part, because a policy of the operator rules them."""
        needed = int(slots.max(initial=-1)) + 1
        if needed > self._slots:
            self._slots = needed
            self._pulls.grow(needed)
            self._tournaments.grow(needed)

    def _begin_anew(self, prefix: str | None) -> dict[int, str]:
        """Forget the team of a prefix, or all teams, and give the open flows the candidates again. Returns
        the prefixes of these flows, by slot.
        """
        self._forget(prefix, "another selection began")
        slots = {slot: of for slot, of in self._prefix.items() if prefix in (None, of)}
        for slot, of in slots.items():
            self._set_pool(self.terms(of).candidates, np.array([slot], np.int64))
        return slots

    def _forget(self, prefix: str | None, reason: str) -> None:
        if prefix is None:
            self.found.clear()
            self._tournaments.forget()
            for name in [*self._pulls.searches, *self.visits.searches]:
                self._stop(name, reason)
        else:
            self.found.pop(prefix, None)
            self._stop(prefix, reason)

    def _stop(self, prefix: str, reason: str) -> None:
        self._pulls.stop(prefix)
        self._tournaments.stop(prefix)
        self.visits.stop(prefix, reason)

    def _found_by_visits(self, prefix: str, outcome: Outcome) -> None:
        self._found(prefix, outcome, [slot for slot, of in self._prefix.items() if of == prefix])

    def _late(self, prefix: str, cost: float) -> None:
        """Add the cost of a visit that ended after its selection had found a team."""
        outcome = self.found.get(prefix)
        if outcome is not None and outcome.cost is not None:
            self.found[prefix] = replace(outcome, cost=outcome.cost + cost)

    def _found(self, prefix: str, outcome: Outcome, members: list[int]) -> None:
        self.found[prefix] = outcome
        if len(self.found) > TEAMS_MAX:
            self.found.popitem(last=False)
        self._set_pool(outcome.team, np.array(members, np.int64))


def _by_arm(row: Sequence[float]) -> dict[int, float]:
    return {arm: value for arm, value in enumerate(row) if not isnan(value)}
