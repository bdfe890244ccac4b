# SPDX-License-Identifier: Apache-2.0
"""The effect of an experiment, with its interval. The unit is a prefix or a time block, never a flow."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltp_switcher.arrays import Bools, Floats, Indices, Ints

CLUSTERS_MIN: Final = 4
"""Fewest units in a group that give an interval."""
WINDOW: Final = 6
"""Blocks of a switchback that are compared with each other: load drifts, but little within these."""
_DRAWS: Final = 999
"""Other draws of the groups that randomisation inference compares the real one with."""
_LARGE: Final = 300
"""Number of units in each group from which on Welch's t holds even for skewed values."""
_HALVINGS: Final = 30
_FAR: Final = 64
"""Factor over Welch's interval from which on an interval says that the groups are too small."""
_TURNS: Final = 30
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


def numbered(values: NDArray[np.integer]) -> tuple[Ints, Indices]:
    """The distinct numbers of an array of shape (n,), ascending, and the place of each value among them.

    `numpy.unique` sorts for it. Numbers that lie close together need no sorting.
    """
    if not values.size:
        return np.empty(0, np.int64), np.empty(0, np.intp)
    low = int(values.min())
    if int(values.max()) - low > 2 * values.size:
        return np.unique(values.astype(np.int64), return_inverse=True)
    above = np.subtract(values, low, dtype=np.int64)
    there = np.bincount(above) > 0
    return np.flatnonzero(there) + low, (np.cumsum(there) - 1)[above]


def difference(values: Floats, treated: Bools) -> Effect | None:
    """The difference of the groups' means over independent units (Welch's t); None with too few units.

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


def drawn(values: Floats, treated: Bools, before: Floats | None = None) -> Effect | None:
    """The effect of a holdback, whose units got their group by lot; None with too few units.

    Where the units' values from before the experiment are known, they explain part of the differences
    between units, and the interval shrinks (CUPED; Deng et al., WSDM 2013). In small groups the interval is
    that of randomisation inference: all effects that the other draws of the groups do not contradict, with
    Welch's t as the statistic. So skewed values, such as shares of retransmits, are no matter.

    Args:
        values: one for each unit, shape (units,).
        treated: the group of each unit, shape (units,).
        before: the same values before the experiment, shape (units,); NaN where not known.
    """
    if before is not None:
        values = _explained(values, treated, before)
    found = difference(values, treated)
    if found is None or min(found.treated, found.control) >= _LARGE:
        return found
    limits = _Draws(values, treated).limits(found)
    return None if limits is None else Effect(found.value, *limits, found.treated, found.control)


def _explained(values: Floats, treated: Bools, before: Floats) -> Floats:
    """The values less what those before explain, shape (units,)."""
    known = np.isfinite(before)
    if known.sum() < 2 * CLUSTERS_MIN:
        return values
    x = np.where(known, before - before[known].mean(), 0.0)
    within_x, within_y = x.copy(), values.copy()
    for group in (known & treated, known & ~treated):
        if group.any():
            within_x[group] -= x[group].mean()
            within_y[group] -= values[group].mean()
    power = np.square(within_x[known]).sum()
    slope = (within_x[known] * within_y[known]).sum() / power if power > 0 else 0.0
    return np.asarray(values - slope * x, np.float64)


@lru_cache(maxsize=4)
def _lots(n: int, n_control: int) -> Indices:
    """Control groups of so many of n units, drawn by lot, shape (_DRAWS, n_control)."""
    rng = np.random.default_rng(1)
    return np.argsort(rng.random((_DRAWS, n), np.float32), axis=1)[:, :n_control]


class _Draws:
    """Welch's t under other draws of the groups, as a function of a supposed effect on the treated."""

    def __init__(self, values: Floats, treated: Bools) -> None:
        n, n_control = values.size, int((~treated).sum())
        self._control = np.concatenate([np.flatnonzero(~treated)[None], _lots(n, n_control)])
        self._sizes = n - n_control, n_control
        self._y = values - values.mean()
        self._t = treated.astype(np.float64)
        parts = (self._y, self._y**2, self._y * self._t, self._t)
        self._in_control = [part[self._control].sum(axis=1) for part in parts]
        self._in_all = [part.sum() for part in parts]

    def limits(self, found: Effect) -> tuple[float, float] | None:
        """The ends of the interval, the effects that 2.5 % of the draws contradict; None without an end."""
        half = max(found.upper - found.value, 1e-12)
        lower, upper = self._limit(found.value, -half), self._limit(found.value, half)
        return None if lower is None or upper is None else (lower, upper)

    def _limit(self, value: float, half: float) -> float | None:
        inside, outside = value, value + half
        while not self._beyond(outside, half):
            if abs(outside - value) > _FAR * abs(half):
                return None
            inside, outside = outside, outside + (outside - value)
        for _ in range(_HALVINGS):
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if self._beyond(middle, half) else (middle, outside)
        return outside

    def _beyond(self, effect: float, side: float) -> bool:
        """Whether the real draw is among the most extreme 2.5 % if this were the effect."""
        t = self._statistics(effect)
        as_extreme = t <= t[0] + 1e-9 if side > 0 else t >= t[0] - 1e-9
        return bool(as_extreme.mean() < 0.025)

    def _statistics(self, effect: float) -> Floats:
        """Welch's t of every draw for values less the effect on the treated; the real draw first."""
        (control, control2), (total, total2) = (
            (y - effect * t, y2 - 2 * effect * yt + effect**2 * t)
            for y, y2, yt, t in (self._in_control, self._in_all)
        )
        n_treated, n_control = self._sizes
        mean_c, mean_t = control / n_control, (total - control) / n_treated
        var_c = control2 / n_control - mean_c**2
        var_t = (total2 - control2) / n_treated - mean_t**2
        error = np.sqrt(np.maximum(var_c / (n_control - 1) + var_t / (n_treated - 1), 1e-300))
        return np.asarray((mean_t - mean_c) / error, np.float64)


