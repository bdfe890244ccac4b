# SPDX-License-Identifier: Apache-2.0
"""The purse of the trials: its income, its ledger, and the trials on which it is spent.

The unit is the reward of one flow under the incumbent, the arm that flows to the prefix run without a trial.
Each flow pays a share of it in. A trial costs, for each of its flows, the logarithm of the incumbent's reward
over the flow's own. Where a trial gains, the cost is below 0, and the gain pays in. A trial needs money in
the purses of the server and of its prefix.

The logarithm costs a loss of reward never less than it was, for -x >= 1 - exp(x), and noise in x cancels in
its sum. So no more than the two shares of the reward is lost on trials.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Ints
from ltp_switcher.daemon.choose.visits.posterior import Effects
from ltp_switcher.errors import ArtifactError

SERVER_SHARE: Final = 0.01
"""Share of all flows' reward that trials may cost."""
PREFIX_SHARE: Final = 0.03
"""Share of the reward of a prefix's flows that its own trials may cost."""
CHANCE_MAX: Final = 0.25
"""Highest chance that a visit is a trial."""
WORTH: Final = 0.1
"""Least expected gain of a trial over its cost. A trial teaches for many visits, but not for ever."""
_LEAST_COST: Final = 1e-3
"""Least expected cost of a trial's flow, so that a trial which surely gains is not without bound."""


class Purse:
    """Income and ledger of n prefixes, numbered from 0 on."""

    def __init__(self) -> None:
        self.flows = np.zeros(0)
        """Flows of each prefix so far, shape (n,)."""
        self.spent = np.zeros(0)
        """Cost of each prefix's trials so far, less their gains, shape (n,)."""
        self._forgotten = np.zeros(2)
        """Flows of the prefixes that were forgotten, and the cost of their trials."""

    def grow(self, size: int) -> None:
        """Have room for prefixes up to this number."""
        more = max(size - len(self.flows), 0)
        self.flows = np.concatenate([self.flows, np.zeros(more)])
        self.spent = np.concatenate([self.spent, np.zeros(more)])

    @property
    def balance(self) -> float:
        """Balance of the server's purse, in flows' rewards."""
        flows, spent = self.totals
        return SERVER_SHARE * flows - spent

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

    def balances(self, prefixes: Ints) -> Floats:
        """Balance of each prefix's own purse, shape (m,)."""
        return PREFIX_SHARE * self.flows[prefixes] - self.spent[prefixes]

    def forget(self, prefixes: Ints) -> None:
        """These prefixes begin anew; the server's purse keeps what they have earned and spent."""
        self._forgotten += self.flows[prefixes].sum(), self.spent[prefixes].sum()
        self.flows[prefixes] = self.spent[prefixes] = 0.0

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

    def earn(self, prefixes: Ints, flows: Floats) -> None:
        """Take in the flows of visits, trials and others: shape (m,) each."""
        np.add.at(self.flows, prefixes, flows)

    def settle(self, prefixes: Ints, flows: Floats, effects: Floats) -> None:
        """Enter trials in the ledger: shape (m,) each. effects: trial less incumbent, log of the reward."""
        np.add.at(self.spent, prefixes, -flows * effects)

    def chances(
        self, prefixes: Ints, incumbents: Ints, effects: Effects, flows: Floats
    ) -> tuple[Ints, Floats]:
        """The arm that each of these prefixes tries next, and the chance that a visit tries it.

        Money goes first where a trial's expected gain, over all flows to come, is largest for its cost. A
        chance of 0 means that there is no money for the prefix.

        Args:
            prefixes: their numbers, each once, shape (m,).
            incumbents: the arm that each runs, shape (m,).
            effects: the arms' posteriors, shape (m, arms).
            flows: flows that each prefix expects until chances are asked for again, shape (m,).

        Returns:
            Arms and chances, shape (m,) each.
        """
        rows = np.arange(len(prefixes))
        mean = effects.mean - effects.mean[rows, incumbents][:, None]
        spread = np.sqrt(effects.variance + effects.variance[rows, incumbents][:, None])
        gain, cost = expected(mean, spread)
        cost = np.maximum(cost, _LEAST_COST)
        ratio = gain / cost
        ratio[rows, incumbents] = -1.0
        arms = np.argmax(ratio, axis=1)
        cost = cost[rows, arms]
        whole = np.maximum(flows, 1e-9) * cost
        wanted = np.clip(self.balances(prefixes) / whole, 0.0, CHANCE_MAX) * whole
        wanted[ratio[rows, arms] < WORTH] = 0.0
        order = np.argsort(-ratio[rows, arms] * flows, kind="stable")
        before = np.concatenate([[0.0], np.cumsum(wanted[order])[:-1]])
        chances = np.zeros(len(prefixes))
        chances[order] = np.clip(self.balance - before, 0.0, wanted[order]) / whole[order]
        return arms, chances


def expected(mean: Floats, spread: Floats) -> tuple[Floats, Floats]:
    """The gain and the loss that are expected of a normal effect x, E[max(x, 0)] and E[max(-x, 0)].

    Any one shape.
    """
    z = mean / np.maximum(spread, 1e-12)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    gain = np.maximum(mean * _below(z) + spread * density, 0.0)
    return gain, np.maximum(gain - mean, 0.0)


def _below(z: Floats) -> Floats:
    """The standard normal distribution function."""
    tails = (math.erfc(value / -math.sqrt(2)) for value in z.ravel().tolist())
    return np.fromiter(tails, np.float64, z.size).reshape(z.shape) / 2
