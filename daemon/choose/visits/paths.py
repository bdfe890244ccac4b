# SPDX-License-Identifier: Apache-2.0
"""LinUCB on the numbers of paths: the prior of the effects on a prefix, before the prefix has had a trial.

An effect is an arm's gain in log reward over the daemon's usual policy. It is the sum of three parts: the
mean over all prefixes (the wider level), a linear function of the eight numbers of the path
(`choose.path.model`), and the spread between prefixes. The function is fitted to the prefixes that know their
effects (L. Li et al. 2010, disjoint LinUCB). These prefixes weigh as in the wider level, and none may differ
from the mean by more than `CLAIM`. The square of LinUCB's width is added to the variance. So the effects are
unsure on a path unlike all others, and a trial there teaches more. If the data do not show that effects
depend on the paths, the function counts for little (J. A. Hoeting et al. 1999, Bayesian Model Averaging).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Ints
from ltp_switcher.daemon.choose.bandit.linucb import LinUCB
from ltp_switcher.daemon.choose.chooser import Number
from ltp_switcher.daemon.choose.visits.posterior import Effects
from ltp_switcher.errors import ArtifactError

RIDGE: Final = 8.0
"""Certainty (one over the variance) of each weight of the linear function, before any data. The function
leads from the numbers of a path to an arm's gain in log reward. So a number at one standard deviation from
its median typically changes the gain by 0.35.
"""
DEPENDS: Final = 0.2
"""Probability, before any data, that an arm's gain in log reward depends on the numbers that describe paths.
"""
CLAIM: Final = 1.5
"""If an arm's gain in log reward on a prefix differs by more than this from the mean over all prefixes, only
this difference counts for other prefixes.
"""
MEMORY: Final = 50.0
"""Number of flows over which the numbers of a prefix's path are averaged. Older flows fade."""
UNUSUAL: Final = 3.0
"""Largest distance of a number that describes a path from the median of all prefixes, in robust standard
deviations. Larger distances count as this one.
"""
_LEAST: Final = np.array([1.0, 0.02, 1.0, 1.0, 1.0, 1e-4, 100.0, 0.02])
"""A constant that is added to each number before its logarithm, in the number's unit, because numbers may be
0.
"""
_TO_DEVIATION: Final = 1.4826
"""Ratio of the standard deviation to the median absolute deviation, for a normal distribution."""


