# SPDX-License-Identifier: Apache-2.0
"""Types that all kinds of team selection share. Team selection is the search for a path's best arms; it has
terms, progress and an outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from ltp_switcher.arrays import Floats
from ltp_switcher.daemon.datapath.performance import Performance
from ltp_switcher.measures import BYTES_TO_MBIT, reward
from ltp_switcher.mpts import SuccessiveAcceptsRejects

Method = Literal["tournament", "budget", "visits"]
"""The way to find a team. `tournament` compares arms with the incumbent, the arm of the policy (`pairs`).
`budget` is Mutant's Algorithm 2 with pulls within flows (`pulls`), and `visits` is the same algorithm with
whole visits as pulls (`visits`).
"""
METHODS: Final[tuple[Method, ...]] = ("tournament", "budget", "visits")
STALLED_NS: Final = 2_000_000_000
"""Time in ns. A flow without a record for this long takes no part in team selection, the search for a path's
best arms.
"""


class Terms(NamedTuple):
    """The candidates from which a team of arms is picked, by id, and the size k of the team."""

    candidates: tuple[int, ...]
    k: int

    @classmethod
    def of(cls, candidates: Sequence[int], k: int) -> Terms:
        """Make the terms for a wanted size k, which is cut to the number of candidates."""
        return cls(tuple(candidates), min(k, len(candidates)))

    @property
    def open(self) -> bool:
        """True if there are more candidates than the team may have."""
        return self.k < len(self.candidates)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a selection. `pulls` is the number of trials so far, and `budget` is its limit. `means`
    has the mean of each arm as in `Outcome`, or None before the arm's first trial.
    """

    method: Method
    k: int
    pulls: int
    budget: int
    means: Mapping[int, float | None]
    half_widths: Mapping[int, float | None]
    """Half widths of the intervals around the means, by arm; None if there is no interval yet."""
    cost: float | None = None
    """Reward that the visits of a selection by visits have cost, in rewards of one flow; None for other
    methods.
    """


@dataclass(frozen=True, slots=True)
class Outcome:
    """A team of arms, the best first, and the measurements behind it, by arm.

    The measurements may be missing if an earlier run of the daemon found the team.
    """

    team: tuple[int, ...]
    method: Method = "budget"
    means: Mapping[int, float] | None = None
    """Mean of each arm. In a tournament it is the mean logarithm of the arm's reward over the incumbent's,
    which is 0 for the incumbent, the arm of the policy. In Algorithm 2 it is the mean of Mutant Eq. 1. With
    visits as pulls it is the mean value of the visits, a log reward.
    """
    half_widths: Mapping[int, float] | None = None
    """Half widths of a tournament's intervals around the means, by arm. An arm that was not judged is
    missing.
    """
    cost: float | None = None
    """Reward that the visits of a selection by visits have cost, in rewards of one flow; None for other
    methods.
    """
    found_ns: int = 0
    """Time at which a tournament found the team, CLOCK_MONOTONIC. From then on the outcome ages. It is 0 for
    other methods, whose outcomes do not age.
    """


@dataclass(slots=True)
class Budgeted:
    """A selection by Mutant's Algorithm 2 under way on a prefix. Arm i of `bandit` has the id `arms[i]`."""

    terms: Terms
    bandit: SuccessiveAcceptsRejects

    @property
    def arms(self) -> tuple[int, ...]:
        """Ids of the arms, in the order of `bandit`."""
        return self.terms.candidates

    def told(self, method: Method, cost: float | None = None) -> Progress:
        """The number of pulls so far, and the mean of each arm's pulls. `method` and `cost` are as in
        `Progress`.
        """
        bandit = self.bandit
        means = {
            arm: float(mean) if pulls else None
            for arm, mean, pulls in zip(self.arms, bandit.means, bandit.pulls, strict=True)
        }
        return Progress(method, bandit.k, int(bandit.pulls.sum()), bandit.budget, means, {}, cost)


Found = Callable[[str, Outcome, list[int]], None]
"""Callback for a selection that has ended. It takes the prefix, the outcome, and the slots of the flows that
took part.
"""


class Eq1:
    """The reward (Mutant Eq. 1) without normalisation, because the scale of a normaliser would move between
    trials.
    """

    def __init__(self, zeta: float, kappa: float) -> None:
        self._zeta, self._kappa = zeta, kappa

    def __call__(self, seen: Performance) -> Floats:
        """The rewards, in Mbit/s to the power of kappa, per ms. They have the shape of the
        fields of `seen`.
        """
        return reward(
            seen.throughput_Bps * BYTES_TO_MBIT, seen.loss_rate, seen.rtt_us * 1e-3,
            zeta=self._zeta, kappa=self._kappa,
        )  # fmt: skip


def gaps(team: tuple[int, ...], means: Mapping[int, float]) -> dict[int, float]:
    """Return the gap of each arm (Mutant Eq. 5), by arm; empty if all arms are in the team.

    The gap of an arm in the team is the arm's mean, less the best mean outside the team. The gap of another
    arm is the worst mean in the team, less the arm's mean.
    """
    others = [mean for arm, mean in means.items() if arm not in team]
    if not others:
        return {}
    worst = min(means[arm] for arm in team)
    return {arm: mean - max(others) if arm in team else worst - mean for arm, mean in means.items()}
