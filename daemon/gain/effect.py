# SPDX-License-Identifier: Apache-2.0
"""The effect of an experiment, with its interval. The unit is a prefix or a time block, never a flow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Indices

CLUSTERS_MIN: Final = 4
"""Fewer units in a group give no interval."""
_Z: Final = 1.959963984540054
"""The normal distribution's 97.5 % quantile."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Treated minus control, the ends of its 95 % interval, and the units of each group."""

    value: float
    lower: float
    upper: float
    treated: int
    control: int


def t_quantile(freedom: float) -> float:
    """The 97.5 % quantile of Student's t (Abramowitz and Stegun, 26.7.5); within 1 % from 3 degrees on."""
    z, v = _Z, freedom
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * v**4)
    )


def difference(values: Floats, treated: Bools) -> Effect | None:
    """The difference of the groups' means over independent units (Welch's t). None: too few units.

    Args:
        values: one for each unit, shape (units,).
        treated: the group of each unit, shape (units,).
    """
    a, b = values[treated], values[~treated]
    if min(a.size, b.size) < CLUSTERS_MIN:
        return None
    parts = a.var(ddof=1) / a.size, b.var(ddof=1) / b.size
    error = np.sqrt(sum(parts))
    freedom = sum(parts) ** 2 / max(parts[0] ** 2 / (a.size - 1) + parts[1] ** 2 / (b.size - 1), 1e-300)
    value, half = a.mean() - b.mean(), t_quantile(max(freedom, 1.0)) * error
    return Effect(float(value), float(value - half), float(value + half), a.size, b.size)


def within(values: Floats, treated: Bools, block: Indices, prefix: Indices) -> Effect | None:
    """The effect of a switchback: within prefixes, between blocks. None: too few blocks.

    A regression on the treatment with one level for each prefix, so that another mix of destinations in a
    block is no effect. The errors are those of clusters, the blocks: all flows of a block share its luck.

    Args:
        values: one for each prefix and block, shape (n,).
        treated: the block's group, shape (n,).
        block: number of the block from 0 on, shape (n,).
        prefix: number of the prefix from 0 on, shape (n,).
    """
    blocks = block.max(initial=-1) + 1
    groups = np.zeros(blocks, np.bool_)
    groups[block] = treated
    n_treated = int(groups.sum())
    if min(n_treated, blocks - n_treated) < CLUSTERS_MIN:
        return None
    count = np.bincount(prefix)
    x = treated - (np.bincount(prefix, treated) / count)[prefix]
    y = values - (np.bincount(prefix, values) / count)[prefix]
    power = np.square(x).sum()
    if power <= 0:
        return None
    value = (x * y).sum() / power
    scores = np.bincount(block, x * (y - value * x))
    error = np.sqrt(np.square(scores).sum() * blocks / (blocks - 2)) / power
    half = t_quantile(blocks - 2) * error
    return Effect(float(value), float(value - half), float(value + half), n_treated, blocks - n_treated)


def mean(values: Floats) -> tuple[float, float, float] | None:
    """The mean of independent units, shape (units,), and the ends of its interval. None: too few units."""
    if values.size < CLUSTERS_MIN:
        return None
    half = t_quantile(values.size - 1) * values.std(ddof=1) / np.sqrt(values.size)
    return float(values.mean()), float(values.mean() - half), float(values.mean() + half)
