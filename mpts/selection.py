# SPDX-License-Identifier: Apache-2.0
"""Successive Accepts and Rejects with a fixed budget (Mutant, Algorithm 2).

The algorithm runs in phases. After each phase one arm is accepted into the team or rejected. Two places of
Mutant, Algorithm 2, need a reading:

- The paper's log-bar is a sum of T terms, where T is the budget. In the paper's sources the sum has n terms,
  where n is the number of arms (Audibert, Bubeck & Munos 2010; Bubeck, Wang & Viswanathan 2013). Only n terms
  make the phases add up to the budget. With n = 11 and T = 100 the phases' rounded lengths may spend T - n =
  89 pulls. With T terms they spend 42, and with n terms 83. Here the sum has n terms.
- Rounding down leaves at least n pulls over. They are spent in whole rounds, so that every phase pulls its
  active arms equally often. The first round goes to phase 1, so that no arm is judged unseen. The other
  rounds go to the earliest phases that the rest pays for. If one pull remains, one of the last two arms gets
  it.

So every arm has at least n_j pulls when phase j ends, as Mutant, Theorem 5.1, requires.
"""

from __future__ import annotations

import numpy as np

from ltp_switcher.arrays import Floats, Ints
from ltp_switcher.errors import InvalidValueError


def phase_pulls(n_arms: int, budget: int) -> tuple[Ints, int]:
    """Return the pulls per active arm in each phase, and the pulls left for one arm at the end.

    Args:
        n_arms: n, at least 2.
        budget: T, at least n.

    Returns:
        pulls, shape (n - 1,): phase j (from 0) pulls each of its n - j active arms pulls[j] times.
        spare, 0 or 1: the pull that is left, so that all phases' pulls and `spare` add up to the budget.
    """
    phases = np.arange(1, n_arms)
    log_bar = 0.5 + float(np.sum(1.0 / np.arange(2, n_arms + 1)))
    n_j = np.floor((budget - n_arms) / (log_bar * (n_arms + 1 - phases))).astype(np.int64)
    pulls = np.diff(n_j, prepend=0)
    active = n_arms + 1 - phases
    pulls[0] += 1
    rest = budget - int(pulls @ active)
    while rest >= 2:
        size = min(rest, n_arms)
        if rest - size == 1 and size > 2:
            size -= 1
        pulls[n_arms - size] += 1
        rest -= size
    return pulls, rest


def check_sizes(n_arms: int, k: int) -> None:
    """Raise `InvalidValueError` if a team of k cannot be picked from n_arms arms."""
    if n_arms < 1:
        raise InvalidValueError("n_arms", n_arms, "1 or more")
    if not 1 <= k <= n_arms:
        raise InvalidValueError("k", k, f"1 to {n_arms}, the number of arms")


class SuccessiveAcceptsRejects:
    """Finds the k arms with the highest mean reward in exactly `budget` pulls.

    Ask `next_arm`, pull the arm that it returns, and hand the reward to `observe`. When `next_arm` returns
    None, the team is in `result`. Arms are numbered 0 to n_arms - 1. Within a phase the active arms take
    turns in an order drawn anew each round, so that a drift of the path burdens all arms alike.

    With k = n_arms the team is all arms, and no pull is asked for.

    Raises:
        InvalidValueError: n_arms < 1, k outside 1..n_arms, or budget < n_arms.
    """

    def __init__(
        self, n_arms: int, k: int = 6, budget: int = 100, rng: np.random.Generator | None = None
    ) -> None:
        check_sizes(n_arms, k)
        if budget < n_arms:
            raise InvalidValueError("budget", budget, f"{n_arms} or more: every arm is pulled once")
        self.n_arms = n_arms
        self.k = k
        self.budget = budget
        self.pulls = np.zeros(n_arms, np.int64)
        self.sums = np.zeros(n_arms)
        self._rng = np.random.default_rng(0) if rng is None else rng
        self._active = list(range(n_arms))
        self._accepted: list[int] = []
        self._phase = 0
        self._queue: list[int] = []
        if k == n_arms:
            self._accepted, self._active = list(range(n_arms)), []
        else:
            self._per_phase, self._spare = phase_pulls(n_arms, budget)
            self._fill()

    @property
    def means(self) -> Floats:
        """Empirical mean reward of each arm, shape (n_arms,); 0 for an arm that was never pulled."""
        return self.sums / np.maximum(self.pulls, 1)

    @property
    def result(self) -> tuple[int, ...] | None:
        """The team, best mean first, or None while pulls are outstanding."""
        if self._active or self._queue:
            return None
        means = self.means
        return tuple(sorted(self._accepted, key=lambda arm: (-means[arm], arm)))

    def next_arm(self) -> int | None:
        """Return the arm to pull now, or None when the budget is spent."""
        return self._queue[-1] if self._queue else None

    def observe(self, reward: float) -> None:
        """Take the reward of the arm that `next_arm` named.

        Raises:
            InvalidValueError: the budget is spent, or the reward is not finite.
        """
        if not self._queue:
            raise InvalidValueError("reward", reward, "nothing: the budget is spent")
        if not np.isfinite(reward):
            raise InvalidValueError("reward", reward, "a finite number")
        arm = self._queue.pop()
        self.pulls[arm] += 1
        self.sums[arm] += reward
        while not self._queue and self._active:
            self._end_phase()

    def _fill(self) -> None:
        """Queue the pulls of the phase, last one first."""
        active = np.array(self._active)
        rounds = [self._rng.permutation(active) for _ in range(int(self._per_phase[self._phase]))]
        if self._phase == self.n_arms - 2 and self._spare:
            rounds.append(self._rng.choice(active, self._spare))
        self._queue = [int(arm) for turn in reversed(rounds) for arm in turn]

    def _end_phase(self) -> None:
        """Deactivate the arm with the widest empirical gap (Mutant, Algorithm 2, steps 2 to 4)."""
        means = self.means
        order = sorted(self._active, key=lambda arm: -means[arm])
        wanted = self.k - len(self._accepted)
        if wanted in (0, len(order)):
            # All other arms are rejected or accepted already. The rest of the budget still refines the means.
            chosen = order[-1] if wanted == 0 else order[0]
        else:
            kth, after = means[order[wanted - 1]], means[order[wanted]]
            accept_gap, reject_gap = means[order[0]] - after, kth - means[order[-1]]
            tied = accept_gap == reject_gap
            accept = bool(self._rng.integers(2)) if tied else accept_gap > reject_gap
            chosen = order[0] if accept else order[-1]
        self._active.remove(chosen)
        if wanted and chosen == order[0]:
            self._accepted.append(chosen)
        self._phase += 1
        if self._phase < self.n_arms - 1:
            self._fill()
        else:
            if len(self._accepted) < self.k:
                self._accepted += self._active
            self._active = []
