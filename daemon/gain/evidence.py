# SPDX-License-Identifier: Apache-2.0
"""A sequential test that stays valid however often its experiment is looked at.

The experiment comes in rounds. In a round each unit has a fixed number of time blocks, and a lot chooses a
fixed number of them for treatment. Because chance alone decides, no assumption about the traffic is needed.
Load may drift, blocks may resemble their neighbours, and goodput may be skewed or heavy-tailed.

Suppose that the treatment changes goodput by a given factor. If the treated blocks are divided by this
factor, the remaining values do not depend on the lot (Fisher, 1935). Their ranks within the unit's round are
the scores, as in the stratified rank test of van Elteren (1960). A bet on low ranks of the treated blocks
pays

    exp(-b W) / E[exp(-b W')],    W: sum of the treated blocks' scores, W': the same under another lot.

If the supposition holds, this payment is 1 in expectation. So the product of the bets of all rounds is a test
martingale, and the probability that it ever reaches 1/a is at most a (Ville, 1939). The mean over several b
is a test martingale, too (mixtures: Robbins, 1970), and no variance must be known. Low ranks contradict a
supposed effect above the true effect, and high ranks contradict one below it. The effects that nothing has
contradicted are a confidence sequence (Howard et al., Annals of Statistics 2021; by lots: Ham, Bojinov,
Lindon and Tingley, "Design-based confidence sequences", 2022; test martingales: Ramdas et al., Statistical
Science 2023). The sequence holds for the statement that the effect of every block is at least, or at most,
the supposed one (Caughey et al., 2023).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats

ERROR: Final = 0.05
"""Probability that the confidence sequence ever leaves out the true effect. Each side has half of it."""
BETS: Final[Floats] = 2.0 ** np.arange(-4, 2, dtype=np.float64)
"""Sizes b of the bets. The bet of size b is best at finding an effect of b standard deviations of the noise.
"""
_BOTH: Final[Floats] = np.concatenate([BETS, -BETS])
PROOF: Final = math.log(2 / ERROR)
"""Logarithm that a martingale has to reach before the effect that it supposes counts as contradicted."""
_SMALLEST: Final = 2
"""Least number of blocks with traffic for which a unit can be compared with itself."""


@dataclass(frozen=True, slots=True)
class Round:
    """The goodput of one round of time blocks, by prefix and block.

    Attributes:
        logs: natural logarithm of the goodput in bytes/s, shape (prefixes, blocks); NaN without traffic.
        treated: whether each prefix was treated in each block, shape (prefixes, blocks).
        together: whether one lot decided for all prefixes, so that all prefixes are one unit.
    """

    logs: Floats
    treated: Bools
    together: bool

    def without(self, effect: float) -> Round:
        """Return the round that would be if the treatment had not changed goodput by this relative effect."""
        return self._changed(-math.log1p(effect), self.treated)

    def redrawn(self, effect: float, treated: Bools) -> Round:
        """Return the round that would be if these blocks were treated, and the treatment changed goodput by
        this relative effect. Call this only on a round without an effect. `treated` has the shape of `logs`.
        """
        return self._changed(math.log1p(effect), treated)

    def _changed(self, by: float, treated: Bools) -> Round:
        return Round(self.logs + np.where(treated, by, 0.0), treated, self.together)

    def values(self) -> tuple[Floats, Bools]:
        """Return the units' values by block, NaN where missing, and whether each unit is treated in each
        block. Both arrays have the shape (units, blocks).

        If each prefix is a unit, its value is the logarithm of its goodput, less its mean over the blocks,
        less the mean of all prefixes in the block. If all prefixes are one unit, its value is this mean of
        all prefixes in the block.
        """
        known = np.isfinite(self.logs)
        own = self.logs - _mean(self.logs, known, 1)
        load = _mean(own, known, 0)
        if not self.together:
            return own - load, self.treated
        seen = known.any(axis=0, keepdims=True)
        return np.where(seen, load, np.nan), self.treated[:1]


def _mean(values: Floats, known: Bools, axis: int) -> Floats:
    """Return the mean of the known values along an axis; 0 if none is known. The axis keeps the length 1."""
    count = known.sum(axis=axis, keepdims=True)
    total = np.where(known, values, 0.0).sum(axis=axis, keepdims=True)
    return np.asarray(total / np.maximum(count, 1), np.float64)


def log_bets(values: Floats, treated: Bools, bets: Floats) -> Floats:
    """Return the logarithms of the payments of bets that the treated blocks have low ranks, summed over the
    units, shape (bets,).

    A bet with a negative size is on high ranks. Blocks without a value do not count. Among the blocks with a
    value, all choices of the same number of treated blocks are equally likely.

    Args:
        values: values of units by block, shape (units, blocks); NaN where missing.
        treated: whether each unit was treated in each block, shape (units, blocks).
        bets: sizes of the bets, shape (bets,).
    """
    known = np.isfinite(values)
    some = known & treated
    chosen, present = some.sum(axis=1), known.sum(axis=1)
    uneven = (chosen > 0) & (chosen < present) & (present >= _SMALLEST)
    values, known, some, chosen, present = (part[uneven] for part in (values, known, some, chosen, present))
    if not chosen.size:
        return np.zeros(bets.shape)
    # Values that are missing sort behind all others.
    ranks = np.argsort(np.argsort(np.where(known, values, np.inf), axis=1, kind="stable"), axis=1)
    size = present[:, None].astype(np.float64)
    scores = np.where(known, (ranks - (size - 1) / 2) / np.sqrt((size**2 - 1) / 12), 0.0)
    # A bet of 0 pays 1 under each lot, so it counts the lots.
    sizes = np.append(bets, 0.0)
    paid = -sizes[:, None] * np.where(some, scores, 0.0).sum(axis=1)
    weights = np.exp(-sizes[:, None] * scores.T[:, None]) * known.T[:, None]
    sums = _sums_of_products(weights, int(chosen.max()))
    logs = paid - np.log(sums[chosen, :, np.arange(chosen.size)].T)
    return np.asarray((logs[:-1] - logs[-1]).sum(axis=1), np.float64)


def _sums_of_products(weights: Floats, largest: int) -> Floats:
    """Sum the products of all choices of k weights, for k from 0 to `largest`.

    The weights lie along the first axis. The first axis of the result is k.
    """
    sums = np.zeros((largest + 1, *weights.shape[1:]))
    sums[0] = 1.0
    for weight in weights:
        sums[1:] += weight * sums[:-1]
    return sums


class Evidence:
    """The evidence of the rounds so far against some supposed effects. A supposed effect is a relative change
    of goodput by the treatment.

    Args:
        effects: the supposed effects, each above -1.
    """

    def __init__(self, effects: Sequence[float]) -> None:
        self.effects: Floats = np.unique(np.asarray(effects, np.float64))
        shape = self.effects.size, 2, BETS.size
        self._logs: Floats = np.zeros(shape)
        """Logarithms of the products of all bets, shape (effects, 2, bets). The first of the two are bets on
        low ranks, and the second are bets on high ranks.
        """
        self._most: Floats = np.zeros(shape[:2])
        """The greatest logarithm that each martingale has reached so far, shape (effects, 2)."""

    def take(self, found: Round, at: int) -> None:
        """Add the evidence of a round for or against the supposed effect `effects[at]`."""
        values, treated = found.without(float(self.effects[at])).values()
        self._logs[at] += log_bets(values, treated, _BOTH).reshape(2, -1)
        self._most[at] = np.maximum(self._most[at], _log_mean_exp(self._logs[at]))

    @property
    def lower(self) -> float | None:
        """The greatest of the supposed effects that the true effect is proven to exceed; None before the
        first proof.
        """
        beyond = self.effects[self._most[:, 1] >= PROOF]
        return float(beyond.max()) if beyond.size else None

    @property
    def upper(self) -> float | None:
        """The least of the supposed effects below which the true effect is proven to be; None before the
        first proof.
        """
        beyond = self.effects[self._most[:, 0] >= PROOF]
        return float(beyond.min()) if beyond.size else None

    def arrays(self) -> dict[str, Floats]:
        """The evidence so far, in the form that `restore` takes."""
        return {"effects": self.effects, "logs": self._logs, "most": self._most}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Go on from arrays that `arrays` returned.

        Raises:
            ValueError: the arrays have other shapes or effects, or values that are not finite.
        """
        for name, own in self.arrays().items():
            if arrays[name].shape != own.shape or not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} of shape {arrays[name].shape}, not {own.shape}")
        if not np.array_equal(arrays["effects"], self.effects):
            raise ValueError("evidence about other effects")
        self._logs, self._most = np.array(arrays["logs"], np.float64), np.array(arrays["most"], np.float64)


