# SPDX-License-Identifier: Apache-2.0
"""A short tournament of paired measurements, which ends early when the result is clear or cannot be reached.

Arm 0 is the incumbent, the arm that runs anyway. A round compares another arm with the incumbent. It yields
the logarithm of the ratio of their rewards, in which a change of the path cancels. Each arm's mean log ratio
has an interval by Student's t, with one variance for all arms. The tournament ends once the intervals
separate the k best arms from the others, once each arm is known well enough, or once the rounds are used up.
It gives up an arm if the arm's remaining rounds could not decide at the variance seen so far.

The initial order is the incumbent first, then the other arms in the given order. An arm passes another one
only if their intervals are apart. The incumbent starts with a lead of `LEAD`, because a few round trips show
neither the price of a change nor an arm's rare events.

Suppose that the noise of the rewards is normal and equal for all arms. Then the probability that a worse arm
passes a better one is at most `error`, for any variance. This bound covers all looks at all arms
(Bonferroni).
"""

from __future__ import annotations

from functools import lru_cache
from math import atan, cos, pi, sin, sqrt
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats
from ltp_switcher.errors import InvalidValueError
from ltp_switcher.mpts.selection import check_sizes

ROUNDS: Final = 8
"""Largest number of rounds in which one arm is compared."""
ROUNDS_LEAST: Final = 3
"""Number of rounds of an arm before the tournament judges the arm."""
ERROR: Final = 0.1
PRECISE: Final = 0.05
"""Half-width of an interval, as a log ratio, at which an arm is known well enough: about 5 % of its
reward."""
LEAD: Final = 0.1
"""The log ratio by which another arm has to exceed the incumbent: about 10 % of the reward."""
MOST: Final = 3.0
"""Limit to which log ratios are clipped: a factor of 20 decides, and anything beyond it is noise."""


