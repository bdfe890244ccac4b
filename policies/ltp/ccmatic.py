# SPDX-License-Identifier: Apache-2.0
"""The baseline estimator: CCmatic's belief set (Agarwal et al., NSDI 2024), which LTP §7.1 compares with.

CCmatic reasons over the CCAC model of a path: a link of capacity C behind which delays jitter by up to D
(Arun et al., SIGCOMM 2021), used by one flow. Its beliefs are the values that the flow's history allows:

- C is at least the amount delivered in any interval, less the amount that D may have squeezed into it.
- If jitter alone cannot explain the delay, the link was busy all along. Then C is at most the delivered
  amount, plus the amount that D may have held back.
- The queuing delay is the RTT above the smallest, less anything up to D.

If beliefs contradict each other, the oldest are given up: here the older bounds that the newest one
contradicts. There is no open code of it for estimation alone; this is a re-implementation from the text.
LTP's quantities follow from the beliefs: x / c from the rate and the bounds of C (§7.1). x_o / c is anything
from nothing to the part of the link that the flow leaves.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Float32s, Floats, Ints, Slots
from ltp_switcher.policies.ltp.particles import Ranges
from ltp_switcher.policies.runtime.measurements import Interval

JITTER_S: Final = 0.02
"""D: as much as LTP's own model allows for (D_j, Table 4), so that both make the same assumption."""
MEMORY: Final = 10
"""Echoes over which a belief holds. CCmatic lets beliefs time out, so as to follow changes, after 10 RTTs."""


class BeliefSets:
    """Beliefs of flows that live in numbered slots; it has `ParticleFilter`'s methods."""

    def __init__(self, interval_s: float, *, jitter_s: float = JITTER_S, memory: int = MEMORY) -> None:
        self._interval_s = interval_s
        self._jitter_s = jitter_s
        # Bounds of C in packets a second that each of the last echoes gives, (2, memory, slots).
        self._bounds: Floats = np.zeros((2, memory, 0))
        self._index: Floats = np.zeros(0)
        self._count: Ints = np.zeros(0, np.int64)
        # Sending rate, and queuing delay from and to.
        self._last: Floats = np.zeros((3, 0))

    def resize(self, slots: int) -> None:
        """Make room for slots 0 to `slots` - 1."""
        more = max(0, slots - len(self._index))
        self._bounds = np.pad(self._bounds, ((0, 0), (0, 0), (0, more)))
        self._index, self._count = np.pad(self._index, (0, more)), np.pad(self._count, (0, more))
        self._last = np.pad(self._last, ((0, 0), (0, more)))
        self.begin(np.arange(len(self._index) - more, len(self._index)))

    def begin(self, slots: Slots) -> None:
        """New flows live in these slots."""
        self._bounds[0][:, slots] = 0.0
        self._bounds[1][:, slots] = np.inf
        self._index[slots] = -1.0
        self._count[slots] = 0
        self._last[:, slots] = np.nan

    def update(self, slots: Slots, interval: Interval) -> None:
        """Take in an interval, arrays of shape (n,)."""
        rows = np.flatnonzero(interval.echo.index > self._index[slots])
        if not rows.size:
            return
        at, echo = slots[rows], interval.echo.rows(rows)
        rtt_s = echo.rtt_s - np.minimum(interval.rtt_min_s[rows], echo.rtt_s)
        busy = rtt_s > self._jitter_s
        squeezed = self._interval_s / (self._interval_s + self._jitter_s)
        low = echo.delivered_pps * squeezed
        high = np.where(busy, echo.delivered_pps / squeezed, np.inf)
        self._count[at] += 1
        place = self._count[at] % self._bounds.shape[1]
        self._bounds[:, place, at] = low, high
        # The new bounds hold; older ones that contradict them belong to a link that has changed.
        for sign, number, new in ((1.0, 0, high), (-1.0, 1, low)):
            old = self._bounds[number][:, at]
            self._bounds[number][:, at] = np.where(sign * old > sign * new, (0.0, np.inf)[number], old)
        self._index[at] = echo.index
        self._last[:, at] = echo.sending_pps, np.maximum(0.0, rtt_s - self._jitter_s), rtt_s

    def ranges(self, slots: Slots) -> Ranges:
        """The ranges of the flows in these slots."""
        sending, delay_low, delay_high = self._last[:, slots]
        low = sending / self._bounds[1][:, slots].min(axis=0)
        high = sending / np.maximum(self._bounds[0][:, slots].max(axis=0), 1e-9)
        left = np.maximum(0.0, 1.0 - low)
        return Ranges(_pair(low, high), _pair(np.zeros(len(slots)), left), _pair(delay_low, delay_high))


def _pair(low: Floats, high: Floats) -> Float32s:
    return np.stack((low, high), axis=1).astype(np.float32)
