# SPDX-License-Identifier: Apache-2.0
"""ADWIN2 (Bifet & Gavaldà 2007, Mutant reference [11]) for many streams at once.

A stream keeps a window of its recent values as an exponential histogram: at most `MAX_BUCKETS` buckets of 1,
2, 4, … values each. If the means of two parts of the window differ by more than chance explains at their
lengths, there is a change, and the older part is dropped. Every bucket keeps sum, variance and maximum. So
the largest value of the window is known at any time (Mutant §5.1, Dynamic Reward Normalization).

Changes are detected at the same updates as by river's `AdaptiveWindowing`, the reference in the tests. Three
things differ. After a change, river's wrapper `river.drift.ADWIN` drops the whole window; the windows here
keep the newer part, as in the paper [11]. With `shed`, a change also drops buckets that may contain values
from before it. A window here has at most `LEVELS` levels (82,000 values); river's grows without limit.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Indices, Slots
from ltp_switcher.slots import SlotArrays, column

MAX_BUCKETS: Final = 5
LEVELS: Final = 14
MIN_SUBWINDOW: Final = 5
"""Least number of values in each of the two parts whose means are compared."""
GRACE: Final = 10
"""Largest number of values in a window that is too short for a test."""
_TOTAL, _VARIANCE, _MAXIMUM = range(3)
_SIZES: Final = 2.0 ** np.arange(LEVELS)
# Sizes of the buckets in the order of time. The oldest buckets are on the highest level.
_OLDEST_FIRST: Final = np.repeat(_SIZES[::-1], MAX_BUCKETS + 1)


class AdwinBank(SlotArrays):
    """ADWIN2, a detector of changes of the mean, for many streams. Each stream has a slot.

    Args:
        delta: probability of a false alarm in a stationary stream (ADWIN's confidence).
        clock: number of updates of a stream between two tests for a change.
        shed: whether a change drops more than the older part. The oldest buckets left are dropped, too, as
            long as their means are nearer to the dropped part's mean than to the rest's. Then one more bucket
            is dropped, which may have values of both sides. The test cannot see so few values, but the
            window's maximum may be among them. A bucket that has half of the window or more stays.
    """

    width = column(np.float64)
    """Number of values in the window."""
    total = column(np.float64)
    """Sum of the values in the window."""
    _variance = column(np.float64)
    _ticks = column(np.int64)
    _used = column(np.int64, LEVELS)
    _buckets = column(np.float64, LEVELS, MAX_BUCKETS + 1, 3)

    def __init__(self, delta: float = 0.002, clock: int = 32, *, shed: bool = False) -> None:
        super().__init__()
        self.delta = delta
        self.clock = clock
        self.shed = shed

    def maximum(self, rows: Slots) -> Floats:
        """Largest value in each row's window, shape (n,); -inf if the window is empty."""
        valid = np.arange(MAX_BUCKETS + 1) < self._used[rows][:, :, None]
        values: Floats = np.where(valid, self._buckets[rows][..., _MAXIMUM], -np.inf)
        return np.asarray(values.max(axis=(1, 2)))

    def update(self, rows: Slots, values: Floats) -> Bools:
        """Add one value to each of n streams.

        Args:
            rows: slots of the streams, shape (n,), each at most once.
            values: new values, shape (n,). They should have order 1, because the test's additive term is made
                for a unit range.

        Returns:
            True where a change was found and the older part of the window was dropped, shape (n,).
        """
        at = self._used[rows, 0]
        self._buckets[rows, 0, at, _TOTAL] = values
        self._buckets[rows, 0, at, _VARIANCE] = 0.0
        self._buckets[rows, 0, at, _MAXIMUM] = values
        self._used[rows, 0] = at + 1
        before = self.width[rows]
        width = before + 1.0
        total = self.total[rows]
        gap = values - total / np.maximum(before, 1.0)
        self._variance[rows] += before * gap * gap / width
        self.width[rows] = width
        self.total[rows] = total + values
        self._compress(rows[at == MAX_BUCKETS])

        ticks = self._ticks[rows] + 1
        self._ticks[rows] = ticks
        changed = np.zeros(len(rows), np.bool_)
        due = np.flatnonzero((ticks % self.clock == 0) & (width > GRACE))
        while due.size:
            due = due[self._has_cut(rows[due])]
            changed[due] = True
            self._drop_oldest(rows[due])
        if self.shed and changed.any():
            at = rows[changed]
            gone = width[changed] - self.width[at]
            self._shed(at, (total[changed] + values[changed] - self.total[at]) / gone)
        return changed

    def _shed(self, rows: Slots, old_mean: Floats) -> None:
        while rows.size:
            top, oldest = self._oldest(rows)
            mean = oldest[:, _TOTAL] / _SIZES[top]
            rest = self.total[rows] / self.width[rows]
            alike = np.abs(mean - old_mean) < np.abs(mean - rest)
            droppable = self.width[rows] > 2 * _SIZES[top]
            self._drop_oldest(rows[droppable])
            rows, old_mean = rows[alike & droppable], old_mean[alike & droppable]

    def _compress(self, rows: Slots) -> None:
        """Merge the two oldest of six buckets into one of the next level, level by level."""
        for level in range(LEVELS - 1):
            if not rows.size:
                return
            buckets = self._buckets[rows, level]
            first, second = buckets[:, 0], buckets[:, 1]
            merged = first + second
            gap = (first[:, _TOTAL] - second[:, _TOTAL]) / _SIZES[level]
            merged[:, _VARIANCE] += 0.5 * _SIZES[level] * gap * gap
            merged[:, _MAXIMUM] = np.maximum(first[:, _MAXIMUM], second[:, _MAXIMUM])
            self._buckets[rows, level, :-2] = buckets[:, 2:]
            self._used[rows, level] -= 2
            at = self._used[rows, level + 1]
            self._buckets[rows, level + 1, at] = merged
            self._used[rows, level + 1] = at + 1
            rows = rows[at == MAX_BUCKETS]
        self._drop_oldest(rows)

    def _has_cut(self, rows: Slots) -> Bools:
        """Whether any split of the window into an older and a newer part shows two means."""
        n, used = len(rows), self._used[rows]
        # Only very wide windows have a bucket of each level, and these are few.
        levels = int(np.flatnonzero(used.any(axis=0))[-1]) + 1
        valid = (np.arange(MAX_BUCKETS + 1) < used[:, :levels][:, ::-1, None]).reshape(n, -1)
        totals = self._buckets[rows, :levels, :, _TOTAL][:, ::-1].reshape(n, -1)
        width = self.width[rows][:, None]
        n0 = np.cumsum(np.where(valid, _OLDEST_FIRST[-valid.shape[1] :], 0.0), axis=1)
        u0 = np.cumsum(np.where(valid, totals, 0.0), axis=1)
        n1 = width - n0
        u1 = self.total[rows][:, None] - u0
        split = valid & (n0 >= MIN_SUBWINDOW) & (n1 >= MIN_SUBWINDOW)
        n0 = np.where(split, n0, MIN_SUBWINDOW)
        n1 = np.where(split, n1, MIN_SUBWINDOW)
        log_term = np.log(2.0 * np.log(width) / self.delta)
        m = 1.0 / (n0 - MIN_SUBWINDOW + 1.0) + 1.0 / (n1 - MIN_SUBWINDOW + 1.0)
        variance = (self._variance[rows] / self.width[rows])[:, None]
        # Rounding can leave the variance of a constant stream slightly below 0.
        epsilon = np.sqrt(2.0 * m * np.maximum(variance, 0.0) * log_term) + 2.0 / 3.0 * log_term * m
        cut = split & (np.abs(u0 / n0 - u1 / n1) > epsilon)
        return np.asarray(cut.any(axis=1))

    def _drop_oldest(self, rows: Slots) -> None:
        """Remove the oldest bucket of each row."""
        if not rows.size:
            return
        top, oldest = self._oldest(rows)
        size = _SIZES[top]
        width = self.width[rows] - size
        total = self.total[rows] - oldest[:, _TOTAL]
        gap = oldest[:, _TOTAL] / size - total / np.maximum(width, 1.0)
        self._variance[rows] -= oldest[:, _VARIANCE] + size * width * gap * gap / (size + width)
        self.width[rows] = width
        self.total[rows] = total
        self._buckets[rows, top, :-1] = self._buckets[rows, top, 1:]
        self._used[rows, top] -= 1

    def _oldest(self, rows: Slots) -> tuple[Indices, Floats]:
        """Level, shape (n,), and contents, shape (n, 3), of the oldest bucket of each row."""
        top = LEVELS - 1 - np.argmax(self._used[rows][:, ::-1] > 0, axis=1)
        return top, self._buckets[rows, top, 0]
