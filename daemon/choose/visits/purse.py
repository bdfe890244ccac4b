# SPDX-License-Identifier: Apache-2.0
"""The purse of the trials: its income, its ledger, and the trials on which it is spent.

The unit is the reward of one flow under the incumbent, the arm that flows to the prefix run without a trial.
Each flow pays a share of it in. A trial costs, for each of its flows, the logarithm of the incumbent's reward
over the flow's own. Where a trial gains, the cost is below 0, and the gain pays in.

The logarithm costs a loss of reward never less than it was, for -x >= 1 - exp(x), and noise in x cancels in
its sum. A flow can lose no more than the reward of one flow. So no flow costs more than that. None pays in
more either, or else noise would pay in.

The purses of the server and of the prefix must hold the worst case of a trial before it may be drawn. It is
set aside for the time of a visit. A prefix that has had a visit may go ahead by the worst case of two trials:
without that, a server with few prefixes waits for a hundred visits, however bad its decision. The bounds are:

- spent on a prefix <= max(3 % of the reward of its flows, the reward of two of its largest visits);
- spent on all <= max(1 % of the reward of all flows, the reward of two of the largest visits).

With visits of one size, the shares alone count from the 67th visit to the prefix on, and from the 200th in
all. This holds as long as no more flows come than were expected.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Ints
from ltp_switcher.daemon.choose.visits.posterior import Mixture
from ltp_switcher.errors import ArtifactError

SERVER_SHARE: Final = 0.01
"""Share of all flows' reward that trials may cost."""
PREFIX_SHARE: Final = 0.03
"""Share of the reward of a prefix's flows that its own trials may cost."""
AHEAD: Final = 2.0
"""Trials whose worst case may be spent before it is earned (docs/lab-notes/learner.md)."""
CHANCE: Final = 0.48
"""Chance that a visit is a trial, where there is money for one. It stays below one half: by that the seldom
lot is known as the trial (`step/learning/lots.py`)."""
WORST: Final = 1.0
"""Most that a flow of a trial costs: all of the reward of one flow. As much at most it pays in."""
ASIDE_S: Final = 60.0
"""Time for which money stays set aside: a visit lasts no longer."""
WORTH: Final = 0.03
"""Least worth of a trial for its cost. A trial teaches for many visits, but not for ever."""
_LEAST_COST: Final = 1e-3
"""Least expected cost of a trial's flow, so that a trial which surely gains is not without bound."""


class Purse:
    """Income and ledger of n prefixes, numbered from 0 on."""

    def __init__(self) -> None:
        self.flows = np.zeros(0)
        """Flows of each prefix so far, shape (n,)."""
        self.spent = np.zeros(0)
        """Cost of each prefix's trials so far, less their gains, shape (n,)."""
        self._aside = np.zeros(0)
        self._aside_s = np.zeros(0)
        self._forgotten = np.zeros(2)
        """Flows of the prefixes that were forgotten, and the cost of their trials."""

    def grow(self, size: int) -> None:
        """Have room for prefixes up to this number."""
        more = max(size - len(self.flows), 0)
        self.flows = np.concatenate([self.flows, np.zeros(more)])
        self.spent = np.concatenate([self.spent, np.zeros(more)])
        self._aside = np.concatenate([self._aside, np.zeros(more)])
        self._aside_s = np.concatenate([self._aside_s, np.zeros(more)])

    @property
    def balance(self) -> float:
        """Free balance of the server's purse, in flows' rewards; below 0 where trials are not yet earned."""
        return SERVER_SHARE * self.totals[0] - self._out

    @property
    def share(self) -> float:
        """Cost of all trials so far as a share of all flows' reward."""
        flows, spent = self.totals
        return spent / max(flows, 1.0)

    @property
    def totals(self) -> tuple[float, float]:
        """All flows so far, and the cost of all trials, less their gains."""
        flows, spent = self._forgotten.tolist()
        return flows + float(self.flows.sum()), spent + float(self.spent.sum())

    @property
    def _out(self) -> float:
        """Cost of all trials so far, and what is set aside for further ones."""
        return self.totals[1] + float(self._aside.sum())

    def balances(self, prefixes: Ints) -> Floats:
        """Balance of each prefix's own purse, with what is set aside: shape (m,)."""
        return PREFIX_SHARE * self.flows[prefixes] - self.spent[prefixes]

    def forget(self, prefixes: Ints) -> None:
        """These prefixes begin anew; the server's purse keeps what they have earned and spent."""
        self._forgotten += self.flows[prefixes].sum(), self.spent[prefixes].sum()
        self.flows[prefixes] = self.spent[prefixes] = self._aside[prefixes] = 0.0

    def state(self) -> dict[str, np.ndarray]:
        """The ledger, as arrays that the caller may keep."""
        return {
            "flows": self.flows.copy(), "spent": self.spent.copy(), "forgotten": self._forgotten.copy()
        }  # fmt: skip

    def restore(self, arrays: Mapping[str, np.ndarray], size: int) -> None:
        """Take over the result of `state` for so many prefixes. Raises `ArtifactError` if it does not fit."""
        flows, spent, forgotten = (np.array(arrays[name], float) for name in self.state())
        if flows.shape != (size,) or spent.shape != (size,) or forgotten.shape != (2,):
            raise ArtifactError(f"the ledger does not fit {size} prefixes")
        if not all(np.isfinite(part).all() for part in (flows, spent, forgotten)) or (flows < 0).any():
            raise ArtifactError("the ledger holds numbers that cannot be")
        self.flows, self.spent, self._forgotten = flows, spent, forgotten
        self._aside, self._aside_s = np.zeros(size), np.zeros(size)

    def earn(self, prefixes: Ints, flows: Floats) -> None:
        """Take in the flows of visits that have ended, trials and others: shape (m,) each."""
        np.add.at(self.flows, prefixes, flows)

    def settle(self, prefixes: Ints, flows: Floats, effects: Floats) -> None:
        """Enter trials in the ledger: shape (m,) each. effects: trial less incumbent, log of the reward."""
        np.add.at(self.spent, prefixes, flows * np.clip(-effects, -WORST, WORST))

    def chances(self, prefixes: Ints, worths: Floats, flows: Floats, now_s: float) -> Floats:
        """The chance that a visit to each of these prefixes is a trial, shape (m,).

        Money goes first where a trial is worth most, over all flows to come, for its cost. A chance of 0
        means that there is no money for the prefix.

        Args:
            prefixes: their numbers, each once, shape (m,).
            worths: what their trials are worth for their cost, shape (m,); see `best_trials`.
            flows: most flows of each prefix that may be in trials at a time, shape (m,).
            now_s: time, s.
        """
        self._aside[now_s - self._aside_s >= ASIDE_S] = 0.0
        before = self._aside[prefixes]
        needed = np.maximum(WORST * flows, before)
        # Before the first visit nobody knows how large a trial would be.
        ahead = np.where(self.flows[prefixes] > 0, AHEAD * needed, 0.0)
        own = np.maximum(self.balances(prefixes), ahead - self.spent[prefixes])
        may = np.flatnonzero((worths >= WORTH) & (needed <= own))
        may = may[np.argsort(-(worths * flows)[may], kind="stable")]
        held = np.maximum(self.balance, ahead[may] - self._out)
        paid = may[np.cumsum((needed - before)[may]) <= held]
        self._aside[prefixes[paid]] = needed[paid]
        self._aside_s[prefixes[paid]] = now_s
        chances = np.zeros(len(prefixes))
        chances[paid] = CHANCE
        return chances


