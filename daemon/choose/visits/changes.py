# SPDX-License-Identifier: Apache-2.0
"""Finds changes of the paths to prefixes, with ADWIN on the values (log rewards) of the prefixes' visits.

A visit is a group of flows to a prefix that began near each other on one arm. Each prefix with enough visits
has a detector, which looks for a change at every visit (A. Bifet and R. Gavaldà 2007, Learning from
Time-Changing Data with Adaptive Windowing).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Ints
from ltp_switcher.daemon.choose.change_detection import AdwinBank

DETECTORS_MAX: Final = 16_384
"""Largest number of detectors, one for a prefix. A detector takes 2.1 KB, and all of them together 35 MB."""
VISITS_MIN: Final = 20
"""Least number of visits (groups of flows on one arm) with which a prefix has a detector of changes. Before
that the expected value of its visits has not settled.
"""
DELTA: Final = 0.02
"""ADWIN's δ, the probability of a false alarm. With river's default of 0.002, a change of the reward by a
factor of 2 is found 16 observations later (docs/lab-notes/learner.md).
"""


class Changes:
    """The detectors of changes on the paths to prefixes. Each is made when its prefix first has enough
    visits.

    A visit is a group of flows to a prefix that began near each other on one arm.

    Args:
        most: largest number of detectors. When all are in use, further prefixes have none.
    """

    def __init__(self, most: int = DETECTORS_MAX) -> None:
        self._bank = AdwinBank(DELTA, clock=1)
        # The system provides a detector's memory only when the detector is first written to.
        self._bank.grow(most)
        self._free = list(range(most))[::-1]
        self._at: Ints = np.zeros(0, np.int64)

    def __len__(self) -> int:
        return int(np.count_nonzero(self._at >= 0))

    def grow(self, size: int) -> None:
        """Make room for prefixes with numbers below `size`."""
        more = max(size - len(self._at), 0)
        self._at = np.concatenate([self._at, np.full(more, -1)])

    def update(self, prefixes: Ints, visits: Ints, values: Floats) -> Bools:
        """Take in one visit to each of m prefixes; each array has the shape (m,).

        Args:
            prefixes: numbers of the prefixes, each once.
            visits: number of visits to each prefix so far.
            values: log rewards of the visits, less the effects (gains in log reward) of their arms.

        Returns:
            True where the path has changed, shape (m,).
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
        """Free the detectors of these prefixes, each named once."""
        at = self._at[prefixes]
        self._free.extend(at[at >= 0].tolist())
        self._at[prefixes] = -1
