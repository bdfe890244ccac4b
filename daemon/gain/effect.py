# SPDX-License-Identifier: Apache-2.0
"""The effect of an experiment, with its interval. The statistical unit is a prefix or a time block, never a
flow.

Treated units have the arms that the daemon chooses, and control units stay on a baseline arm. In a holdback,
each prefix is in one of these groups. In a switchback, each time block is in one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltp_switcher.arrays import Bools, Floats, Indices, Int32s, Ints

CLUSTERS_MIN: Final = 4
"""Least number of units in each group. With fewer units there is no interval."""
WINDOW: Final = 6
"""Number of time blocks of a switchback that are compared with each other. Within so few blocks, the load
drifts little.
"""
_DRAWS: Final = 999
"""Number of random assignments to groups with which randomisation inference compares the real one."""
_LARGE: Final = 300
"""Least number of units in each group with which Welch's t holds even for skewed values."""
_HALVINGS: Final = 30
_FAR: Final = 64
"""If an end of the interval is farther from the effect than this multiple of Welch's half width, the groups
are too small, and there is no interval.
"""
_TURNS: Final = 30
_AT_ONCE: Final = 1 << 16
"""Number of cells, each a prefix in a time block, that are processed together. All cells of one prefix stay
together.
"""
_Z: Final = 1.959963984540054
"""The normal distribution's 97.5 % quantile."""


_Values = Callable[[slice], Floats]
"""A function that takes a slice of the cells, and returns a value for each of them."""


@dataclass(frozen=True, slots=True)
class Effect:
    """The mean of the treated units minus the mean of the control units. `lower` and `upper` are the ends of
    the 95 % interval. `treated` and `control` are the numbers of units.
    """

    value: float
    lower: float
    upper: float
    treated: int
    control: int


def t_quantile(freedom: float) -> float:
    """The 97.5 % quantile of Student's t for a number of degrees of freedom (Abramowitz and Stegun, 26.7.5).
    From 3 degrees on, it is within 1 %.
    """
    z, v = _Z, freedom
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * v**4)
    )


def numbered(values: NDArray[np.integer]) -> tuple[Ints, Int32s]:
    """Return the distinct numbers of an array of shape (n,), ascending, and the index of each value among
    them, shape (n,).

    `numpy.unique` sorts the values. If the numbers lie close together, this function counts them instead,
    which is faster.
    """
    if not values.size:
        return np.empty(0, np.int64), np.empty(0, np.int32)
    low = int(values.min())
    if int(values.max()) - low > 2 * values.size:
        distinct, place = np.unique(values.astype(np.int64), return_inverse=True)
        return distinct, place.astype(np.int32)
    above = np.subtract(values, low, dtype=np.int64).astype(np.int32)
    there = np.bincount(above) > 0
    return np.flatnonzero(there) + low, (np.cumsum(there, dtype=np.int32) - np.int32(1))[above]


