# SPDX-License-Identifier: Apache-2.0
"""The purse: the budget of trials. It has an income, a ledger, and a rule for its spending.

A visit is a group of flows to a prefix that began near each other on one arm. The incumbent is the arm that
flows to the prefix run without a trial. The unit of the purse is the reward of one flow under the incumbent.
Each flow pays a share of this unit in. Each flow of a trial costs the logarithm of the incumbent's reward
over the flow's own reward. If the trial gains, this cost is below 0, and the gain pays in.

Let x be the logarithm of the flow's reward over the incumbent's. The cost -x never counts a loss of reward
too low, because -x >= 1 - exp(x), and noise in x cancels in the sum. A flow can lose at most the reward of
one flow, so a flow costs at most that. A flow that gains pays in at most as much, or else noise would pay in.

The purses of the server and of the prefix must hold the worst case of a trial of mean size before the trial
may be drawn. This amount is set aside until the visits that drew it have ended. A prefix that has had a visit
may overdraw by the worst case of two such trials. Without that, a server with few prefixes would wait for a
hundred visits, however bad its usual policy is. The bounds are:

- spent on a prefix <= max(3 % of the reward of its flows, the reward of two mean visits);
- spent on all <= max(1 % of the reward of all flows, the reward of two mean visits to the prefix that asks
  for most).

With visits of one size, the shares alone count from the 67th visit to the prefix on, and from the 200th visit
in all. A visit that is larger than the mean may exceed the bounds once, by the rest of its flows. After that
there is no trial until the flows have earned its cost. A bound that held the largest visit, too, would buy
nothing where visits differ much in size: with two of the largest visits to overdraw by, half of the first
hundred flows to a path were in trials (docs/lab-notes/learner.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Ints
from ltp_switcher.daemon.choose.visits.posterior import Mixture
from ltp_switcher.errors import ArtifactError
from ltp_switcher.slots import SlotArrays, column

SERVER_SHARE: Final = 0.01
"""Largest share of all flows' reward that trials may cost."""
PREFIX_SHARE: Final = 0.03
"""Largest share of the reward of a prefix's flows that the prefix's trials may cost."""
AHEAD: Final = 2.0
"""Number of trials of other arms whose worst cost may be spent before the flows have earned it
(docs/lab-notes/learner.md).
"""
CHANCE: Final = 0.48
"""Chance that a visit, a group of flows on one arm, is a trial of another arm, if there is money for one. It
stays below one half, because `step/learning/lots.py` takes the rarer one of a prefix's two arms for the
trial.
"""
WORST: Final = 1.0
"""Largest cost of a flow in a trial: the whole reward of one flow. A flow's gain counts up to this amount,
too.
"""
ASIDE_S: Final = 22.0
"""Time in seconds for which the worst case of a trial stays set aside. A plan lasts for 10 s, and a flow
reports within 12 s, so after this time the learner has heard of each visit that drew the trial. The amount
stays set aside for longer where such a visit, a group of flows on one arm, has not ended.
"""
HOLD: Final = 4.0
"""Factor by which a waiting trial has to promise more than a running one, to take its money. Money that moves
lies idle until the visits of the earlier trial have ended.
"""
BID_S: Final = 15.0
"""Time in seconds for which a prefix without money waits for it in its place. The prefix asks anew with its
next plan, ten seconds later.
"""
WORTH: Final = 0.03
"""Least worth for its cost with which a trial of another arm may be drawn. A trial teaches for many later
flows, but not for ever.
"""
_LEAST_COST: Final = 1e-3
"""Least expected cost of a flow in a trial. It bounds the ratio of worth to cost of a trial that surely
gains.
"""


