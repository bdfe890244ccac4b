# SPDX-License-Identifier: Apache-2.0
"""Team selection on live flows: which k arms are worth choosing among on each path (Mutant §5.2).

A path is a destination prefix here. With `mpts.enabled` the first flow to a prefix starts a paired tournament
(`pairs`), and later flows continue it. Its outcome is a team, or the one arm that flows prefer to the
policy's choice. It ends with the path or after ten minutes. The command `mpts start` runs Mutant's Algorithm
2 with its exact budget instead (`pulls`). With `--by visits` its pulls, the trials of arms, are groups of
flows (`visits`). After that, flows to the prefix choose among the team that was found.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from ltp_switcher.arrays import ArmIds, Bools, Ints, Slots
from ltp_switcher.daemon.choose.choice import Cause, Choice
from ltp_switcher.daemon.choose.chooser import Verdict, Verdicts
from ltp_switcher.daemon.choose.clocks import clocks
from ltp_switcher.daemon.choose.teams import saved
from ltp_switcher.daemon.choose.teams.pairs import Tournament, Tournaments
from ltp_switcher.daemon.choose.teams.pulls import Pulls, Search
from ltp_switcher.daemon.choose.teams.terms import Eq1, Outcome, Terms
from ltp_switcher.daemon.choose.teams.visits import VisitPulls, VisitSearch
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.settings.schema import MptsSection
from ltp_switcher.errors import ArtifactError, ConfigError

TEAMS_MAX: Final = 4096
"""Largest number of prefixes whose teams are kept. A team is the arms that flows to a prefix choose among.
The team that was unused for longest is forgotten first.
"""

AGE_NS: Final = 600_000_000_000
"""Time in ns after which the outcome of a tournament is forgotten, and its flows begin another one."""

_PREFERRED: Final = "preferred_"
"""The beginning of the names that preferences have in the saved state."""
SetPool = Callable[[Sequence[int], "Ints | None"], None]
"""The type of a function that sets the arms among which flows may choose; see `Chooser.set_pool`."""


class Preferring(NamedTuple):
    """The ways in which a chooser takes preferences, the arms that tournaments have found."""

    arms: Callable[[Sequence[int]], tuple[int, ...]]
    """The chooser's `preferable`."""
    prefer: Callable[[Slots, int], None]
    """The chooser's `prefer`."""