def best_trials(found: Mixture, incumbents: Ints, noise: Floats) -> tuple[Ints, Floats]:
    """The arm that each prefix tries next, and the worth of this trial for its cost: shape (m,) each.

    The gain of a trial is how much more the arm that seems best is expected to earn once the trial has told
    its value (knowledge gradient: P. Frazier, W. Powell, S. Dayanik 2008). Its cost is the loss that is
    expected of it. The arm is the one with the largest gain in 1 / `WORTH` visits, less its cost. By gain
    over cost, an arm a little better than the incumbent keeps all others from their trials: it costs nothing.

    Args:
        found: the arms' posteriors, of m prefixes.
        incumbents: the arm that each runs, shape (m,).
        noise: variance of the noise of a visit, shape (m,).
    """
    gain, cost = np.zeros_like(found.near.mean), np.zeros_like(found.near.mean)
    rows = np.arange(len(incumbents))
    for share, effects in ((1.0 - found.far_share, found.near), (found.far_share, found.far)):
        mean = effects.mean - effects.mean[rows, incumbents][:, None]
        variance = effects.variance + effects.variance[rows, incumbents][:, None]
        learned = variance / np.sqrt(variance + noise[:, None])
        gain += share * expected(mean, learned)[0]
        cost += share * expected(mean, np.sqrt(variance))[1]
    net = gain - WORTH * cost
    net[rows, incumbents] = -np.inf
    arms = np.argmax(net, axis=1)
    return arms, gain[rows, arms] / np.maximum(cost[rows, arms], _LEAST_COST)


def expected(mean: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """The gain and the loss that are expected of a normal effect x, E[max(x, 0)] and E[max(-x, 0)].

    Any one shape.
    """
    z = mean / np.maximum(spread, 1e-12)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    gain = np.maximum(mean * _below(z) + spread * density, 0.0)
    return gain, np.maximum(gain - mean, 0.0)


def _below(z: Floats) -> Floats:
    """The standard normal distribution function, to 1e-7.

    M. Abramowitz and I. Stegun 1964, Handbook of Mathematical Functions, equation 26.2.17.
    """
    t = 1.0 / (1.0 + 0.2316419 * np.abs(z))
    powers = t * (0.319381530 + t * (-0.356563782 + t * (1.781477937 + t * (-1.821255978 + t * 1.330274429))))
    above = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi) * powers
    found: Floats = np.where(z > 0, 1.0 - above, above)
    return found
