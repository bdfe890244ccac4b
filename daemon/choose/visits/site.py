# SPDX-License-Identifier: Apache-2.0
"""The site: the hosts, or servers, of one operator. A host takes over the knowledge of the other hosts about
the arms on the same destination prefixes.

This knowledge is a level between a prefix and all flows. The hosts of a site differ somewhat, even on one
path. So an arm's gain that they report has a variance of at least `SPREAD`, however many hosts agree and
however sure they are. `SPREAD` is a bound and is not added, because the merged report already includes the
spread between hosts. Observations of a prefix's own flows soon count for more. If they contradict the report,
the report counts for less (D. J. Spiegelhalter et al. 2004, Bayesian Approaches to Clinical Trials, section
5.8: priors in conflict with the data).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Ints
from ltp_switcher.daemon.choose.visits.posterior import Effects
from ltp_switcher.errors import ArtifactError

EFFECT_MAX: Final = 6.0
"""Largest effect of an arm, its gain in log reward over another arm. Values are within 3 of their mean, so
two of them differ by 6 at most.
"""
VARIANCE_MIN: Final = 1e-4
"""Least variance of an effect, an arm's gain in log reward. Hundreds of observations on a steady path give
this variance.
"""
VARIANCE_MAX: Final = 100.0
"""Variance of an effect, an arm's gain in log reward, about which there are no data."""
SPREAD: Final = 0.005
"""Variance of an effect, an arm's gain in log reward, between the hosts (servers) of one operator. It was
chosen on simulated worlds (`make bench-fleet`).
"""
CONFLICT: Final = 2.0
"""Number of standard deviations by which the report of the operator's other hosts may differ from a prefix's
own observations. Beyond that the report counts for less.
"""
FADES_PER_S: Final = 1e-6
"""Growth of the variance of other hosts' reports, per second. It equals the growth for a prefix's own
estimates.
"""


class Site:
    """The effects of arms on n prefixes, as the operator's other hosts report them. An infinite variance
    means that nothing is known. An effect is an arm's gain in log reward over the usual policy.
    """

    def __init__(self, arms: int) -> None:
        self.arms = arms
        self._mean = np.zeros((0, arms))
        self._variance = np.zeros((0, arms))
        self.told_s = np.zeros(0)
        """Unix time of the latest report on each prefix, shape (n,); 0 where there is none."""
        self.hosts: Ints = np.zeros(0, np.int64)
        """Number of hosts behind the report on each prefix, shape (n,); 0 where there is none."""

    def __len__(self) -> int:
        return len(self.hosts)

    def grow(self, size: int) -> None:
        """Make room for prefixes with numbers below `size`."""
        more = size - len(self)
        if more <= 0:
            return
        self._mean = np.concatenate([self._mean, np.zeros((more, self.arms))])
        self._variance = np.concatenate([self._variance, np.full((more, self.arms), np.inf)])
        self.told_s = np.concatenate([self.told_s, np.zeros(more)])
        self.hosts = np.concatenate([self.hosts, np.zeros(more, np.int64)])

    def tell(self, prefixes: Ints, effects: Effects, hosts: Ints, now_s: float) -> None:
        """Take over what other hosts know about these prefixes now. It replaces their earlier reports.

        Args:
            prefixes: numbers of the prefixes, each once, shape (m,).
            effects: shape (m, arms). The variance is infinite for an arm about which nothing is known.
            hosts: number of hosts that know something about each prefix, shape (m,).
            now_s: Unix time.
        """
        self.grow(int(prefixes.max(initial=-1)) + 1)
        self._mean[prefixes], self._variance[prefixes] = effects.mean, effects.variance
        self.told_s[prefixes], self.hosts[prefixes] = now_s, hosts

    def evidence(self, prefixes: Ints, own: Effects, now_s: float) -> Effects:
        """Return other hosts' reports on these prefixes as evidence, shape (m, arms).

        `own` has the effects by observations of the prefixes' own flows alone, shape (m, arms).
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
        """Add `variance` to the variance of the reports on these prefixes."""
        self._variance[prefixes] += variance

    def knows(self, prefixes: Ints) -> Bools:
        """True for prefixes about which other hosts know something, shape (m,)."""
        self.grow(int(prefixes.max(initial=-1)) + 1)
        found: Bools = self.hosts[prefixes] > 0
        return found

    def forget(self, prefixes: Ints) -> None:
        """Forget the reports on these prefixes."""
        self.grow(int(prefixes.max(initial=-1)) + 1)
        self._mean[prefixes], self._variance[prefixes] = 0.0, np.inf
        self.told_s[prefixes], self.hosts[prefixes] = 0.0, 0

    def state(self) -> dict[str, np.ndarray]:
        """All reports, as arrays with n rows that the caller may keep."""
        return {
            "site_mean": self._mean.copy(), "site_variance": self._variance.copy(),
            "site_told_s": self.told_s.copy(), "site_hosts": self.hosts.copy(),
        }  # fmt: skip

    def restore(self, arrays: Mapping[str, np.ndarray], size: int) -> None:
        """Take over the result of `state` for `size` prefixes. Raises `ArtifactError` if it does not fit."""
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