class Paths:
    """The numbers of the paths to n prefixes, and the effects of k arms that follow from them. An effect is
    an arm's gain in log reward over the daemon's usual policy. A visit is a group of flows to a prefix on one
    arm.
    """

    def __init__(self, arms: int) -> None:
        self.arms = arms
        self._sum = np.zeros((0, len(Number)))
        self._count = np.zeros((0, len(Number)))
        self._model = LinUCB(arms, len(Number), RIDGE)
        self._middle, self._scale = np.zeros(len(Number)), np.full(len(Number), np.inf)
        self._share = np.zeros(arms)
        """Chance that the effects of an arm depend on the paths, shape (arms,)."""

    def __len__(self) -> int:
        return len(self._sum)

    def grow(self, size: int) -> None:
        """Make room for prefixes with numbers below `size`."""
        more = np.zeros((max(size - len(self), 0), len(Number)))
        self._sum, self._count = np.concatenate([self._sum, more]), np.concatenate([self._count, more])

    def tell(self, prefixes: Ints, numbers: Floats) -> None:
        """Take in the numbers that describe the paths of m flows. A prefix may appear more than once.

        Args:
            prefixes: number of each flow's prefix, shape (m,).
            numbers: the numbers in the order of `Number`, shape (m, numbers); NaN if not observed.
        """
        seen = ~np.isnan(numbers)
        logs = np.log(np.where(seen, np.maximum(numbers, 0.0), 0.0) + _LEAST)
        np.add.at(self._sum, prefixes, np.where(seen, logs, 0.0))
        np.add.at(self._count, prefixes, seen)
        keep = np.minimum(MEMORY / np.maximum(self._count[prefixes], 1.0), 1.0)
        # If a prefix is named twice, both of its entries get the same values.
        self._sum[prefixes], self._count[prefixes] = self._sum[prefixes] * keep, self._count[prefixes] * keep

    def learn(self, wider: Effects, known: Effects, prefixes: Ints, between: float) -> None:
        """Fit the linear functions, from numbers of paths to effects, anew.

        Args:
            wider: mean effects over all prefixes, shape (1, arms).
            known: effects by the prefixes' own visits alone, shape (m, arms). The variance is infinite if no
                visit ran the arm.
            prefixes: numbers of the prefixes, shape (m,).
            between: variance of an effect between prefixes.
        """
        logs = self._logs(prefixes)
        if not np.isfinite(logs).any():
            return
        enough = np.isfinite(logs).sum(axis=0) > 2
        self._middle, self._scale = np.zeros(len(Number)), np.full(len(Number), np.inf)
        self._middle[enough] = np.nanmedian(logs[:, enough], axis=0)
        spread = _TO_DEVIATION * np.nanmedian(np.abs(logs[:, enough] - self._middle[enough]), axis=0)
        self._scale[enough] = np.where(spread > 0, spread, np.inf)
        z = self._z(logs)
        weights = 1.0 / (known.variance + between)
        claims = np.where(weights > 0, np.clip(known.mean - wider.mean, -CLAIM, CLAIM), 0.0)
        A = np.einsum("na,ni,nj->aij", weights, z, z, optimize=True)
        b = np.einsum("na,ni->ai", weights * claims, z)
        self._model.start(np.zeros(1, np.int64), A[None], b[None], (weights > 0).sum(axis=0)[None])
        # The log ratio of the probability of the data with the linear function to the probability without it.
        precision = A + RIDGE * np.eye(len(Number))
        fit = np.einsum("ai,ai->a", b, np.linalg.solve(precision, b[:, :, None])[:, :, 0])
        odds = 0.5 * (fit - np.linalg.slogdet(precision / RIDGE)[1]) + math.log(DEPENDS / (1.0 - DEPENDS))
        self._share = 1.0 / (1.0 + np.exp(-np.clip(odds, -50.0, 50.0)))
        self._share[0] = 0.0

    def prior(self, prefixes: Ints, wider: Effects) -> Effects:
        """Return the effects to expect on m prefixes, shape (m, arms).

        They follow from the mean over other prefixes (`wider`, shape (m, arms) or (1, arms)) and from the
        prefixes' paths.
        """
        size = len(prefixes), wider.mean.shape[1]
        mean, variance = (np.broadcast_to(part, size).copy() for part in (wider.mean, wider.variance))
        if self._share.any():
            z, slots = self._z(self._logs(prefixes)), np.zeros(len(prefixes), np.int64)
            means = self._model.means(slots, z)
            mean += self._share * means
            variance += self._share * self._model.widths(slots, z) ** 2
            variance += self._share * (1.0 - self._share) * means**2
        return Effects(mean, variance)

    def forget(self, prefixes: Ints) -> None:
        """Forget the numbers of these prefixes' paths."""
        self._sum[prefixes] = self._count[prefixes] = 0.0

    def state(self) -> dict[str, np.ndarray]:
        """The numbers, as arrays with n rows that the caller may keep."""
        return {"path_sum": self._sum.copy(), "path_count": self._count.copy()}

    def restore(self, arrays: Mapping[str, np.ndarray], size: int) -> None:
        """Take over the result of `state` for `size` prefixes. Raises `ArtifactError` if it does not fit."""
        taken = {name: np.array(arrays[name], float) for name in self.state()}
        for name, array in taken.items():
            if array.shape != (size, len(Number)) or not np.isfinite(array).all():
                raise ArtifactError(f"{name} does not hold the numbers of {size} paths")
        if (taken["path_count"] < 0).any():
            raise ArtifactError("a number of a path was told less than never")
        self._sum, self._count = taken["path_sum"], taken["path_count"]

    def _logs(self, prefixes: Ints) -> Floats:
        """Mean logarithms of the numbers, shape (m, numbers); NaN where not observed."""
        count = self._count[prefixes]
        logs: Floats = np.full(count.shape, np.nan)
        return np.divide(self._sum[prefixes], count, out=logs, where=count > 0)

    def _z(self, logs: Floats) -> Floats:
        """Distances of the numbers from their medians, in robust standard deviations, up to ±`UNUSUAL`, shape
        (m, numbers); 0 where not observed.
        """
        z: Floats = np.nan_to_num((logs - self._middle) / self._scale)
        return np.clip(z, -UNUSUAL, UNUSUAL)