class PairedTournament:
    """Finds the k best of n arms, numbered 0 to n_arms - 1, by comparing the others with arm 0, the
    incumbent.

    The initial order stays until the intervals prove another order. Ask `next_arm`, compare the arm that it
    returns with arm 0, and pass the log ratio to `observe`. When `next_arm` returns None, the team is in
    `result`. No more than `budget` rounds are asked for.

    Args:
        n_arms: number n of arms.
        k: size of the team. With k = n_arms the team is all arms, and no round is asked for.
        rounds: largest number of rounds of an arm.
        error: largest probability that a worse arm passes a better one; see the module's text.

    Raises:
        InvalidValueError: n_arms < 1, k outside 1..n_arms, rounds < 3, or error outside 0..1.
    """

    def __init__(self, n_arms: int, k: int, *, rounds: int = ROUNDS, error: float = ERROR) -> None:
        check_sizes(n_arms, k)
        if rounds < ROUNDS_LEAST:
            raise InvalidValueError("rounds", rounds, f"{ROUNDS_LEAST} or more")
        if not 0.0 < error < 1.0:
            raise InvalidValueError("error", error, "a probability between 0 and 1")
        self.n_arms, self.k, self.rounds = n_arms, k, rounds
        self.budget = 0 if k == n_arms else (n_arms - 1) * rounds
        self.pulls = np.zeros(n_arms, np.int64)
        """Rounds of each arm."""
        self._weights = np.zeros(n_arms)
        self._sums = np.zeros(n_arms)
        self._squares = np.zeros(n_arms)
        looks = max(n_arms - 1, 1) * (rounds - ROUNDS_LEAST + 1)
        self._tail = error / (2.0 * looks)

    @property
    def means(self) -> Floats:
        """Mean log ratio of each arm to arm 0, shape (n_arms,); 0 for an arm that was never measured."""
        return np.divide(self._sums, self._weights, out=np.zeros(self.n_arms), where=self._weights > 0)

    @property
    def half_widths(self) -> Floats:
        """Half-width of the interval of each arm's mean, shape (n_arms,).

        The half-width is 0 for arm 0, and infinite for another arm that is not judged yet.
        """
        deviation, freedom = self._noise()
        found = np.full(self.n_arms, np.inf)
        judged = self.pulls >= ROUNDS_LEAST
        if judged.any():
            found[judged] = student_quantile(freedom, self._tail) * deviation / np.sqrt(self._weights[judged])
        found[0] = 0.0
        return found

    @property
    def decided(self) -> bool:
        """Whether the intervals separate the k best arms from the other arms, given the incumbent's lead."""
        return self.k == self.n_arms or bool(self._told_apart(self._scores(), self.half_widths).all())

    @property
    def result(self) -> tuple[int, ...] | None:
        """The team, best first, or None while rounds are outstanding."""
        return None if self.next_arm() is not None else self.ranking()[: self.k]

    def next_arm(self) -> int | None:
        """Return the arm to measure now, or None at the end. Arms that are still undecided take turns."""
        if self.k == self.n_arms:
            return None
        mean, half = self._scores(), self.half_widths
        unsure = ~self._told_apart(mean, half) & (half > PRECISE) & (self.pulls < self.rounds)
        unsure &= ~self._hopeless(mean)
        unsure[0] = False
        arms = np.flatnonzero(unsure)
        return int(arms[self.pulls[arms].argmin()]) if arms.size else None

    def observe(self, arm: int, log_ratio: float, weight: float = 1.0) -> None:
        """Take in the log ratio of an arm's reward to the reward of arm 0.

        Args:
            arm: the arm that `next_arm` named.
            log_ratio: the log ratio; it is clipped to ±`MOST`.
            weight: information in this round over the information in a whole round, above 0 and up to 1. An
                aborted round has less than 1.

        Raises:
            InvalidValueError: `next_arm` named another arm, the log ratio is not a number, or the weight is
                out of range.
        """
        wanted = self.next_arm()
        if arm != wanted:
            raise InvalidValueError("arm", arm, f"{wanted}, the next arm")
        if np.isnan(log_ratio):
            raise InvalidValueError("log_ratio", log_ratio, "a number")
        if not 0.0 < weight <= 1.0:
            raise InvalidValueError("weight", weight, "above 0, at most 1")
        value = min(max(log_ratio, -MOST), MOST)
        self.pulls[arm] += 1
        self._weights[arm] += weight
        self._sums[arm] += weight * value
        self._squares[arm] += weight * value * value

    def ranking(self) -> tuple[int, ...]:
        """All arms, best first. The initial order changes only where the intervals prove that it is wrong."""
        mean, half = self._scores(), self.half_widths
        above = (mean - half)[:, None] > (mean + half)[None, :]
        left = list(range(self.n_arms))
        order: list[int] = []
        while left:
            first = next(arm for arm in left if not above[left, arm].any())
            left.remove(first)
            order.append(first)
        return tuple(order)

    def _scores(self) -> Floats:
        """The means with the incumbent's lead."""
        scores = self.means
        scores[0] = LEAD
        return scores

    def _noise(self) -> tuple[float, int]:
        """The standard deviation of a log ratio from a whole round, and its degrees of freedom."""
        freedom = int(np.maximum(self.pulls - 1, 0).sum())
        # Rounding may leave a number slightly below 0.
        squares = float(np.maximum(self._squares - self._weights * self.means**2, 0.0).sum())
        return sqrt(squares / max(freedom, 1)), freedom

    def _told_apart(self, mean: Floats, half: Floats) -> Bools:
        """True for arms that are surely among the k best, or surely not, shape (n_arms,)."""
        low, high = mean - half, mean + half
        others = ~np.eye(self.n_arms, dtype=np.bool_)
        rivals = ((high[None, :] >= low[:, None]) & others).sum(axis=1)
        better = (low[None, :] > high[:, None]).sum(axis=1)
        found: Bools = (rivals < self.k) | (better >= self.k)
        return found

    def _hopeless(self, mean: Floats) -> Bools:
        """True for arms that the remaining rounds could not decide, shape (n_arms,).

        An arm's gap is the distance of its mean to the nearest mean on the other side of the team's border
        (Mutant, Eq. 5). The arm is hopeless if its gap and its standard error together are less than the
        half-width that its interval will have after all its rounds.
        """
        deviation, freedom = self._noise()
        order = np.sort(mean)[::-1]
        gap = np.where(mean >= order[self.k - 1], mean - order[self.k], order[self.k - 1] - mean)
        judged = self.pulls >= ROUNDS_LEAST
        error = deviation / np.sqrt(np.maximum(self._weights, 1e-9))
        found = np.zeros(self.n_arms, np.bool_)
        for arm in np.flatnonzero(judged).tolist():
            final = student_quantile(freedom + self.rounds - int(self.pulls[arm]), self._tail)
            found[arm] = gap[arm] + error[arm] < final * deviation / sqrt(self.rounds)
        return found


@lru_cache(maxsize=4096)
def student_quantile(freedom: int, tail: float) -> float:
    """Return the value that Student's t with `freedom` degrees of freedom exceeds with probability `tail` <
    0.5.

    The source is Abramowitz & Stegun, 26.7.3.
    """
    low, high = 0.0, 1.0
    while _student_tail(high, freedom) > tail:
        low, high = high, 2.0 * high
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _student_tail(middle, freedom) > tail else (low, middle)
    return high


def _student_tail(value: float, freedom: int) -> float:
    angle = atan(value / sqrt(freedom))
    odd = freedom % 2 == 1
    term, total = (cos(angle) if odd else 1.0), 0.0
    for step in range(2 + odd, freedom + 1, 2):
        total += term
        term *= cos(angle) ** 2 * (step - 1) / step
    inside = 2.0 / pi * (angle + sin(angle) * total) if odd else sin(angle) * total
    return 0.5 * (1.0 - inside)
