# SPDX-License-Identifier: Apache-2.0
"""The posterior of the arms on every prefix: how much more each arm is worth than the decision's own choice.

The decision is the daemon's usual policy. A visit is a group of flows to a prefix that began near each other
on one arm. It is one observation y = level + effect[arm] + noise, in the logarithm of the reward. All arms
share the level of the path, which drifts. Arm 0 is the decision's own choice, and its effect is 0. So only
differences between arms that ran on one path near each other in time carry information. A Kalman filter keeps
a Gaussian over the level and the effects of each prefix. Between visits all variances grow (a random walk),
so that old visits count for less and less. The noise of paths differs by a factor of ten. So each prefix has
its own factor on the noise, and learns it from the distances between its visits and the expected values.

A prefix with few visits takes the effects of its wider level as its prior. The wider level is a
random-effects mean over the prefixes below it, trimmed at both ends. In this mean no prefix weighs more than
one that is perfectly known, so no prefix can speak for the others. Most prefixes are near the mean, and a few
are far off. So the prior is a mixture of a narrow and a wide normal distribution, and data show to which of
the two an effect belongs.

A. Gelman and J. Hill, Data Analysis Using Regression and Multilevel/Hierarchical Models, chapter 12 (partial
pooling); R. E. Kalman 1960 (the filter).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Ints
from ltp_switcher.errors import ArtifactError

_DIFFUSE: Final = 100.0
"""Variance of an effect about which there are no data."""
_LEAST_TOLD: Final = 1e-3
"""Least certainty, one over the variance, with which an effect counts as known from data."""
_FACTOR_MAX: Final = 100.0
"""Largest noise that a single visit can show, as a multiple of the usual noise."""
_MEMORY: Final = 200.0
"""Number of visits over which a prefix's noise is averaged. Older visits fade."""
_LEVEL: Final = 25.0
"""Variance of a path's level before its first visit."""


@dataclass(frozen=True, slots=True)
class Noise:
    """The variances of the model, for the logarithm of the reward.

    A visit is a group of flows to a prefix on one arm. The level is the log reward of the decision's own
    choice on the path, and an arm's effect is its gain over this level. The decision is the daemon's usual
    policy. The information of a flow is 0 to 1, and grows with its busy time.
    """

    visit: float = 0.09
    """Variance of a visit around its arm's mean on the path, if the visit has unlimited information."""
    flow: float = 0.25
    """Further variance of a visit with the information of one long flow. With two such flows it is half as
    large.
    """
    level_per_s: float = 1e-3
    """Growth of the level's variance, per second."""
    effect_per_s: float = 1e-6
    """Growth of each effect's variance, per second."""
    between: float = 0.25
    """Variance of an effect between prefixes that are alike."""
    far: float = 1.5
    """Variance of those effects that are unlike the effects of other prefixes."""
    far_share: float = 0.2
    """Share of the effects that are unlike the effects of other prefixes."""
    host_between: float = 0.02
    """Variance of an effect between hosts of a prefix that are alike."""
    host_far_share: float = 0.02
    """Share of a host's effects that are unlike the effects of its prefix."""
    visits: float = 8.0
    """Number of visits after which a prefix's own noise weighs as much as the usual noise."""
    trim: float = 0.1
    """Share of the prefixes that the mean over prefixes leaves out at each end."""
    changed_level: float = 1.0
    """Growth of the level's variance when the path has changed."""
    changed_effect: float = 0.25
    """Growth of each effect's variance when the path has changed, or when the rule's self-check has left an
    arm. The effect is then as unsure as before the first visit to a prefix.
    """


@dataclass(frozen=True, slots=True)
class Effects:
    """Normal posteriors of the effects on n prefixes. An effect is an arm's gain in log reward over arm 0,
    the choice of the daemon's usual policy. Arm 0 has mean and variance 0.
    """

    mean: Floats
    """Means, shape (n, arms)."""
    variance: Floats
    """Variances, shape (n, arms)."""

    def take(self, chosen: Ints | Bools) -> Effects:
        """Return the effects of some prefixes, given by indices or by a mask."""
        return Effects(self.mean[chosen], self.variance[chosen])

    def but(self, places: Ints, others: Effects) -> Effects:
        """Return a copy with `others` at the indices `places`, shape (m,)."""
        return Effects(_but(self.mean, places, others.mean), _but(self.variance, places, others.variance))