def _log_mean_exp(logs: Floats) -> Floats:
    """Logarithm of the mean of exponentials along the last axis."""
    most = logs.max(axis=-1, keepdims=True)
    return np.asarray(most[..., 0] + np.log(np.exp(logs - most).mean(axis=-1)), np.float64)


class Power:
    """An estimate of the number of rounds that prove an effect of a given size, at the noise that the rounds
    so far have shown.
    """

    def __init__(self, effect: float, seed: int) -> None:
        self._effect = effect
        self._rng = np.random.default_rng(seed)
        self._gain: Floats = np.zeros(BETS.size)
        self._rounds = 0

    def take(self, found: Round, draws: int) -> None:
        """Draw other lots for a round, `draws` times. Each time, apply the effect to the blocks that the lots
        choose, and add the payments that the bets would have made.
        """
        for _ in range(draws):
            lots = self._rng.permuted(found.treated[:1] if found.together else found.treated, axis=1)
            values, treated = found.redrawn(self._effect, np.broadcast_to(lots, found.logs.shape)).values()
            bets = BETS if self._effect < 0 else -BETS
            self._gain += log_bets(values, treated, bets) / draws
        self._rounds += 1

    @property
    def seen(self) -> Floats:
        """Sums of the logarithms of the bets' payments, and as the last item the number of rounds, shape
        (bets + 1,). It can be set to a saved value.
        """
        return np.append(self._gain, self._rounds)

    @seen.setter
    def seen(self, seen: Floats) -> None:
        if seen.shape != (BETS.size + 1,) or not np.isfinite(seen).all():
            raise ValueError(f"power of shape {seen.shape}, not {BETS.size + 1} numbers")
        self._gain, self._rounds = np.array(seen[:-1], np.float64), int(seen[-1])

    @property
    def rounds(self) -> float | None:
        """Estimated number of rounds until the effect is proven; None if not known."""
        if not self._rounds or self._gain.max() <= 0:
            return None
        # The test takes the mean over all bets. So the best bet has to pay more, to make up for all others.
        return float((PROOF + math.log(BETS.size)) * self._rounds / self._gain.max())