class Purse(SlotArrays):
    """The budget of trials on n prefixes, numbered from 0 on. Its unit is the reward of one flow.

    The server and each prefix have a purse. Flows pay in a share of their reward, and trials of other arms
    cost reward. A visit is a group of flows to a prefix that began on one arm, with or without a trial.
    """

    flows = column(np.float64)
    """Flows of each prefix so far."""
    visits = column(np.float64)
    """Visits of each prefix so far."""
    spent = column(np.float64)
    """Cost of each prefix's trials so far, less their gains."""
    _aside = column(np.float64)
    _aside_s = column(np.float64)
    _bids = column(np.float64)
    """Worth of each prefix's trial times its flows, by the last plan; 0 without a trial."""
    _bid_s = column(np.float64)
    _needed = column(np.float64)

    def __init__(self) -> None:
        super().__init__()
        self._forgotten = np.zeros(2)
        """Flows of the prefixes that were forgotten, and the cost of their trials."""

    @property
    def balance(self) -> float:
        """Balance of the server's purse, less the amounts set aside; below 0 while trials are paid ahead."""
        return SERVER_SHARE * self.totals[0] - self._out

    @property
    def share(self) -> float:
        """Cost of all trials so far as a share of all flows' reward."""
        flows, spent = self.totals
        return spent / max(flows, 1.0)

    @property
    def totals(self) -> tuple[float, float]:
        """Number of all flows so far, and the cost of all trials less their gains."""
        flows, spent = self._forgotten.tolist()
        return flows + float(self.flows.sum()), spent + float(self.spent.sum())

    @property
    def _out(self) -> float:
        """Cost of all trials so far, and what is set aside for further ones."""
        return self.totals[1] + float(self._aside.sum())

    def balances(self, prefixes: Ints) -> Floats:
        """Balance of each prefix's own purse, including the amounts set aside, shape (m,)."""
        return PREFIX_SHARE * self.flows[prefixes] - self.spent[prefixes]

    def mean_visits(self, prefixes: Ints) -> Floats:
        """Mean number of flows in a visit to each prefix, shape (m,); 1 before the first visit."""
        mean: Floats = self.flows[prefixes] / np.maximum(self.visits[prefixes], 1.0)
        return np.maximum(mean, 1.0)

    def forget(self, prefixes: Ints) -> None:
        """Start the purses of these prefixes anew. The server's purse keeps their earnings and costs."""
        self._forgotten += self.flows[prefixes].sum(), self.spent[prefixes].sum()
        self.reset(prefixes)

    def state(self, size: int) -> dict[str, np.ndarray]:
        """The ledger of the first `size` prefixes, as arrays that the caller may keep."""
        return {
            "flows": self.flows[:size].copy(), "paid_visits": self.visits[:size].copy(),
            "spent": self.spent[:size].copy(), "forgotten": self._forgotten.copy(),
        }  # fmt: skip

    def restore(self, arrays: Mapping[str, np.ndarray], size: int) -> None:
        """Take over the result of `state` for `size` prefixes. Raises `ArtifactError` if it does not fit."""
        flows, spent, forgotten = (np.array(arrays[name], float) for name in ("flows", "spent", "forgotten"))
        # The state of an earlier release has the visits of the posterior alone.
        visits = np.array(arrays["paid_visits" if "paid_visits" in arrays else "visits"], float)
        if any(part.shape != (size,) for part in (flows, visits, spent)) or forgotten.shape != (2,):
            raise ArtifactError(f"the ledger does not fit {size} prefixes")
        if not all(np.isfinite(part).all() for part in (flows, visits, spent, forgotten)):
            raise ArtifactError("the ledger holds numbers that are not finite")
        if (flows < 0).any() or (visits < 0).any():
            raise ArtifactError("the ledger holds numbers below 0")
        self.grow(size)
        self.reset(np.arange(self.capacity))
        self.flows[:size], self.visits[:size], self.spent[:size] = flows, visits, spent
        self._forgotten = forgotten

    def earn(self, prefixes: Ints, flows: Floats) -> None:
        """Take in the flows of visits that have ended, with and without trials. The arrays have the shape
        (m,).
        """
        np.add.at(self.flows, prefixes, flows)
        np.add.at(self.visits, prefixes, 1.0)

    def settle(self, prefixes: Ints, flows: Floats, effects: Floats) -> None:
        """Enter trials in the ledger. The arrays have the shape (m,).

        `effects` has the log reward of each trial, less the log reward that the incumbent, the arm without a
        trial, promised.
        """
        np.add.at(self.spent, prefixes, costs(flows, effects))

    def chances(
        self, prefixes: Ints, worths: Floats, flows: Floats, now_s: float, trying: Ints | None = None
    ) -> Floats:
        """The chance that a visit to each of these prefixes is a trial, shape (m,).

        Money goes first to the trials with the largest product of worth and `flows`, whichever prefix is
        planned first. So a prefix gets nothing while trials of others promise more and wait. It gives its
        money back where they promise `HOLD` times as much. A chance of 0 means that there is no money for the
        prefix, or that its trial is not worth its cost.

        Args:
            prefixes: numbers of the prefixes, each once, shape (m,).
            worths: worth of each prefix's trial for its cost, shape (m,); see `best_trials`.
            flows: number of flows of each prefix that are expected in trials at a time, shape (m,).
            now_s: time, s.
            trying: numbers of the prefixes with visits that try another arm and have not ended; None for
                none.
        """
        over = now_s - self._aside_s >= ASIDE_S
        if trying is not None:
            over[trying] = False
        self._aside[over] = 0.0
        before = self._aside[prefixes]
        needed = np.maximum(WORST * flows, before)
        # Before the first visit nobody knows how large a trial would be.
        ahead = np.where(self.flows[prefixes] > 0, AHEAD * needed, 0.0)
        own = np.maximum(self.balances(prefixes), ahead - self.spent[prefixes])
        asks = (worths >= WORTH) & (needed <= own)
        self._bids[prefixes] = np.where(asks, worths * flows, 0.0)
        self._bid_s[prefixes], self._needed[prefixes] = now_s, needed
        # Plans of other prefixes are made in other seconds. Their bids keep their places.
        bidders = np.flatnonzero((self._bids > 0) & (now_s - self._bid_s < BID_S))
        bids = np.where(self._aside[bidders] > 0, HOLD, 1.0) * self._bids[bidders]
        bidders = bidders[np.argsort(-bids, kind="stable")]
        held = max(self.balance, AHEAD * self._needed[bidders].max(initial=0.0) - self._out)
        lacking = np.maximum(self._needed - self._aside, 0.0)[bidders]
        paid = np.flatnonzero(asks & np.isin(prefixes, bidders[np.cumsum(lacking) <= held]))
        self._aside[prefixes[paid]] = needed[paid]
        self._aside_s[prefixes[paid]] = now_s
        chances = np.zeros(len(prefixes))
        chances[paid] = CHANCE
        return chances