@dataclass(frozen=True, slots=True)
class Wider(Effects):
    """The mean effects over prefixes, shape (1, arms), and what each prefix has added to them."""

    weights: Floats
    """Weight of each prefix in the means, shape (n, arms)."""
    values: Floats
    """Effects on each prefix as they entered the means, shape (n, arms)."""

    def without(self, prefixes: Ints) -> Effects:
        """Return the means without each of these prefixes, shape (m, arms).

        This is what the other prefixes tell of a prefix. With its own visits in the mean, they would count
        twice: as the evidence, and as the knowledge before it.
        """
        known = prefixes < len(self.weights)
        at = np.where(known, prefixes, 0)
        size = (len(prefixes), self.mean.shape[1])
        weights, values = np.zeros(size), np.zeros(size)
        if len(self.weights):
            weights[known], values[known] = self.weights[at[known]], self.values[at[known]]
        told = self.variance > 0
        total = np.divide(1.0, self.variance, out=np.ones_like(self.variance), where=told)
        left = total - weights
        mean: Floats = (total * self.mean - weights * values) / left
        return Effects(mean, np.where(told, 1.0 / left, 0.0))


@dataclass(frozen=True, slots=True)
class Mixture:
    """The posteriors of effects, which may be like the effects of other prefixes, or unlike them. An effect
    is an arm's gain in log reward over the choice of the daemon's usual policy.
    """

    near: Effects
    """The posteriors if the effects are like the effects of other prefixes."""
    far: Effects
    """The posteriors if the effects are unlike the effects of other prefixes."""
    far_share: Floats
    """Probability that an effect is unlike the effects of other prefixes, shape (n, arms)."""

    @property
    def effects(self) -> Effects:
        """The normal posteriors with the mean and the variance of the mixture."""
        share, apart = self.far_share, self.far.mean - self.near.mean
        between = self.far.variance - self.near.variance
        variance = self.near.variance + share * between + share * (1.0 - share) * apart**2
        return Effects(self.near.mean + share * apart, variance)

    def but(self, places: Ints, others: Mixture) -> Mixture:
        """Return a copy with `others` at the indices `places`, shape (m,)."""
        near, far, share = (
            self.near.but(places, others.near),
            self.far.but(places, others.far),
            self.far_share,
        )
        return Mixture(near, far, _but(share, places, others.far_share))


