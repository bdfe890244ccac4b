# SPDX-License-Identifier: Apache-2.0
"""The baseline estimator: CCmatic's belief set (Agarwal et al., NSDI 2024), with which LTP, Section 7.1,
compares.

CCmatic reasons over the CCAC model of a path: a link of capacity C behind which delays jitter by up to D
(Arun et al., SIGCOMM 2021), used by one flow. CCmatic's beliefs are the values that the flow's history
allows:

- C is at least the amount delivered in any interval, less the amount that D may have squeezed into the
  interval.
- If jitter alone cannot explain the delay, the link was busy all the time. Then C is at most the delivered
  amount, plus the amount that D may have held back.
- The queuing delay is the RTT above the smallest, less anything up to D.

If beliefs contradict each other, CCmatic gives up the oldest ones. Here the newest bound wins over older
bounds that contradict it. No open code of CCmatic does estimation alone, so this is a re-implementation from
the text.

LTP's quantities, the flow's rate x and the others' rate x_o over the capacity c, follow from the beliefs. x /
c follows from the rate and the bounds of C (LTP, Section 7.1). x_o / c may be anything from nothing to the
part of the link that the flow leaves.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Float32s, Floats, Slots
from ltp_switcher.policies.ltp.particles import Ranges
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.slots import SlotArrays, column

JITTER_S: Final = 0.02
"""D in seconds. It equals D_j in LTP's model (LTP, Table 4), so that both estimators make the same
assumption.
"""
MEMORY: Final = 10
"""Number of echoes for which a belief holds. In CCmatic beliefs time out after 10 RTTs, so as to follow
changes."""


class BeliefSets(SlotArrays):
    """The beliefs of flows in numbered slots, with the methods of `ParticleFilter`.

    Args:
        interval_s: length of the sending intervals of the echoes, in seconds.
        jitter_s: largest jitter D of the delay, in seconds.
        memory: number of echoes for which a belief holds.
    """

    # Bounds of C that each of the last echoes gives.
    _least_pps = column(np.float64, "_memory")
    _most_pps = column(np.float64, "_memory", initial=np.inf)
    _index = column(np.float64, initial=-1.0)
    """Interval number of the last echo; -1 before the first."""
    _count = column(np.int64)
    """Number of echoes so far."""
    _sending_pps = column(np.float64, initial=np.nan)
    # The queuing delay is between these two values.
    _delay_least_s = column(np.float64, initial=np.nan)
    _delay_most_s = column(np.float64, initial=np.nan)

    def __init__(self, interval_s: float, *, jitter_s: float = JITTER_S, memory: int = MEMORY) -> None:
        self._interval_s = interval_s
        self._jitter_s = jitter_s
        self._memory = memory
        super().__init__()

    def update(self, slots: Slots, interval: Interval) -> None:
        """Narrow the beliefs about capacity and delay by an interval, whose arrays have shape (n,)."""
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
        place = self._count[at] % self._memory
        self._least_pps[at, place], self._most_pps[at, place] = low, high
        # The new bounds hold; older ones that contradict them belong to a link that has changed.
        least, most = self._least_pps[at], self._most_pps[at]
        self._least_pps[at] = np.where(least > high[:, None], 0.0, least)
        self._most_pps[at] = np.where(most < low[:, None], np.inf, most)
        self._index[at] = echo.index
        self._sending_pps[at] = echo.sending_pps
        self._delay_least_s[at], self._delay_most_s[at] = np.maximum(0.0, rtt_s - self._jitter_s), rtt_s

    def ranges(self, slots: Slots) -> Ranges:
        """Return the ranges of the estimates for the flows in these slots."""
        sending_pps = self._sending_pps[slots]
        low = sending_pps / self._most_pps[slots].min(axis=1)
        high = sending_pps / np.maximum(self._least_pps[slots].max(axis=1), 1e-9)
        left = np.maximum(0.0, 1.0 - low)
        return Ranges(
            _pair(low, high),
            _pair(np.zeros(len(slots)), left),
            _pair(self._delay_least_s[slots], self._delay_most_s[slots]),
        )


def _pair(low: Floats, high: Floats) -> Float32s:
    return np.stack((low, high), axis=1).astype(np.float32)
