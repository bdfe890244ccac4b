# SPDX-License-Identifier: Apache-2.0
"""The smallest RTT of the last 10 seconds, RTT_min of Eq. 7."""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.policies.arrays import Floats, Ints

PERIOD_S: Final = 10.0
"""How far back it looks (Owl §IV-A)."""
BUCKETS: Final = 10


class LeastRtt:
    """One for each slot, kept as the smallest of each tenth of the period."""

    def __init__(self) -> None:
        self._least_s: Floats = np.zeros((0, BUCKETS))
        self._bucket: Ints = np.zeros(0, np.int64)

    def resize(self, slots: int) -> None:
        """Make room for slots 0 to `slots` - 1."""
        least_s = np.full((slots, BUCKETS), np.inf)
        least_s[: len(self._least_s)] = self._least_s[:slots]
        bucket = np.full(slots, -1)
        bucket[: len(self._bucket)] = self._bucket[:slots]
        self._least_s, self._bucket = least_s, bucket

    def begin(self, slots: Ints) -> None:
        """Forget what the slots remember."""
        self._least_s[slots] = np.inf

    def update(self, slots: Ints, rtt_s: Floats, now_s: float) -> Floats:
        """Take in RTTs, shape (n,); return the least of each slot, shape (n,)."""
        bucket = int(now_s * BUCKETS / PERIOD_S)
        least_s = self._least_s[slots]
        # Buckets that time went past since the slot was last seen are a period old.
        age = np.arange(1, BUCKETS + 1)
        passed = (bucket - self._bucket[slots])[:, None] >= age
        rows, steps = np.nonzero(passed)
        least_s[rows, (bucket + 1 - age[steps]) % BUCKETS] = np.inf
        column = bucket % BUCKETS
        least_s[:, column] = np.minimum(least_s[:, column], rtt_s)
        self._least_s[slots] = least_s
        self._bucket[slots] = bucket
        return self.now(slots)

    def now(self, slots: Ints) -> Floats:
        """The least of each slot as it stands, shape (n,); infinite where there was none."""
        return np.asarray(self._least_s[slots].min(axis=1))