class Posteriors:
    """Levels and effects of n prefixes or hosts. Each has a Gaussian of its own.

    The decision is the daemon's usual policy. The level is the log reward of its own choice, arm 0. An effect
    is another arm's gain over the level. A visit is a group of flows on one arm, and counts as one
    observation.

    Args:
        arms: number of arms, including the decision's own choice.
        noise: the variances of the model.
    """

    def __init__(self, arms: int, noise: Noise | None = None) -> None:
        self.arms = arms
        self.noise = noise or Noise()
        # The first dimension is the level; effect k > 0 is dimension k.
        self._begin = np.diag([_LEVEL, *[_DIFFUSE] * (arms - 1)])
        self._mean = np.zeros((0, arms))
        self._covariance = np.zeros((0, arms, arms))
        self._seen_s = np.zeros(0)
        self._factor = np.zeros(0)
        self._certainty = np.zeros(0)
        self.visits = np.zeros(0, np.int64)
        """Number of visits to each prefix, shape (n,)."""

    def __len__(self) -> int:
        return len(self.visits)

    def grow(self, size: int) -> None:
        """Make room for prefixes with numbers below `size`. Nothing is known about new ones."""
        more = size - len(self)
        if more <= 0:
            return
        self._mean = np.concatenate([self._mean, np.zeros((more, self.arms))])
        self._covariance = np.concatenate([self._covariance, np.repeat(self._begin[None], more, axis=0)])
        self._seen_s = np.concatenate([self._seen_s, np.full(more, np.nan)])
        self._factor = np.concatenate([self._factor, np.ones(more)])
        self._certainty = np.concatenate([self._certainty, np.full(more, self.noise.visits)])
        self.visits = np.concatenate([self.visits, np.zeros(more, np.int64)])

    def observe(
        self, prefixes: Ints, arms: Ints, values: Floats, information: Floats, now_s: Floats
    ) -> Floats:
        """Take in one visit to each of m prefixes. All arrays have the shape (m,).

        Args:
            prefixes: numbers of the prefixes, from 0 on, each once.
            arms: the arm that each visit drew; 0 for the decision's own choice.
            values: mean log reward of the visit's flows, weighted by their information.
            information: sum of the flows' information, above 0. The information of a flow is 0 to 1, and
                grows with its busy time.
            now_s: time of the visit's end, s.

        Returns:
            The values without the effects of their arms, shape (m,). They depend on the level alone.
        """
        self.grow(int(prefixes.max(initial=-1)) + 1)
        mean = self._mean[prefixes]
        covariance = self._aged(prefixes, now_s)
        rows = np.arange(len(prefixes))
        # The observation is level + effect[arm]. The decision's own choice has no effect.
        along = covariance[:, :, 0] + np.where(arms > 0, 1.0, 0.0)[:, None] * covariance[rows, :, arms]
        spread = along[:, 0] + np.where(arms > 0, along[rows, arms], 0.0)
        expected = mean[:, 0] + np.where(arms > 0, mean[rows, arms], 0.0)
        usual = self.noise.visit + self.noise.flow / information
        self._learn_noise(prefixes, (values - expected) ** 2, spread, usual)
        gain = along / (spread + self._factor[prefixes] * usual)[:, None]
        self._mean[prefixes] = mean + gain * (values - expected)[:, None]
        updated = covariance - gain[:, :, None] * along[:, None, :]
        self._covariance[prefixes] = (updated + updated.transpose(0, 2, 1)) / 2
        self._seen_s[prefixes] = now_s
        self.visits[prefixes] += 1
        levels: Floats = values - self.gains(prefixes, arms)
        return levels

    def gains(self, prefixes: Ints, arms: Ints) -> Floats:
        """The effects of arms on prefixes, as the prefixes' own visits have shown them, shape (m,); 0 for the
        decision's own choice, and where there was no visit.

        Args:
            prefixes: numbers of the prefixes, which may be named several times, shape (m,).
            arms: an arm for each of them; 0 for the decision's own choice.
        """
        self.grow(int(prefixes.max(initial=-1)) + 1)
        return np.where(arms > 0, self._mean[prefixes, arms], 0.0)

    def fade(self, prefixes: Ints) -> None:
        """Let old visits to these prefixes count for less, because the paths have changed."""
        places = np.arange(self.arms)
        growth = np.full(self.arms, self.noise.changed_effect)
        growth[0] = self.noise.changed_level
        covariance = self._covariance[prefixes]
        covariance[:, places, places] += growth
        # The variance never exceeds its value before any data.
        covariance[:, places, places] = np.minimum(covariance[:, places, places], np.diagonal(self._begin))
        self._covariance[prefixes] = covariance

    def doubt(self, prefixes: Ints, arms: Ints) -> None:
        """Make the value of one arm on each of m prefixes unsure again. The arrays have the shape (m,).

        A value is level + effect, and the values of all other arms stay as they are. The value of the
        decision's own choice is the level alone. So if this level may have fallen, each effect may have risen
        by as much. The next visits of the decision tell about both. A value about which nothing is known does
        not become less sure.
        """
        covariance, rows = self._covariance[prefixes], np.arange(len(prefixes))
        along = np.zeros((len(prefixes), self.arms))
        along[rows, arms] = 1.0
        along[arms == 0, 1:] = -1.0
        known = 1.0 - np.diagonal(covariance, axis1=1, axis2=2) / np.diagonal(self._begin)
        along *= np.maximum(known, 0.0)
        self._covariance[prefixes] = (
            covariance + self.noise.changed_effect * along[:, :, None] * along[:, None, :]
        )

    def _learn_noise(self, prefixes: Ints, squares: Floats, spread: Floats, usual: Floats) -> None:
        """Take in how far visits lie from the expected values, shape (m,) each.

        Args:
            prefixes: their numbers, each once.
            squares: squares of the distances.
            spread: variance of the expected value itself. The larger it is, the less a visit says.
            usual: variance of the usual noise.
        """
        told = np.clip((squares - spread) / usual, 0.0, _FACTOR_MAX)
        weight = usual / (usual + spread)
        certainty = self._certainty[prefixes]
        self._factor[prefixes] = (certainty * self._factor[prefixes] + weight * told) / (certainty + weight)
        self._certainty[prefixes] = np.minimum(certainty + weight, self.noise.visits + _MEMORY)

    def levels(self, prefixes: Ints, effects: Effects, now_s: float) -> Floats:
        """The expected log rewards of visits under the decision's own choice, shape (m,).

        `effects` has the present estimates of the arms' effects, shape (m, arms). Visits of an arm show the
        sum of level and effect. So if an effect is thought to be smaller, the level is higher.
        """
        covariance = self._aged(prefixes, np.full(len(prefixes), now_s))
        moved = (effects.mean - self._mean[prefixes])[:, 1:, None]
        along = covariance[:, :1, 1:] @ np.linalg.solve(covariance[:, 1:, 1:], moved)
        found: Floats = self._mean[prefixes, 0] + along[:, 0, 0]
        return found

    def known(self, prefixes: Ints, now_s: float) -> Effects:
        """The effects on prefixes that follow from their own visits alone, shape (m, arms).

        The variance is infinite if no visit ran the arm.
        """
        spreads = self._variances(prefixes, np.full(len(prefixes), now_s))
        told = 1.0 / spreads - 1.0 / _DIFFUSE
        tells = told > _LEAST_TOLD
        variance = np.divide(1.0, told, out=np.full_like(told, np.inf), where=tells)
        # The knowledge before any data, a mean of 0, is taken out of this mean.
        mean = np.divide(self._mean[prefixes], spreads * told, out=np.zeros_like(told), where=tells)
        mean[:, 0], variance[:, 0] = 0.0, 0.0
        return Effects(mean, variance)

    def effects(self, prefixes: Ints, prior: Effects, now_s: float, others: Effects | None = None) -> Effects:
        """Return the result of `mixture` as normal posteriors, with the mixture's means and variances."""
        return self.mixture(prefixes, prior, now_s, others).effects

    def mixture(
        self,
        prefixes: Ints,
        prior: Effects,
        now_s: float,
        others: Effects | None = None,
        *,
        hosts: bool = False,
    ) -> Mixture:
        """The effects on m prefixes, by their own visits and the prior.

        The variance of `prior` is the variance of a mean over prefixes; the spread between prefixes is added
        here. A prefix can be unlike the others as a whole, or in one arm, and its data show which. Data about
        some arms can raise the probability that the other arms are unlike, too. They never lower it, because
        each arm has a probability of its own.

        Args:
            prefixes: numbers of the prefixes, shape (m,).
            prior: mean effects over prefixes, or for hosts the effects on their prefixes, shape (m, arms).
            now_s: time, s.
            others: evidence of the operator's other servers, shape (m, arms). The variance is infinite where
                there is none.
            hosts: true if these are single hosts, and the prior comes from their prefixes.
        """
        noise = self.noise
        between = noise.host_between if hosts else noise.between
        far_share = noise.host_far_share if hosts else noise.far_share
        covariance = self._aged(prefixes, np.full(len(prefixes), now_s))[:, 1:, 1:]
        # The knowledge before any data, a mean of 0, is taken out of the evidence.
        evidence: Floats = np.linalg.inv(covariance) - np.eye(self.arms - 1) / _DIFFUSE
        told: Floats = np.asarray(np.linalg.solve(covariance, self._mean[prefixes, 1:, None])[:, :, 0], float)
        if others is not None:
            evidence += _diagonals(1.0 / others.variance[:, 1:])
            told += others.mean[:, 1:] / others.variance[:, 1:]
        near, of_near = _joined(evidence, told, prior, between)
        far, of_far = _joined(evidence, told, prior, noise.far)
        # Here each arm is judged by itself, by its own data alone.
        alone = 1.0 / np.diagonal(covariance, axis1=1, axis2=2) - 1.0 / _DIFFUSE
        vector = self._mean[prefixes, 1:] * (alone + 1.0 / _DIFFUSE)
        if others is not None:
            precision = 1.0 / others.variance[:, 1:]
            alone, vector = alone + precision, vector + precision * others.mean[:, 1:]
        known = alone > _LEAST_TOLD
        spread = np.divide(1.0, alone, out=np.ones_like(alone), where=known)
        apart = np.where(known, vector * spread - prior.mean[:, 1:], 0.0) ** 2
        spread += prior.variance[:, 1:]
        odds = 0.5 * (
            np.log((spread + between) / (spread + noise.far))
            + apart / (spread + between) - apart / (spread + noise.far)
        )  # fmt: skip
        odds = np.maximum(np.where(known, odds, 0.0), (of_far - of_near)[:, None])
        odds += math.log(far_share / (1.0 - far_share))
        share = 1.0 / (1.0 + np.exp(-np.clip(odds, -50.0, 50.0)))
        return Mixture(near, far, np.concatenate([np.zeros((len(prefixes), 1)), share], 1))

    def visit_noise(self, prefixes: Ints) -> Floats:
        """Variance of the noise of a visit that has a single long flow, shape (m,)."""
        noise: Floats = self._factor[prefixes] * (self.noise.visit + self.noise.flow)
        return noise

    def wider(self, now_s: float, among: Ints | None = None) -> Wider:
        """The mean effects over prefixes with visits, trimmed at both ends, shape (1, arms).

        A prefix weighs 1 / (its variance + the variance between prefixes). `among` has the numbers of the
        prefixes that count; None stands for all prefixes with a visit.
        """
        known = np.flatnonzero(self.visits) if among is None else among
        mean, variance = np.zeros((1, self.arms)), np.zeros((1, self.arms))
        variance[:, 1:] = self.noise.between
        weights_of, values_of = np.zeros((len(self), self.arms)), np.zeros((len(self), self.arms))
        if not known.size:
            return Wider(mean, variance, weights_of, values_of)
        spreads = self._variances(known, np.full(known.size, now_s))
        for arm in range(1, self.arms):
            own = 1.0 / spreads[:, arm] - 1.0 / _DIFFUSE
            tells = own > _LEAST_TOLD
            if not tells.any():
                continue
            values = self._mean[known[tells], arm]
            weights = 1.0 / (1.0 / own[tells] + self.noise.between)
            kept = _trimmed(values, weights, self.noise.trim)
            # The prior of the wider level itself: an effect of 0, as uncertain as a prefix's.
            total = kept.sum() + 1.0 / self.noise.between
            mean[0, arm] = (kept * values).sum() / total
            variance[0, arm] = 1.0 / total
            weights_of[known[tells], arm], values_of[known[tells], arm] = kept, values
        return Wider(mean, variance, weights_of, values_of)

    def forget(self, prefixes: Ints) -> None:
        """Forget all that is known about these prefixes, so that they are like new ones."""
        self._mean[prefixes] = 0.0
        self._covariance[prefixes] = self._begin
        self._seen_s[prefixes] = np.nan
        self._factor[prefixes] = 1.0
        self._certainty[prefixes] = self.noise.visits
        self.visits[prefixes] = 0

    def state(self) -> dict[str, np.ndarray]:
        """All knowledge, as arrays with n rows that the caller may keep."""
        return {
            "mean": self._mean.copy(),
            "covariance": self._covariance.copy(),
            "seen_s": self._seen_s.copy(),
            "factor": self._factor.copy(),
            "certainty": self._certainty.copy(),
            "visits": self.visits.copy(),
        }

    def restore(self, arrays: Mapping[str, np.ndarray], size: int) -> None:
        """Take over the result of `state` for `size` prefixes. Raises `ArtifactError` if it does not fit."""
        shapes = {"mean": (size, self.arms), "covariance": (size, self.arms, self.arms)}
        taken = {name: np.array(arrays[name], float) for name in self.state()}
        for name, array in taken.items():
            if array.shape != shapes.get(name, (size,)):
                raise ArtifactError(f"{name} of {array.shape} does not fit {size} prefixes, {self.arms} arms")
            if name != "seen_s" and not np.isfinite(array).all():
                raise ArtifactError(f"{name} holds numbers that are not finite")
        variances = np.diagonal(taken["covariance"], axis1=1, axis2=2)
        if not ((variances > 0).all() and (taken["factor"] >= 0).all() and (taken["visits"] >= 0).all()):
            raise ArtifactError("a variance, a factor or a number of visits is too low")
        self._mean, self._covariance, self._seen_s = taken["mean"], taken["covariance"], taken["seen_s"]
        self._factor, self._certainty = taken["factor"], taken["certainty"]
        self.visits = taken["visits"].astype(np.int64)

    def _aged(self, prefixes: Ints, now_s: Floats) -> Floats:
        """The covariances as they are now: shape (m, arms, arms)."""
        places = np.arange(self.arms)
        covariance = self._covariance[prefixes]
        covariance[:, places, places] = self._variances(prefixes, now_s)
        return covariance

    def _variances(self, prefixes: Ints, now_s: Floats) -> Floats:
        """The variances as they are now: shape (m, arms)."""
        since_s = np.maximum(np.nan_to_num(now_s - self._seen_s[prefixes]), 0.0)
        growth = np.full(self.arms, self.noise.effect_per_s)
        growth[0] = self.noise.level_per_s
        known = np.diagonal(self._covariance, axis1=1, axis2=2)[prefixes]
        # The variance never exceeds its value before any data.
        aged: Floats = np.minimum(known + since_s[:, None] * growth, np.diagonal(self._begin))
        return aged


