# SPDX-License-Identifier: Apache-2.0
"""Disjoint LinUCB for all flows and arms at once (Li et al. 2010; Mutant §5.1, Algorithm 1).

Each pair of flow and arm has A = sum z z', b = sum r z and theta = A^-1 b, for contexts z and rewards r. The
sums include the knowledge with which the flow started. The formula of Sherman and Morrison updates A^-1.
Rounding errors add up over millions of updates, so each pair's A is inverted afresh after every
`REINVERT_EVERY` updates. Pairs start at different points of that cycle, so that the inversions spread over
the steps.

With discount < 1 the past of all arms of a flow fades whenever the flow learns (D-LinUCB, Russac et al.
2019): A and b shrink by this factor. So an arm that was not tried for long becomes uncertain again, and worth
another trial. Until such an arm is tried, a scalar, `_faded`, keeps its factor. The ridge fades, too, and is
restored when half of it has gone.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Indices, Ints, Slots
from ltp_switcher.slots import SlotArrays, column

REINVERT_EVERY: Final = 128


class LinUCB(SlotArrays):
    """A linear model of the reward of every arm, for each flow.

    Args:
        n_arms: number of arms.
        dim: length of a context z.
        ridge: lambda, the precision for an arm about which nothing is known.
        discount: factor by which the past of all arms of a flow shrinks at each update of the flow, in (0,
            1].
    """

    _A = column(np.float64, "n_arms", "dim", "dim")
    _inverse = column(np.float64, "n_arms", "dim", "dim")
    _b = column(np.float64, "n_arms", "dim")
    _theta = column(np.float64, "n_arms", "dim")
    _counts = column(np.float64, "n_arms")
    _faded = column(np.float64, "n_arms", initial=1.0)
    _ridge_left = column(np.float64, "n_arms", initial=1.0)
    _since = column(np.int64, "n_arms")
    """Number of updates since the last inversion. It starts at a value that differs from pair to pair."""

    def __init__(self, n_arms: int, dim: int, ridge: float = 1.0, discount: float = 1.0) -> None:
        self.n_arms = n_arms
        self.dim = dim
        self.ridge = ridge
        self.discount = discount
        super().__init__()

    def reset(self, slots: Slots) -> None:
        """Begin flows without knowledge."""
        super().reset(slots)
        self._A[slots] = self.ridge * np.eye(self.dim)
        self._inverse[slots] = np.eye(self.dim) / self.ridge
        self._since[slots] = self._staggered(slots)

    def start(self, slots: Slots, A: Floats, b: Floats, counts: Floats) -> None:
        """Begin flows with existing knowledge.

        Args:
            slots: slots of the flows, shape (n,).
            A: sums of z z' over contexts z, without the ridge, shape (n, arms, dim, dim).
            b: sums of r z over rewards r, shape (n, arms, dim).
            counts: number of updates in A, shape (n, arms).
        """
        self.reset(slots)
        self._A[slots] += A
        self._b[slots] = b
        self._counts[slots] = counts
        self._inverse[slots] = np.linalg.inv(self._A[slots])
        self._theta[slots] = np.einsum("naij,naj->nai", self._inverse[slots], b)

    def counts(self, slots: Slots) -> Floats:
        """Number of updates behind each arm's estimate, reduced by fading, shape (n, arms)."""
        return self._counts[slots] * self._faded[slots]

    def means(self, slots: Slots, z: Floats) -> Floats:
        """Expected reward of every arm, shape (n, arms), for contexts z of shape (n, dim)."""
        return np.asarray((self._theta[slots] @ z[:, :, None])[..., 0])

    def widths(self, slots: Slots, z: Floats) -> Floats:
        """The width of every arm's interval, sqrt(z' A^-1 z), shape (n, arms). LinUCB's bonus is alpha times
        this width.
        """
        reach = self._inverse[slots] @ z[:, None, :, None]
        squared: Floats = (reach[..., 0] * z[:, None, :]).sum(axis=-1) / self._faded[slots]
        # The width is largest where nothing is known: there A is the ridge alone.
        nothing = (z * z).sum(axis=1, keepdims=True) / self.ridge
        return np.sqrt(np.clip(squared, 0.0, nothing))

    def update(self, slots: Slots, columns: Indices, z: Floats, rewards: Floats) -> None:
        """Learn one reward for each flow. A flow may not appear twice.

        Args:
            slots: slots of the flows, shape (n,).
            columns: columns of the arms, shape (n,).
            z: contexts of the decisions, shape (n, dim).
            rewards: normalised rewards, shape (n,).
        """
        self._faded[slots] *= self.discount
        keep = self._faded[slots, columns]
        inverse = self._inverse[slots, columns]
        reach = (inverse @ z[:, :, None])[..., 0]
        gain = reach / (keep + (reach * z).sum(axis=1))[:, None]
        inverse = (inverse - gain[:, :, None] * reach[:, None, :]) / keep[:, None, None]
        outer = z[:, :, None] * z[:, None, :]
        b = keep[:, None] * self._b[slots, columns] + rewards[:, None] * z
        self._A[slots, columns] = keep[:, None, None] * self._A[slots, columns] + outer
        self._b[slots, columns] = b
        self._inverse[slots, columns] = inverse
        self._theta[slots, columns] = (inverse @ b[:, :, None])[..., 0]
        self._counts[slots, columns] = keep * self._counts[slots, columns] + 1.0
        self._faded[slots, columns] = 1.0
        left = self._ridge_left[slots, columns] * keep
        self._ridge_left[slots, columns] = left
        since = self._since[slots, columns] + 1
        self._since[slots, columns] = since
        due = (since >= REINVERT_EVERY) | (left < 0.5)
        if due.any():
            self._reinvert(slots[due], columns[due])

    def widen(self, slots: Slots, keep: float) -> None:
        """Keep a share `keep` in (0, 1] of the certainty of these flows' estimates, because the path has
        changed. The estimates themselves stay.
        """
        self._faded[slots] *= keep

    def _reinvert(self, slots: Slots, columns: Indices) -> None:
        missing = self.ridge * (1.0 - self._ridge_left[slots, columns])
        A = self._A[slots, columns] + missing[:, None, None] * np.eye(self.dim)
        A = 0.5 * (A + A.transpose(0, 2, 1))
        inverse = np.linalg.inv(A)
        self._A[slots, columns] = A
        self._inverse[slots, columns] = inverse
        self._theta[slots, columns] = (inverse @ self._b[slots, columns][:, :, None])[..., 0]
        self._ridge_left[slots, columns] = 1.0
        self._since[slots, columns] = 0

    def _staggered(self, slots: Slots) -> Ints:
        return (slots[:, None] * 37 + np.arange(self.n_arms) * 11) % REINVERT_EVERY