def costs(flows: Floats, effects: Floats) -> Floats:
    """The costs of visits, which are groups of flows on one arm. The unit is the reward of one flow, and all
    arrays have the shape (m,).

    `flows` has the number of flows in each visit. `effects` has the log reward of each visit, less the log
    reward that the incumbent promised. A cost is below 0 where the visit earned more.
    """
    found: Floats = flows * np.clip(-effects, -WORST, WORST)
    return found


def best_trials(found: Mixture, incumbents: Ints, noise: Floats) -> tuple[Ints, Floats]:
    """Return the arm that each prefix tries next, and the worth of this trial for its cost, each of shape
    (m,).

    The incumbent is the arm that visits, groups of flows to a prefix, run without a trial. The gain of a
    trial is the expected rise of the best arm's value once the trial's result is known (knowledge gradient:
    P. Frazier, W. Powell, S. Dayanik 2008). Its cost is its expected loss. The chosen arm has the largest
    gain in 1 / `WORTH` visits, less its cost. The ratio of gain to cost would choose worse: an arm that is a
    little better than the incumbent costs nothing, so it would keep all other arms from their trials.

    Args:
        found: posteriors of the arms on m prefixes.
        incumbents: the incumbent of each prefix, shape (m,).
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
    """The expected gain E[max(x, 0)] and the expected loss E[max(-x, 0)] of a normal variable x, for example
    a log ratio of rewards.

    The arguments may have any common shape.
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