def difference(values: Floats, treated: Bools) -> Effect | None:
    """Return the mean of treated units minus the mean of control units, with the interval of Welch's t. The
    units are independent. None if a group has less than `CLUSTERS_MIN` units.

    Args:
        values: one value for each unit, shape (units,).
        treated: whether each unit is treated, shape (units,).
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
    """Return the effect of a holdback, whose units were assigned to groups at random. None if there are too
    few units.

    If the units' values from before the experiment are known, they explain part of the differences between
    units, and the interval shrinks (CUPED; Deng et al., WSDM 2013). In small groups, the interval comes from
    randomisation inference with Welch's t as the statistic. The interval then has all effects that are
    compatible with other random assignments of the units. So skewed values, such as shares of retransmits, do
    no harm.

    Args:
        values: one value for each unit, shape (units,).
        treated: whether each unit is treated, shape (units,).
        before: the units' values from before the experiment, shape (units,); NaN where not known.
    """
    if before is not None:
        values = _explained(values, treated, before)
    found = difference(values, treated)
    if found is None or min(found.treated, found.control) >= _LARGE:
        return found
    limits = _Draws(values, treated).limits(found)
    return None if limits is None else Effect(found.value, *limits, found.treated, found.control)


def _explained(values: Floats, treated: Bools, before: Floats) -> Floats:
    """Return the values, shape (units,), less the part of them that the values from before the experiment
    explain.
    """
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
    """Draw control groups of `n_control` units out of n at random. Returns the indices of their units, shape
    (_DRAWS, n_control).
    """
    rng = np.random.default_rng(1)
    return np.argsort(rng.random((_DRAWS, n), np.float32), axis=1)[:, :n_control]


class _Draws:
    """Randomisation inference: Welch's t of the real groups and of `_DRAWS` groups drawn at random, for any
    supposed effect on the treated units.
    """

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
        """Return the ends of the interval: the effects beyond which the real draw is among the most extreme
        2.5 %. None if an end is too far away (`_FAR`).
        """
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
        """Return whether the real draw is among the most extreme 2.5 % of the draws, supposing this effect.
        The sign of `side` tells whether low or high values of t are extreme: low ones if it is above 0.
        """
        t = self._statistics(effect)
        as_extreme = t <= t[0] + 1e-9 if side > 0 else t >= t[0] - 1e-9
        return bool(as_extreme.mean() < 0.025)

    def _statistics(self, effect: float) -> Floats:
        """Return Welch's t of every draw, shape (_DRAWS + 1,), after the supposed effect was taken from the
        values of the treated units. The real draw comes first.
        """
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


class Switchback:
    """The cells of a switchback, and the effect of the treatment on their values. A cell is a prefix in a
    time block.

    The effect is estimated within prefixes, between blocks. A regression on the treatment has one level for
    each prefix and one for each `WINDOW` blocks. So neither another mix of destinations nor the load of the
    hour counts as an effect.

    Blocks are the clusters of the errors, because chance events such as congestion affect all flows of a
    block. The errors are also right for few blocks. They use HC2 with each block's leverage and
    Satterthwaite's degrees of freedom (Bell and McCaffrey, 2002).

    There may be as many cells as rows of the log. So the cells' values are computed in parts that fit the
    processor's cache, and are not kept.

    Args:
        treated: whether the cell's block is treated, shape (n,).
        block: number of the cell's time block, shape (n,).
        prefix: number of the cell's prefix from 0 on, ascending and without a gap, shape (n,).
    """

    def __init__(self, treated: Bools, block: NDArray[np.integer], prefix: NDArray[np.integer]) -> None:
        numbers, self._block = numbered(block)
        windows, self._window = numbered(numbers // WINDOW)
        self._prefix = prefix
        self._blocks = numbers.size
        self._groups = np.zeros(numbers.size, np.bool_)
        self._groups[self._block] = treated
        self._treated = int(self._groups.sum())
        self._freedom = numbers.size - windows.size - 1
        self._begins = np.flatnonzero(np.diff(prefix, prepend=-1))
        self._in_prefix = np.diff(self._begins, append=prefix.size)
        self._pieces = [*self._cut()]
        self._in_window = self._by_window(np.bincount(self._block, minlength=numbers.size))

    def _cut(self) -> Iterator[tuple[slice, slice]]:
        """Yield pieces of whole prefixes, each as a slice of the prefixes and a slice of their cells. A piece
        has at most `_AT_ONCE` cells, or a single prefix.
        """
        first, ends = 0, np.append(self._begins[1:], self._prefix.size)
        while first < self._begins.size:
            begin = int(self._begins[first])
            last = max(int(np.searchsorted(ends, begin + _AT_ONCE, "right")), first + 1)
            yield slice(first, last), slice(begin, int(ends[last - 1]))
            first = last

    def effect(self, values: Floats) -> Effect | None:
        """Return the effect of the treatment on the cells' values, shape (n,). None if there are too few
        blocks, or if the treatment does not vary within prefixes and windows.
        """
        treated, control = self._treated, self._blocks - self._treated
        if min(treated, control, self._freedom) < CLUSTERS_MIN:
            return None
        x, weight = self._treatment
        power = weight.sum()
        if power <= 1e-6 * values.size:
            return None
        y = self._left(lambda part: values[part])
        product = self._by_block(lambda part: x(part) * y(part))
        value = product.sum() / power
        scores = product - value * weight
        leverage = np.minimum(weight / power + 1 / np.bincount(self._window)[self._window], 0.9)
        error = np.sqrt((np.square(scores) / (1 - leverage)).sum()) / power
        counted = self._freedom / self._blocks * power**2 / np.square(weight).sum()
        half = t_quantile(max(counted, 2.0)) * error
        return Effect(float(value), float(value - half), float(value + half), treated, control)

    @cached_property
    def _treatment(self) -> tuple[_Values, Floats]:
        """The treatment of cells, less its levels of prefixes and windows, and the sum of its squares in each
        block, shape (blocks,).
        """
        x = self._left(self._of_blocks(self._groups.astype(np.float64)))
        return x, self._by_block(lambda part: np.square(x(part)))

    def _left(self, values: _Values) -> _Values:
        """Return the values less their levels of prefixes and windows. The two kinds of levels are computed
        in turn until neither changes, at most `_TURNS` times.
        """
        of_prefix = self._by_prefix(values) / self._in_prefix
        of_window = self._by_window(self._by_block(values)) / self._in_window
        prefix, window = np.zeros_like(of_prefix), np.zeros_like(of_window)
        for _ in range(_TURNS):
            before = prefix, window
            in_windows = self._of_blocks(window[self._window])
            prefix = of_prefix - self._by_prefix(in_windows) / self._in_prefix
            in_prefixes = self._of_prefixes(prefix)
            window = of_window - self._by_window(self._by_block(in_prefixes)) / self._in_window
            if max(np.abs(prefix - before[0]).max(), np.abs(window - before[1]).max()) < 1e-9:
                break
        prefixes, windows = self._of_prefixes(prefix), self._of_blocks(window[self._window])
        return lambda part: values(part) - prefixes(part) - windows(part)

    def _of_prefixes(self, levels: Floats) -> _Values:
        return lambda part: levels[self._prefix[part]]

    def _of_blocks(self, levels: Floats) -> _Values:
        return lambda part: levels[self._block[part]]

    def _by_prefix(self, values: _Values) -> Floats:
        found = np.empty(self._in_prefix.size)
        for prefixes, cells in self._pieces:
            begins = self._begins[prefixes]
            found[prefixes] = np.add.reduceat(values(cells), begins - begins[0])
        return found

    def _by_block(self, values: _Values) -> Floats:
        found = np.zeros(self._blocks)
        for _, cells in self._pieces:
            found += np.bincount(self._block[cells], values(cells), self._blocks)
        return found

    def _by_window(self, of_blocks: NDArray[np.generic]) -> Floats:
        return np.asarray(np.bincount(self._window, of_blocks), np.float64)


def mean(values: Floats) -> tuple[float, float, float] | None:
    """Return the mean of the values of independent units, shape (units,), followed by the ends of its 95 %
    interval. None if there are too few units.
    """
    if values.size < CLUSTERS_MIN:
        return None
    half = t_quantile(values.size - 1) * values.std(ddof=1) / np.sqrt(values.size)
    return float(values.mean()), float(values.mean() - half), float(values.mean() + half)