def _joined(evidence: Floats, told: Floats, prior: Effects, spread: float) -> tuple[Effects, Floats]:
    """Return the effects by data and a normal prior, shape (m, arms), and the log likelihood of the data
    under this prior, shape (m,). The log likelihood lacks the terms that are the same for every prior.

    Args:
        evidence: precision of the effects by data, shape (m, arms - 1, arms - 1).
        told: evidence times the effects by data, shape (m, arms - 1).
        prior: mean effects over prefixes, or for hosts the effects on their prefixes, shape (m, arms).
        spread: variance of an effect between prefixes.
    """
    expected, precision = prior.mean[:, 1:], 1.0 / (prior.variance[:, 1:] + spread)
    joint = np.linalg.inv(evidence + _diagonals(precision))
    vector = told + precision * expected
    mean = (joint @ vector[:, :, None])[:, :, 0]
    chance: Floats = 0.5 * (
        np.log(precision).sum(axis=1) + np.linalg.slogdet(joint)[1]
        + (vector * mean).sum(axis=1) - (precision * expected**2).sum(axis=1)
    )  # fmt: skip
    nothing = np.zeros((len(mean), 1))
    variance = np.maximum(np.diagonal(joint, axis1=1, axis2=2), 0.0)
    return Effects(np.concatenate([nothing, mean], 1), np.concatenate([nothing, variance], 1)), chance


def _but(values: Floats, places: Ints, others: Floats) -> Floats:
    made = values.copy()
    made[places] = others
    return made


def _diagonals(of: Floats) -> Floats:
    """Diagonal matrices, shape (n, k, k), of rows of shape (n, k)."""
    made: Floats = of[:, :, None] * np.eye(of.shape[1])
    return made


def _trimmed(values: Floats, weights: Floats, trim: float) -> Floats:
    """The weights that are left when a share `trim` of them is taken off at each end of the values."""
    order = np.argsort(values)
    ends = np.cumsum(weights[order]) / weights.sum()
    begins = np.concatenate([[0.0], ends[:-1]])
    inside = np.clip(np.minimum(ends, 1 - trim) - np.maximum(begins, trim), 0.0, None) * weights.sum()
    left = np.empty_like(weights)
    left[order] = inside
    return left
