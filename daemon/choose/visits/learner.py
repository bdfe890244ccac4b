# SPDX-License-Identifier: Apache-2.0
"""The learner from flow to flow: it takes in visits, and plans an arm and a chance of trials for each prefix.

A visit is a group of flows to a prefix that began near each other on one arm. The decision is the daemon's
usual policy, and an arm's effect is its gain in log reward over the decision's own choice. The incumbent of a
prefix is the arm that its visits run, apart from trials of other arms.

The learner is conservative: the incumbent is the decision's own choice, until the lower bound of another
arm's effect is above 0. Trials are rare, and a budget limits their cost (`purse`). When a path has changed,
old visits count for less, so that trials become worth their cost again. The same happens when an arm of the
decision has starved.

A single host of a prefix may get knowledge of its own. It starts from the posterior of the prefix, and runs
the prefix's incumbent until its own visits show that another arm is better there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Ints
from ltp_switcher.daemon.choose.visits.changes import Changes
from ltp_switcher.daemon.choose.visits.paths import Paths
from ltp_switcher.daemon.choose.visits.posterior import Effects, Mixture, Noise, Posteriors
from ltp_switcher.daemon.choose.visits.purse import Purse, best_trials
from ltp_switcher.daemon.choose.visits.site import Site
from ltp_switcher.errors import ArtifactError

WIDER_S: Final = 10.0
"""Least time in seconds between two computations of the mean effects over all prefixes (the wider level). An
effect is an arm's gain in log reward over the usual policy.
"""
FIRST_TRIAL: Final = 3
"""Number of visits (groups of flows on one arm) to a prefix before the first trial of another arm there
(docs/lab-notes/learner.md).
"""
LEARN_FROM: Final = 1024
"""Largest number of prefixes from which the learner finds how the effects of arms depend on the numbers that
describe paths. With ten times as many, a step takes 16 ms longer.
"""
CALM_S: Final = 600.0
"""Time in seconds. A surprise (an arm of the daemon's policy earned too little) counts if no other surprise
came within this time before it.
"""
BOUND: Final = 3.0
"""Number of standard deviations between the mean of an effect (an arm's gain in log reward) and its lower
bound. One in 740 effects lies below its lower bound. The learner looks at several arms after each visit, and
so meets the rare one: with 2, a fifth of all visits ran on arms that were no better
(docs/lab-notes/traffic.md).
"""


@dataclass(frozen=True, slots=True)
class Visits:
    """Visits that have ended. All arrays have the shape (m,).

    A visit is a group of flows to a prefix that began near each other on one arm, and counts as one
    observation. The decision is the daemon's usual policy. The incumbent of a prefix is the arm that its
    visits run, apart from trials of other arms.
    """

    prefixes: Ints
    """Numbers of the prefixes, from 0 on."""
    arms: Ints
    """Indices into the learner's list of arms; 0 is the decision's own choice."""
    values: Floats
    """Mean value of the visit's flows, weighted by their information. A flow's value is the logarithm of its
    reward. Its information is 0 to 1, and grows with the flow's busy time.
    """
    information: Floats
    """Sum of the flows' information, above 0."""
    flows: Floats
    """Number of flows in the visit."""
    ended_s: Floats
    """Time at which the visit ended, s."""
    incumbents: Ints | None = None
    """The incumbents at the times when the visits drew their arms; None for the present incumbents."""

    def take(self, chosen: Ints) -> Visits:
        """Return the visits at these indices."""
        return Visits(
            self.prefixes[chosen], self.arms[chosen], self.values[chosen], self.information[chosen],
            self.flows[chosen], self.ended_s[chosen],
            None if self.incumbents is None else self.incumbents[chosen],
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    """The arms on which flows to m prefixes begin until the next plan, as indices into the learner's list of
    arms, shape (m,). A visit is a group of flows to a prefix that begin on one arm: the incumbent or, by
    chance, the trial.
    """

    incumbents: Ints
    trials: Ints
    chances: Floats
    """The chance that a visit runs the trial arm instead of the incumbent, shape (m,)."""


class Learner:
    """Learns the effects of k arms on n prefixes from visits. The first arm is the decision's own choice.

    A visit is a group of flows to a prefix that began near each other on one arm. The decision is the
    daemon's usual policy, and an effect is the gain in log reward over its own choice. The incumbent of a
    prefix is the arm that its visits run, apart from trials of other arms. A budget (`purse`) keeps the
    ledger of the trials' costs.

    Args:
        arms: number k of arms.
        noise: the variances of the model.
        detects: whether to look for changes of paths.
        first_trial: number of visits to a prefix before its first trial.
    """

    def __init__(
        self, arms: int, noise: Noise | None = None, *, detects: bool = True, first_trial: int = FIRST_TRIAL
    ) -> None:
        self.posteriors = Posteriors(arms, noise)
        self.purse = Purse()
        self.site = Site(arms)
        self.paths = Paths(arms)
        self._changes = Changes() if detects else None
        self._first_trial = first_trial
        self._incumbents: Ints = np.zeros(0, np.int64)
        self._surprised_s: Floats = np.zeros(0)
        self._parents: Ints = np.zeros(0, np.int64)
        """The prefix to which each single host belongs, by the host's number; -1 where the number is a
        prefix's.
        """
        self._wider = self.posteriors.wider(0.0)
        self._wider_s = -np.inf

    def observe(self, visits: Visits) -> Ints:
        """Learn from visits, in their order, and enter the costs of the trials among them in the ledger.

        Returns:
            The prefixes whose paths have changed. A prefix is named once for each visit that showed a change.
        """
        self._grow(visits.prefixes)
        changed = [self._observe_one_each(visits.take(each)) for each in _one_each(visits.prefixes)]
        # The visits to a host also teach its prefix, so that other hosts and new ones profit from them.
        parents = self._parents[visits.prefixes]
        (of_hosts,) = np.nonzero(parents >= 0)
        for each in _one_each(parents[of_hosts]):
            at = of_hosts[each]
            self.posteriors.observe(
                parents[at], visits.arms[at], visits.values[at], visits.information[at], visits.ended_s[at]
            )
        return np.concatenate([np.zeros(0, np.int64), *changed])

    def _grow(self, prefixes: Ints) -> None:
        size = int(prefixes.max(initial=-1)) + 1
        # There is nearly always room, and each part would copy its arrays only to find that out.
        if size > len(self._incumbents):
            self._have(size)

    def _have(self, size: int) -> None:
        """Make room in each part for prefixes with numbers below `size`."""
        self.posteriors.grow(size)
        self.purse.grow(size)
        self.site.grow(size)
        self.paths.grow(size)
        if self._changes is not None:
            self._changes.grow(size)
        more = np.zeros(max(size - len(self._incumbents), 0), np.int64)
        self._incumbents = np.concatenate([self._incumbents, more])
        self._surprised_s = np.concatenate([self._surprised_s, more - np.inf])
        self._parents = np.concatenate([self._parents, more - 1])

    def _observe_one_each(self, visits: Visits) -> Ints:
        self.purse.earn(visits.prefixes, visits.flows)
        incumbents = self._incumbents[visits.prefixes] if visits.incumbents is None else visits.incumbents
        tried = np.flatnonzero(visits.arms != incumbents)
        if tried.size:
            prefixes = visits.prefixes[tried]
            expected = self.expected(prefixes, float(visits.ended_s[tried].max()), incumbents[tried])
            self.purse.settle(prefixes, visits.flows[tried], visits.values[tried] - expected)
        levels = self.posteriors.observe(
            visits.prefixes, visits.arms, visits.values, visits.information, visits.ended_s
        )
        if self._changes is None:
            return np.zeros(0, np.int64)
        # The values lack their arms' effects, so a visit of another arm is not taken for a change of the
        # path.
        counts = self.posteriors.visits[visits.prefixes]
        changed = visits.prefixes[self._changes.update(visits.prefixes, counts, levels)]
        self.posteriors.fade(changed)
        self.site.fade(changed, self.posteriors.noise.changed_effect)
        return changed

    def surprise(self, prefixes: Ints, now_s: float) -> Ints:
        """Take in surprises: the decision's own choice earned less on prefixes than other arms have shown.

        The value of this choice becomes unsure again, so that trials of other arms are worth more. If
        surprises follow each other within `CALM_S`, only the first one counts, because the trials after it
        have shown enough. A surprise changes nothing on a prefix whose incumbent is another arm.

        Args:
            prefixes: numbers of the prefixes, each once, shape (m,).
            now_s: time, s.

        Returns:
            The prefixes on which the surprise counts.
        """
        self._grow(prefixes)
        news = now_s - self._surprised_s[prefixes] >= CALM_S
        self._surprised_s[prefixes] = now_s
        opened: Ints = prefixes[news & (self._incumbents[prefixes] == 0)]
        self.posteriors.doubt(opened, np.zeros_like(opened))
        self.site.fade(opened, self.posteriors.noise.changed_effect)
        return opened

    def expected(self, prefixes: Ints, now_s: float, incumbents: Ints | None = None) -> Floats:
        """The expected log rewards of visits to these prefixes under their incumbents, shape (m,).

        `incumbents`, shape (m,), replaces the incumbents of the present plans.
        """
        incumbents = self._incumbents[prefixes] if incumbents is None else incumbents
        effects = self.effects(prefixes, now_s)
        # The level belongs to the decision's own choice, and the incumbent may be another arm.
        of_incumbent = effects.mean[np.arange(len(prefixes)), incumbents]
        expected: Floats = self.posteriors.levels(prefixes, effects, now_s) + of_incumbent
        return expected

    def effects(self, prefixes: Ints, now_s: float) -> Effects:
        """The posteriors of the arms' effects on these prefixes, shape (m, arms)."""
        return self._mixture(prefixes, now_s).effects

    def join(self, hosts: Ints, prefixes: Ints) -> None:
        """Begin to learn about single hosts of prefixes. Hosts are numbered like prefixes: the host of number
        `hosts[i]` is in the prefix of number `prefixes[i]`, shape (m,).
        """
        self._grow(np.concatenate([hosts, prefixes]))
        self._parents[hosts] = prefixes

    def _mixture(self, prefixes: Ints, now_s: float) -> Mixture:
        self._grow(prefixes)
        parents = self._parents[prefixes]
        hosts = np.flatnonzero(parents >= 0)
        found = self._of_prefixes(np.where(parents >= 0, parents, prefixes), now_s)
        if not hosts.size:
            return found
        prior = found.effects.take(hosts)
        return found.but(hosts, self.posteriors.mixture(prefixes[hosts], prior, now_s, hosts=True))

    def _of_prefixes(self, prefixes: Ints, now_s: float) -> Mixture:
        prior = self.paths.prior(prefixes, self._wider.without(prefixes))
        others = None
        if self.site.hosts.any():
            own = self.posteriors.known(prefixes, now_s)
            others = self.site.evidence(prefixes, own, now_s)
        return self.posteriors.mixture(prefixes, prior, now_s, others)

    def tell(self, prefixes: Ints, effects: Effects, hosts: Ints, now_s: float) -> None:
        """Take over the knowledge of the operator's other servers about prefixes; see `Site.tell`."""
        self._grow(prefixes)
        self.site.tell(prefixes, effects, hosts, now_s)

    def tell_paths(self, prefixes: Ints, numbers: Floats) -> None:
        """Take in the numbers that describe flows' paths; see `Paths.tell`."""
        self._grow(prefixes)
        self.paths.tell(prefixes, numbers)

    def _widen(self, now_s: float) -> None:
        """Compute the mean effects over all prefixes anew, and how effects depend on the numbers of paths."""
        told = np.flatnonzero((self.posteriors.visits > 0) & (self._parents < 0))
        self._wider, self._wider_s = self.posteriors.wider(now_s, told), now_s
        told = told[:: -(-told.size // LEARN_FROM) or 1]
        known = self.posteriors.known(told, now_s)
        self.paths.learn(self._wider, known, told, self.posteriors.noise.between)

    def plan(
        self,
        prefixes: Ints,
        coming: Floats,
        now_s: float,
        trying: Ints | None = None,
        barred: Bools | None = None,
    ) -> Plan:
        """Plan the incumbent, the next trial and its chance for each prefix.

        Args:
            prefixes: numbers of the prefixes, each once, shape (m,).
            coming: number of flows of each prefix that may begin before the learner hears of them, shape
                (m,). They come on top of a visit of mean size.
            now_s: time, s.
            trying: numbers of the prefixes with visits that try another arm and have not ended; None for
                none. Their purses keep the price of a trial aside.
            barred: true for prefixes that get no trial, shape (m,); None for none.
        """
        self._grow(prefixes)
        if trying is not None:
            self._grow(trying)
        if not 0.0 <= now_s - self._wider_s < WIDER_S:
            self._widen(now_s)
        found = self._mixture(prefixes, now_s)
        incumbents = self._best(prefixes, found.effects)
        trials, worths = self._trials(prefixes, found, incumbents)
        # A trial is worth nothing before the prefix has shown how far its visits differ by themselves.
        worths[self.posteriors.visits[prefixes] < self._first_trial] = 0.0
        if barred is not None:
            worths[barred] = 0.0
        chances = self.purse.chances(
            prefixes, worths, self.purse.mean_visits(prefixes) + coming, now_s, trying
        )
        return Plan(incumbents, trials, chances)

    def _trials(self, prefixes: Ints, found: Mixture, incumbents: Ints) -> tuple[Ints, Floats]:
        """The arm that each prefix tries next, and the worth of this trial for its cost: shape (m,) each."""
        return best_trials(found, incumbents, self.posteriors.visit_noise(prefixes))

    def _best(self, prefixes: Ints, effects: Effects) -> Ints:
        """Give prefixes and hosts their incumbents, and return these arms, shape (m,).

        An incumbent is the arm whose gain has the highest lower bound. A prefix gains over the decision's own
        choice, and a host over the incumbent of its prefix.
        """
        incumbents = np.argmax(effects.mean - BOUND * np.sqrt(effects.variance), axis=1)
        self._incumbents[prefixes] = incumbents
        hosts = np.flatnonzero(self._parents[prefixes] >= 0)
        if hosts.size:
            of, places = effects.take(hosts), np.arange(hosts.size)
            base = self._incumbents[self._parents[prefixes[hosts]]]
            gain = of.mean - of.mean[places, base][:, None]
            gain -= BOUND * np.sqrt(of.variance + of.variance[places, base][:, None])
            gain[places, base] = 0.0
            self._incumbents[prefixes[hosts]] = np.argmax(gain, axis=1)
        return self._incumbents[prefixes]

    def forget(self, prefixes: Ints) -> None:
        """Forget all that is known of these prefixes. Their earnings and costs stay in the ledger."""
        self._grow(prefixes)
        self.posteriors.forget(prefixes)
        self.purse.forget(prefixes)
        self.site.forget(prefixes)
        self.paths.forget(prefixes)
        if self._changes is not None:
            self._changes.forget(prefixes)
        self._incumbents[prefixes] = 0
        self._surprised_s[prefixes] = -np.inf
        self._parents[prefixes] = -1

    def state(self) -> dict[str, np.ndarray]:
        """The learned state, as arrays that the caller may keep. It leaves out single hosts, detectors and
        surprises.
        """
        return {
            **self.posteriors.state(), **self.purse.state(len(self._incumbents)),
            **self.site.state(), **self.paths.state(),
            "incumbents": self._incumbents.copy(),
        }  # fmt: skip

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over the result of `state`. Raises `ArtifactError` if it does not fit."""
        incumbents = np.asarray(arrays["incumbents"], np.int64)
        size, arms = len(incumbents), self.posteriors.arms
        if incumbents.shape != (size,) or not ((incumbents >= 0) & (incumbents < arms)).all():
            raise ArtifactError("the arms of prefixes are none of the learner's")
        self.posteriors.restore(arrays, size)
        self.purse.restore(arrays, size)
        # The state of an earlier release has no knowledge of other hosts and of paths.
        for part in (self.site, self.paths):
            if any(name in arrays for name in part.state()):
                part.restore(arrays, size)
        self._incumbents, self._surprised_s = incumbents.copy(), np.full(size, -np.inf)
        self._parents = np.full(size, -1)
        self._changes = None if self._changes is None else Changes()
        self._have(size)


def _one_each(numbers: Ints) -> Iterator[Ints]:
    """Yield groups of indices into `numbers`. A group has each number at most once, and the first group has
    the first place of each number, the second group the second place, and so on.
    """
    left = np.arange(len(numbers))
    while left.size:
        _, first = np.unique(numbers[left], return_index=True)
        yield left[first]
        left = np.delete(left, first)
