# SPDX-License-Identifier: Apache-2.0
"""The knowledge that flows share. LinUCB's A and b are sums, so the sums of several flows can be added.

There are three levels: the destination prefix, all flows, and the encoder's training data. A new flow starts
from the sum of the levels. Each level counts for a limited number of updates, so that the flow's own rewards
can outvote it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltp_switcher.arrays import Floats, Indices, Slots
from ltp_switcher.slots import SlotArrays, column

_EVERYONE: Final = 0


@dataclass(frozen=True)
class Sums:
    """LinUCB's sums without the ridge: A, shape (arms, dim, dim), and b, shape (arms, dim). `counts` has the
    number of updates of each arm, shape (arms,).
    """

    A: Floats
    b: Floats
    counts: Floats

    def capped(self, cap: float) -> Sums:
        """Return the same estimates with less certainty: each arm counts for at most `cap` updates."""
        share = cap / np.maximum(self.counts, max(cap, 1e-9))
        return Sums(self.A * share[:, None, None], self.b * share[:, None], self.counts * share)

    def __add__(self, other: Sums) -> Sums:
        """Return the sums over the updates of both."""
        return Sums(self.A + other.A, self.b + other.b, self.counts + other.counts)


class Knowledge(SlotArrays):
    """LinUCB's sums of the levels above a single flow.

    Row 0 is for all flows together, and every other row is for a destination prefix.

    Args:
        trained: sums over the encoder's training data, a third level.
        trained_cap, global_cap, prefix_cap: largest number of updates of an arm for which each level may
            count.
        prefixes_max: largest number of prefixes in memory. The prefix that was unused for longest is
            forgotten first, if it has no open flow.
    """

    _A = column(np.float64, "n_arms", "dim", "dim")
    _b = column(np.float64, "n_arms", "dim")
    _counts = column(np.float64, "n_arms")
    _open = column(np.int64)
    """Number of open flows to each row's prefix."""

    def __init__(
        self,
        trained: Sums,
        trained_cap: float,
        global_cap: float,
        prefix_cap: float,
        prefixes_max: int = 1024,
    ) -> None:
        self._trained = trained.capped(trained_cap)
        self._caps = (global_cap, prefix_cap)
        self._prefixes_max = prefixes_max
        self._rows: OrderedDict[str, int] = OrderedDict()
        self.n_arms, self.dim = trained.b.shape
        super().__init__()
        self.grow(_EVERYONE + 1)

    def open(self, prefix: str) -> int:
        """Note that a flow to `prefix` has begun, and return the prefix's row."""
        row = self._rows.get(prefix)
        if row is None:
            row = self._admit(prefix)
        self._rows.move_to_end(prefix)
        self._open[row] += 1
        return row

    def close(self, rows: Slots) -> None:
        """Note that one flow to the prefix of each row has ended. A row may appear more than once."""
        np.subtract.at(self._open, rows, 1)

    def start(self, row: int) -> Sums:
        """The sums with which a new flow to the prefix of `row` starts."""
        return self._trained + self._level(_EVERYONE, self._caps[0]) + self._level(row, self._caps[1])

    def add(self, rows: Slots, columns: Indices, z: Floats, rewards: Floats) -> None:
        """Add one update of each of n flows to the shared sums.

        Args:
            rows: row numbers of the flows' prefixes, shape (n,).
            columns: columns of the arms, shape (n,).
            z: contexts, shape (n, dim).
            rewards: normalised rewards, shape (n,).
        """
        n_arms, dim = self.n_arms, self.dim
        update = np.concatenate(
            [(z[:, :, None] * z[:, None, :]).reshape(len(z), -1), rewards[:, None] * z, np.ones((len(z), 1))],
            axis=1,
        )
        for level in (np.zeros_like(rows), rows):
            key = level * n_arms + columns
            order = np.argsort(key, kind="stable")
            first = np.flatnonzero(np.diff(key[order], prepend=-1))
            total = np.add.reduceat(update[order], first, axis=0)
            at = key[order][first] // n_arms, key[order][first] % n_arms
            self._A[at] += total[:, : dim * dim].reshape(-1, dim, dim)
            self._b[at] += total[:, dim * dim : -1]
            self._counts[at] += total[:, -1]
        self._fade(np.unique(np.append(rows, _EVERYONE)))

    def state(self) -> dict[str, NDArray[np.generic]]:
        """All shared knowledge as arrays. If there are too many prefixes, the most recently used ones are
        kept.
        """
        kept = dict(list(self._rows.items())[-self._prefixes_max :])
        rows = [_EVERYONE, *kept.values()]
        return {
            "prefixes": np.array(list(kept), dtype=np.str_),
            "A": self._A[rows],
            "b": self._b[rows],
            "counts": self._counts[rows],
        }

    def restore(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the result of `state`. No flow may be open yet.

        Raises:
            ValueError: the arrays do not fit.
        """
        A, b, counts = (arrays[name].astype(np.float64) for name in ("A", "b", "counts"))
        prefixes = [str(prefix) for prefix in arrays["prefixes"]]
        rows = len(prefixes) + 1
        wanted = (rows, self.n_arms, self.dim, self.dim)
        if (A.shape, b.shape, counts.shape) != (wanted, wanted[:3], wanted[:2]):
            raise ValueError(f"shapes {A.shape}, {b.shape}, {counts.shape} do not fit")
        if not (np.isfinite(A).all() and np.isfinite(b).all() and np.isfinite(counts).all()):
            raise ValueError("not all numbers are finite")
        self.reset(np.arange(max(rows, self.capacity)))
        self._A[:rows], self._b[:rows], self._counts[:rows] = A, b, counts
        self._rows = OrderedDict((prefix, row + 1) for row, prefix in enumerate(prefixes))

    def _level(self, row: int, cap: float) -> Sums:
        return Sums(self._A[row], self._b[row], self._counts[row]).capped(cap)

    def _admit(self, prefix: str) -> int:
        idle = (known for known, row in self._rows.items() if self._open[row] == 0)
        victim = next(idle, None) if len(self._rows) >= self._prefixes_max else None
        row = len(self._rows) + 1 if victim is None else self._rows.pop(victim)
        self.reset(np.array([row]))
        self._rows[prefix] = row
        return row

    def _fade(self, rows: Slots) -> None:
        """Halve the sums of an arm with more than eight times the updates for which it may count. So the sums
        stay finite, and follow the path.
        """
        cap = np.where(rows == _EVERYONE, *self._caps)
        heavy_row, heavy_column = np.nonzero(self._counts[rows] > 8.0 * np.maximum(cap, 1.0)[:, None])
        if heavy_row.size:
            at = rows[heavy_row], heavy_column
            self._A[at] *= 0.5
            self._b[at] *= 0.5
            self._counts[at] *= 0.5
