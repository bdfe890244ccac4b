# SPDX-License-Identifier: Apache-2.0
"""The site: the knowledge of other hosts about the arms on the same prefixes.

It is a level between a prefix and all flows. Hosts of a site differ somewhat, even on one path. So their word
on an effect has a variance of at least `SPREAD`, however many they are and however sure. It is a bound and no
addition, since the merged word holds the spread between hosts already. Own visits soon say more than that.
Where they contradict the others, these count for less (D. J. Spiegelhalter et al. 2004, Bayesian Approaches
to Clinical Trials, section 5.8: priors in conflict with the data).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Ints
from ltp_switcher.daemon.choose.visits.posterior import Effects
from ltp_switcher.errors import ArtifactError

EFFECT_MAX: Final = 6.0
"""Largest effect of an arm, in log reward: values are clipped to 3 from their mean, on either side."""
VARIANCE_MIN: Final = 1e-4
"""The least variance of an effect: that of hundreds of visits on a still path."""
VARIANCE_MAX: Final = 100.0
"""The variance of an effect of which no data tells."""
SPREAD: Final = 0.005
"""Variance of an effect between the hosts of a site. Chosen on made worlds (`make bench-fleet`)."""
CONFLICT: Final = 2.0
"""Standard deviations by which others and own visits may differ. Beyond them the others count for less."""
FADES_PER_S: Final = 1e-6
"""Growth of the variance of what was told: that of a prefix's own effects."""


class Site:
    """The effects of n prefixes by other hosts' word. A variance of infinity means that nothing is known."""

    def __init__(self, arms: int) -> None:
        self.arms = arms
        self._mean = np.zeros((0, arms))
        self._variance = np.zeros((0, arms))
        self.told_s = np.zeros(0)
        """Unix time of the word, shape (n,)."""
        self.hosts: Ints = np.zeros(0, np.int64)
        """Hosts whose word it is, shape (n,); 0 where nothing was told."""

    def __len__(self) -> int:
        return len(self.hosts)

    def grow(self, size: int) -> None:
        """Have room for prefixes up to this number."""
        more = size - len(self)
        if more <= 0:
            return
        self._mean = np.concatenate([self._mean, np.zeros((more, self.arms))])
        self._variance = np.concatenate([self._variance, np.full((more, self.arms), np.inf)])
        self.told_s = np.concatenate([self.told_s, np.zeros(more)])
        self.hosts = np.concatenate([self.hosts, np.zeros(more, np.int64)])

    def tell(self, prefixes: Ints, effects: Effects, hosts: Ints, now_s: float) -> None:
        """Take over what others know of these prefixes, instead of what they knew before.

        Args:
            prefixes: their numbers, each once, shape (m,).
            effects: shape (m, arms), with a variance of infinity for an arm of which nothing is known.
            hosts: numbers of the hosts that know something, shape (m,).
            now_s: Unix time.
        """
        self.grow(int(prefixes.max(initial=-1)) + 1)
        self._mean[prefixes], self._variance[prefixes] = effects.mean, effects.variance
        self.told_s[prefixes], self.hosts[prefixes] = now_s, hosts

    def evidence(self, prefixes: Ints, own: Effects, now_s: float) -> Effects:
        """Return the others' word on these prefixes as evidence beside their own visits, shape (m, arms).

        own: the effects by these visits alone, shape (m, arms).
        """
        self.grow(int(prefixes.max(initial=-1)) + 1)
        age_s = np.maximum(now_s - self.told_s[prefixes], 0.0)[:, None]
        mean = self._mean[prefixes]
        variance = np.maximum(self._variance[prefixes], SPREAD) + FADES_PER_S * age_s
        apart = ((mean - own.mean) / CONFLICT) ** 2
        known = np.isfinite(own.variance) & np.isfinite(variance)
        excess = np.subtract(apart, own.variance, out=np.zeros_like(apart), where=known)
        return Effects(mean, np.maximum(variance, excess))

    def fade(self, prefixes: Ints, variance: float) -> None:
        """Add so much to the variance of what is known of these prefixes."""
        self._variance[prefixes] += variance

    def knows(self, prefixes: Ints) -> Bools:
        """True for prefixes of which others know something, shape (m,)."""
        self.grow(int(prefixes.max(initial=-1)) + 1)
        found: Bools = self.hosts[prefixes] > 0
        return found

    def forget(self, prefixes: Ints) -> None:
        """Know nothing of these prefixes."""
        self.grow(int(prefixes.max(initial=-1)) + 1)
        self._mean[prefixes], self._variance[prefixes] = 0.0, np.inf
        self.told_s[prefixes], self.hosts[prefixes] = 0.0, 0

    def state(self) -> dict[str, np.ndarray]:
        """All that is known, as arrays that the caller may keep: n rows each."""
        return {
            "site_mean": self._mean.copy(), "site_variance": self._variance.copy(),
            "site_told_s": self.told_s.copy(), "site_hosts": self.hosts.copy(),
        }  # fmt: skip

    def restore(self, arrays: Mapping[str, np.ndarray], size: int) -> None:
        """Take over the result of `state` for so many prefixes. Raises `ArtifactError` if it does not fit."""
        mean, variance, told_s = (
            np.array(arrays[f"site_{name}"], float) for name in ("mean", "variance", "told_s")
        )
        hosts = np.array(arrays["site_hosts"], np.int64)
        shape = (size, self.arms)
        if mean.shape != shape or variance.shape != shape or not told_s.shape == hosts.shape == (size,):
            raise ArtifactError(f"the site's arrays do not fit {size} prefixes, {self.arms} arms")
        if not (np.isfinite(mean).all() and np.isfinite(told_s).all() and (variance > 0).all()):
            raise ArtifactError("the site's arrays hold numbers that cannot be")
        self._mean, self._variance, self.told_s, self.hosts = mean, variance, told_s, hosts
