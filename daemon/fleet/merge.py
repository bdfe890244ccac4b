# SPDX-License-Identifier: Apache-2.0
"""Merges the lessons of several hosts about a prefix. A host that lies moves the result only a little. A
lesson has the effect of each arm, which is the arm's gain in log reward.

The weight of a host's effect of an arm is one over the sum of two variances: the effect's own, and the spread
between hosts (random effects; R. DerSimonian and N. Laird 1986). No host weighs more than the median host. So
among three or more hosts none has half of the weight, and the weighted median stays among the honest hosts.

The merged mean starts from this median, and each host moves it by at most `FAR` standard deviations (one step
of P. J. Huber's M-estimator, 1964). If hosts differ more than their variances allow, the result is less
certain (R. T. Birge 1932). The lesson of a single host needs no merging.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Ints
from ltp_switcher.daemon.choose.visits.site import SPREAD

HOSTS_MAX: Final = 32
"""Largest number of hosts whose lessons about a prefix are merged."""
FAR: Final = 1.5
"""Distance of a host's effect from the median, in standard deviations, up to which the effect
counts in full.
"""
APART: Final = 4.0
"""Distance of a host's effect from the weighted median of all hosts, in standard deviations of this distance,
beyond which the host disagrees.
"""
SMALL: Final = 5
"""Least number of hosts in a site in which the lesson of one host is not enough. In such a site, `QUORUM`
hosts have to know an arm, so that honest hosts outvote one that lies.
"""
QUORUM: Final = 3


@dataclass(frozen=True, slots=True)
class Merged:
    """The hosts' joint knowledge of p prefixes and k arms. An effect is an arm's gain in log reward over the
    usual policy.
    """

    mean: Floats
    """Merged effects, shape (p, k); 0 where too few hosts know the arm."""
    variance: Floats
    """Variance of the merged effects, shape (p, k); infinite where too few hosts know the arm."""
    hosts: Ints
    """Number of hosts that know the arm, shape (p, k)."""
    compared: Bools
    """True where a host's effect can be compared with the effects of other hosts, because at least `QUORUM`
    hosts know the arm, shape (p, hosts, k). The host is one of them.
    """
    apart: Bools
    """True where a host disagrees with the other hosts, shape (p, hosts, k)."""


def merge(mean: Floats, variance: Floats, quorum: int = 1) -> Merged:
    """Merge the effects (gains in log reward) of arms that several hosts have found.

    Args:
        mean: effects by prefix, host and arm, shape (p, hosts, k).
        variance: variances of the effects, shape (p, hosts, k); infinite where a host does not know the arm.
        quorum: number of hosts that have to know an arm before their effects count.
    """
    known = np.isfinite(variance)
    hosts = known.sum(axis=1)
    weight = np.where(known, 1.0 / (variance + SPREAD), 0.0)
    weight = np.minimum(weight, _upper_median(weight, hosts))
    total = weight.sum(axis=1)
    centre = _weighted_median(mean, weight, total)
    scaled = np.where(known, (mean - centre[:, None]) * np.sqrt(weight), 0.0)
    near = np.clip(scaled, -FAR, FAR)
    counts = hosts >= max(quorum, 1)
    pulls = (np.sqrt(weight) * near).sum(axis=1)
    found = centre + np.divide(pulls, total, out=np.zeros_like(total), where=counts)
    birge = np.maximum((near**2).sum(axis=1) / np.maximum(hosts - 1, 1), 1.0)
    spread = np.divide(birge, total, out=np.full_like(total, np.inf), where=counts)
    alone = np.where(known, variance, 0.0).sum(axis=1)
    spread = np.where(counts & (hosts == 1), alone, spread)
    compared = known & (hosts >= QUORUM)[:, None]
    rest = np.where(compared, 1.0 / np.maximum(total[:, None] - weight, 1e-12), np.inf)
    with np.errstate(invalid="ignore"):
        far = np.abs(mean - centre[:, None]) > APART * np.sqrt(variance + SPREAD + rest)
    return Merged(np.where(counts, found, 0.0), spread, hosts, compared, compared & far)


def quorum(hosts: int) -> int:
    """Return the number of other hosts that must know an arm before their effects of it count. `hosts` is the
    number of hosts of the site, this host included.
    """
    return 1 if hosts < SMALL else QUORUM


def _upper_median(weight: Floats, hosts: Ints) -> Floats:
    """Return the median of the weights above 0 over the hosts, shape (p, 1, k). Of two middle weights, it is
    the greater one.
    """
    order = np.sort(weight, axis=1)
    # Weights of 0 come first.
    place = order.shape[1] - (hosts + 1) // 2
    place = np.minimum(place, order.shape[1] - 1)
    return np.take_along_axis(order, place[:, None], axis=1)


def _weighted_median(values: Floats, weight: Floats, total: Floats) -> Floats:
    """Return the middle of the lower and the upper weighted median over the hosts, shape (p, k)."""
    order = np.argsort(np.where(weight > 0, values, np.inf), axis=1, kind="stable")
    ordered = np.take_along_axis(values, order, axis=1)
    reached = np.cumsum(np.take_along_axis(weight, order, axis=1), axis=1)
    half = total[:, None] / 2
    # Sums of the same weights in another order may differ in their last digits.
    near = 1e-9 * total[:, None]
    lower = np.argmax(reached >= half - near, axis=1)
    upper = np.argmax(reached > half + near, axis=1)
    ends = [np.take_along_axis(ordered, place[:, None], axis=1)[:, 0] for place in (lower, upper)]
    middle: Floats = (ends[0] + ends[1]) / 2
    return middle