class Teams:
    """Team selections under way, and the teams found. A team is the k arms that flows to a prefix choose
    among.

    With `mpts.enabled` the first flow to a prefix starts a tournament. If the chooser learns, and the team is
    smaller than the pool, its outcome is a team. Elsewhere the outcome is the one arm that flows prefer.
    Either outcome ends after `AGE_NS`, or with the path.

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
        preferring: how flows prefer arms; None if the chooser takes no preferences.
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
        preferring: Preferring | None = None,
        seed: int = 1,
    ) -> None:
        self._set_pool = set_pool
        self._preferring = preferring
        self.names = names
        """Names of the arms that were available at the daemon's start, by id. The chooser knows no others."""
        self._prefix: dict[int, str] = {}
        self._aging: dict[str, int] = {}
        """The time at which each outcome that ages was found, CLOCK_MONOTONIC in ns, by prefix, the oldest
        first.
        """
        self._slots = 0
        self._learns = learns
        self.active = True
        """Whether flows may be given arms; false while the daemon only advises."""
        worth = Eq1(zeta, kappa)
        self._pulls = Pulls(settings, names, worth, self._found, seed)
        self._tournaments = Tournaments(settings, names, worth, self._found, free)
        self._comparisons = Tournaments(settings, names, worth, self._found_preference, free)
        """The tournaments that find the one arm which flows prefer."""
        self._pairs = self._tournaments, self._comparisons
        self.visits = VisitPulls(names, self._found_by_visits, self._late, seed)
        """The selections whose pulls, the trials of arms, are groups of flows."""
        self.found: OrderedDict[str, Outcome] = OrderedDict()
        """The outcomes of selections, by prefix. The prefix whose team was unused for longest comes first."""
        self.preferred: OrderedDict[str, Outcome] = OrderedDict()
        """The outcomes of tournaments that bind no flow, by prefix. The team is the one arm that flows prefer
        to the policy's choice. It is empty if no arm was better, or if the preferred arm earned less later.
        """
        self.settings = settings
        self.candidates, self.k = Terms.of(candidates, k)
        self.special: Mapping[str, Terms] = {}
        """Terms by prefix, for the prefixes to which the general terms do not apply."""
        self.check(settings, k, self.candidates)

    @property
    def automatic(self) -> bool:
        """Whether flows get teams without a request. A team is the few arms among which they choose."""
        return self.settings.enabled and self._learns

    @property
    def _compares(self) -> bool:
        """Whether a tournament starts with the first flow of a prefix."""
        return self.settings.enabled and (self._learns or self._preferring is not None)

    @property
    def prefixes(self) -> set[str]:
        """The prefixes of open flows."""
        return set(self._prefix.values())

    @property
    def searches(self) -> dict[str, Search | Tournament | VisitSearch]:
        """The selections of teams under way, by prefix."""
        return {**self._tournaments.searches, **self._pulls.searches, **self.visits.searches}

    @property
    def comparisons(self) -> dict[str, Tournament]:
        """The tournaments under way that find a preference, by prefix, if they have begun a pair."""
        searches = self._comparisons.searches
        return {prefix: one for prefix, one in searches.items() if one.pair or one.progress.pulls}

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
        for part in (self._pulls, *self._pairs):
            part.settings = settings
        if other:
            self._forget(None, "the pool or the size of teams has changed")
            self._set_pool(self.candidates, None)
            if self._compares:
                self._compare(self._prefix)

    def restart(self, prefix: str | None = None) -> None:
        """Forget the team of a prefix, or all teams, and select anew among the candidates by Mutant's
        Algorithm 2.
        """
        slots = self._begin_anew(prefix)
        self._search(slots)
        if self._compares:
            # A team of all arms needs no selection.
            self._compare({slot: of for slot, of in slots.items() if not self.terms(of).open})

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
        ended = [name for name in (*self.searches, *self.comparisons) if prefix in (None, name)]
        for name in ended:
            self._stop(name, "it was cancelled")
        return len(ended)

    def open(self, slots: Slots, prefixes: Sequence[str]) -> None:
        """Take in new flows. A team is the few arms among which the flows to a prefix choose. A flow gets the
        team of its prefix; if there is none, the flow takes part in the search for it.
        """
        for part in (self._pulls, *self._pairs):
            part.reset(slots)
        for slot, prefix in zip(slots.tolist(), prefixes, strict=True):
            self._prefix[slot] = prefix
            if prefix in self.special:
                self._set_pool(self.special[prefix].candidates, np.array([slot], np.int64))
            if prefix in self.found or prefix in self.preferred:
                self._give(prefix, [slot])
            elif prefix in self._pulls.searches:
                self._search({slot: prefix})
            elif self._compares and prefix not in self.visits.searches:
                self._compare({slot: prefix})

    def close(self, slots: Slots) -> None:
        """Forget flows that ended."""
        for slot in slots.tolist():
            prefix = self._prefix.pop(slot, "")
            for part in (self._pulls, *self._pairs):
                part.leave(prefix, slot)

    def pulled(self, slots: Slots) -> ArmIds:
        """The arms that flows try for a selection, shape (n,); 0 where a flow tries none."""
        self._grow(slots)
        found: ArmIds = np.max([part.pulled(slots) for part in (self._pulls, *self._pairs)], axis=0)
        return found

    def step(self, slots: Slots, records: RecordArray, choice: Choice) -> Choice:
        """Replace the policy's arms where flows try other arms for a selection. All arrays have the shape
        (n,).
        """
        if self._aging and records.size:
            self._age(int(records["time_ns"].max()))
        pulls, pairs = self._pulls, [part for part in self._pairs if part.searches]
        if not self.active or not (pulls.searches or pairs):
            return choice
        self._grow(slots)
        if pulls.searches:
            pulls.step(slots, records)
        for part in pairs:
            part.step(slots, records, choice.arms)
        pulled = self.pulled(slots)
        return choice.but(pulled != 0, pulled, Cause.TEAM_SELECTION) if pulled.any() else choice

    def hear(self, slots: Slots, verdicts: Verdicts) -> None:
        """Take in news about the flows' paths, both of shape (n,). They end what a tournament has found on
        the prefix. The next tournament begins when the outcome has aged, so that its price is paid once in
        `AGE_NS`. On another path a tournament under way begins anew.
        """
        for at in verdicts.nonzero()[0].tolist():
            prefix = self._prefix.get(int(slots[at]), "")
            if prefix in self._aging:
                self._end(prefix)
            elif verdicts[at] == Verdict.OTHER_PATH:
                for part in self._pairs:
                    part.begin_anew(prefix)

    def _end(self, prefix: str) -> None:
        """Let the flows of a prefix choose freely, whatever a tournament has found."""
        ended = self.found.pop(prefix, None) or self.preferred[prefix]
        if not ended.team:
            return
        self.preferred[prefix] = replace(ended, team=())
        slots = [slot for slot, of in self._prefix.items() if of == prefix]
        if slots:
            self._set_pool(self.terms(prefix).candidates, np.array(slots, np.int64))

    def _age(self, now_ns: int) -> None:
        """Forget the outcomes of tournaments that are too old, and begin others on the open flows."""
        while self._aging:
            prefix, found_ns = next(iter(self._aging.items()))
            if now_ns - found_ns < AGE_NS:
                return
            self._end(prefix)
            del self._aging[prefix], self.preferred[prefix]
            if self._compares:
                self._compare({slot: of for slot, of in self._prefix.items() if of == prefix})

    def _give(self, prefix: str, slots: list[int]) -> None:
        """Let flows choose by the outcome for their prefix: among its team, or with a preference for its
        arm.
        """
        at = np.array(slots, np.int64)
        team = self.found.get(prefix)
        if team is not None:
            self.found.move_to_end(prefix)
            self._set_pool(team.team, at)
            return
        self.preferred.move_to_end(prefix)
        arm = self.preferred[prefix].team[:1]
        if arm and self._preferring is not None:
            self._preferring.prefer(at, *arm)

    def state(self) -> dict[str, np.ndarray]:
        """The outcomes found so far, in the form that `restore` takes."""
        _, ahead_ns = clocks()
        return {
            **saved.arrays_of(self.found, ahead_ns),
            **{_PREFERRED + name: array for name, array in saved.arrays_of(self.preferred, ahead_ns).items()},
            "candidates": np.array(self.candidates, np.uint8),
            "k": np.array(self.k),
        }  # fmt: skip

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over the outcomes of `state`, if they were found among the same arms with the same k.

        Raises `ArtifactError` if they cannot be read.
        """
        of_preferred = {
            name.removeprefix(_PREFERRED): array
            for name, array in arrays.items() if name.startswith(_PREFERRED)
        }  # fmt: skip
        _, ahead_ns = clocks()
        try:
            same = tuple(arrays["candidates"].tolist()) == self.candidates and int(arrays["k"]) == self.k
            found = saved.outcomes_of(arrays, ahead_ns)
            # The state of an earlier release has no preferences.
            preferred = saved.outcomes_of(of_preferred, ahead_ns) if of_preferred else {}
        except (KeyError, TypeError, ValueError) as error:
            raise ArtifactError(f"saved teams cannot be read: {error!r}") from error
        if same:
            self.found, self.preferred = (saved.usable(of, self.names) for of in (found, preferred))
            aging = {**self.found, **self.preferred}
            times = [(one.found_ns, prefix) for prefix, one in aging.items() if one.found_ns]
            self._aging = {prefix: found_ns for found_ns, prefix in sorted(times)}

    def _search(self, prefixes: Mapping[int, str]) -> None:
        """Let flows, by slot, take part in the selections by Algorithm 2 for their prefixes."""
        for slot, prefix in prefixes.items():
            terms = self.terms(prefix)
            if terms.open:
                self._pulls.join(prefix, terms, slot)

    def _compare(self, prefixes: Mapping[int, str]) -> None:
        """Let flows, by slot, take part in the tournaments for their prefixes."""
        for slot, prefix in prefixes.items():
            terms, kind = self.terms(prefix), self._tournaments
            if not (self._learns and terms.open):
                terms, kind = self._preferable(terms.candidates), self._comparisons
            if terms.open:
                kind.join(prefix, terms, slot)

    def _preferable(self, candidates: tuple[int, ...]) -> Terms:
        """The terms of a tournament that finds a preference."""
        if self._preferring is None:
            return Terms((), 0)
        return Terms.of(self._preferring.arms(candidates), 1)

    def _grow(self, slots: Slots) -> None:
        """Make room for flows that take no part, because a policy of the operator rules them."""
        needed = int(slots.max(initial=-1)) + 1
        if needed > self._slots:
            self._slots = needed
            for part in (self._pulls, *self._pairs):
                part.grow(needed)

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
            self.preferred.clear()
            self._aging.clear()
            for part in self._pairs:
                part.forget()
            for name in [*self._pulls.searches, *self.visits.searches]:
                self._stop(name, reason)
        else:
            self.found.pop(prefix, None)
            self.preferred.pop(prefix, None)
            self._aging.pop(prefix, None)
            self._stop(prefix, reason)

    def _stop(self, prefix: str, reason: str) -> None:
        for part in (self._pulls, *self._pairs):
            part.stop(prefix)
        self.visits.stop(prefix, reason)

    def _found_by_visits(self, prefix: str, outcome: Outcome) -> None:
        self._found(prefix, outcome, [slot for slot, of in self._prefix.items() if of == prefix])

    def _late(self, prefix: str, cost: float) -> None:
        """Add the cost of a visit that ended after its selection had found a team."""
        outcome = self.found.get(prefix)
        if outcome is not None and outcome.cost is not None:
            self.found[prefix] = replace(outcome, cost=outcome.cost + cost)

    def _found_preference(self, prefix: str, outcome: Outcome, members: list[int]) -> None:
        # The incumbent, the first of the means, is the policy's own choice, which needs no preference.
        team = () if outcome.team[0] == next(iter(outcome.means or ())) else outcome.team
        self._keep(self.preferred, prefix, replace(outcome, team=team), members)

    def _found(self, prefix: str, outcome: Outcome, members: list[int]) -> None:
        self._keep(self.found, prefix, outcome, members)

    def _keep(
        self, among: OrderedDict[str, Outcome], prefix: str, outcome: Outcome, members: list[int]
    ) -> None:
        """Keep an outcome, and let the prefix's flows, by slot, choose by it."""
        among[prefix] = outcome
        self._aging.pop(prefix, None)
        if outcome.found_ns:
            self._aging[prefix] = outcome.found_ns
        if len(among) > TEAMS_MAX:
            forgotten, _ = among.popitem(last=False)
            self._aging.pop(forgotten, None)
        self._give(prefix, members)
