# SPDX-License-Identifier: Apache-2.0
"""Changes of the paths to prefixes, found by ADWIN on the values of their visits.

Each prefix with enough visits has a detector that looks for a change at every visit (A. Bifet and R. Gavaldà
2007, Learning from Time-Changing Data with Adaptive Windowing). It takes one value per visit.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Ints
from ltp_switcher.daemon.choose.change_detection import AdwinBank

DETECTORS_MAX: Final = 16_384
"""Detectors at a time. Each takes 2.1 KB, all of them 35 MB."""
VISITS_MIN: Final = 20
"""A prefix with fewer visits has no detector: its level is not yet settled."""
DELTA: Final = 0.02
"""ADWIN's δ. River's default of 0.002 finds a 2-fold change 16 visits later (docs/lab-notes/learner.md)."""


class Changes:
    """The detectors of prefixes, made when they are first needed.

    Args:
        most: detectors at a time. A prefix for which there is none left goes without.
    """

    def __init__(self, most: int = DETECTORS_MAX) -> None:
        self._bank = AdwinBank(DELTA, clock=1)
        # The system gives the memory of a detector once it is written to.
        self._bank.grow(most)
        self._free = list(range(most))[::-1]
        self._at: Ints = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._at >= 0))

    def grow(self, size: int) -> None:
        """Have room for prefixes up to this number."""
        more = max(size - len(self._at), 0)
        self._at = np.concatenate([self._at, np.full(more, -1)])

    def update(self, prefixes: Ints, visits: Ints, values: Floats) -> Bools:
        """Take in a visit of each of these prefixes: shape (m,) each.

        Args:
            prefixes: their numbers, each once.
            visits: visits of each prefix so far.
            values: the visits' values without the effects of their arms.

        Returns:
            Shape (m,): true where the path has changed.
        """
        lacking = prefixes[(self._at[prefixes] < 0) & (visits >= VISITS_MIN)][: len(self._free)]
        self._at[lacking] = [self._free.pop() for _ in range(lacking.size)]
        self._bank.reset(self._at[lacking])
        at = self._at[prefixes]
        has = at >= 0
        changed = np.zeros(len(prefixes), np.bool_)
        changed[has] = self._bank.update(at[has], values[has])
        return changed

    def forget(self, prefixes: Ints) -> None:
        """Give up the detectors of these prefixes, each once."""
        at = self._at[prefixes]
        self._free.extend(at[at >= 0].tolist())
        self._at[prefixes] = -1