def within(
    values: Floats, treated: Bools, block: NDArray[np.integer], prefix: NDArray[np.integer]
) -> Effect | None:
    """The effect of a switchback within prefixes, between blocks; None with too few blocks.

    A regression on the treatment with one level for each prefix and one for each `WINDOW` blocks, so that
    neither another mix of destinations nor the hour's load is an effect. The errors are those of clusters,
    the blocks: all flows of a block share its luck. They allow for few blocks, as HC2 and the degrees of
    freedom of Satterthwaite do, with each block's leverage (Bell and McCaffrey, 2002).

    Args:
        values: one for each prefix and block, shape (n,).
        treated: the block's group, shape (n,).
        block: number of the time block, shape (n,).
        prefix: number of the prefix from 0 on, shape (n,).
    """
    numbers, cluster = numbered(block)
    windows, window = numbered(block // WINDOW)
    blocks = numbers.size
    groups = np.zeros(blocks, np.bool_)
    groups[cluster] = treated
    n_treated = int(groups.sum())
    freedom = blocks - windows.size - 1
    if min(n_treated, blocks - n_treated, freedom) < CLUSTERS_MIN:
        return None
    x, y = _levelled(treated.astype(np.float64), prefix, window), _levelled(values, prefix, window)
    weight = np.bincount(cluster, x**2)
    power = weight.sum()
    if power <= 1e-6 * x.size:
        return None
    value = (x * y).sum() / power
    scores = np.bincount(cluster, x * (y - value * x))
    _, place, sizes = np.unique(numbers // WINDOW, return_inverse=True, return_counts=True)
    leverage = np.minimum(weight / power + 1 / sizes[place], 0.9)
    error = np.sqrt((np.square(scores) / (1 - leverage)).sum()) / power
    counted = freedom / blocks * power**2 / np.square(weight).sum()
    half = t_quantile(max(counted, 2.0)) * error
    return Effect(float(value), float(value - half), float(value + half), n_treated, blocks - n_treated)


def _levelled(values: Floats, *groups: NDArray[np.integer]) -> Floats:
    """The values less the levels of their groups, by turns until nothing is left; shape (n,)."""
    counts = [np.maximum(np.bincount(group), 1) for group in groups]
    for _ in range(_TURNS):
        moved = 0.0
        for group, count in zip(groups, counts, strict=True):
            levels = np.bincount(group, values) / count
            values = values - levels[group]
            moved = max(moved, float(np.abs(levels).max()))
        if moved < 1e-9:
            break
    return values


def mean(values: Floats) -> tuple[float, float, float] | None:
    """The mean of independent units, shape (units,), and its interval's ends; None with too few units."""
    if values.size < CLUSTERS_MIN:
        return None
    half = t_quantile(values.size - 1) * values.std(ddof=1) / np.sqrt(values.size)
    return float(values.mean()), float(values.mean() - half), float(values.mean() + half)
