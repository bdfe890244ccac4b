# SPDX-License-Identifier: Apache-2.0
"""The echoes of the simulator's flows: the fate of the packets that each flow sent in an interval.

For real flows the kernel module computes them (mutant_echo.h).
"""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from ltp_switcher.arrays import Floats, Indices, Ints
from ltp_switcher.policies.runtime.measurements import NOTHING, Echo


class EchoTracker:
    """Computes echoes: it cuts each flow's curve of acknowledgements where the packets of one sending
    interval end.

    If an interval's last packet is acknowledged between two ticks, the curves are interpolated. With 30 ticks
    in an interval, whole ticks would put 3 % of noise on every rate.

    A flow's flat index is its place in the row-major (F, E). Echoes later than `longest_rtt_s` are left out.
    """

    def __init__(self, shape: tuple[int, int], interval_s: float, longest_rtt_s: float) -> None:
        self._interval_s = interval_s
        self._reach = int(np.ceil(longest_rtt_s / interval_s)) + 3
        self._shape = shape
        size = shape[0] * shape[1]
        # A ring with the ends of the last `_reach` intervals. The end of the interval under way is not known.
        self._bounds = np.full((self._reach + 1, size), np.inf)
        self._closed = 0
        self._awaited = np.zeros(size, np.int64)
        self._next = np.full(size, np.inf)
        # At the end of the last echo: packets resolved, packets acknowledged, RTT times packets, and the
        # time.
        self._mark = np.zeros((4, size))
        # The fields of the last `Echo`, and of the one before it.
        self._last, self._before = (np.full((len(fields(Echo)), size), np.nan) for _ in range(2))
        self._last[0] = self._before[0] = -1.0

    @property
    def last_index(self) -> int:
        """Number of the interval that ended last, from 0."""
        return self._closed - 1

    def close(self, sent: Floats) -> None:
        """End an interval. `sent` has the number of packets that each flow has sent since the start, shape
        (F, E).
        """
        bound = sent.reshape(-1)
        self._bounds[self._closed % len(self._bounds)] = bound
        np.copyto(self._next, bound, where=self._awaited == self._closed)
        self._closed += 1
        self._bounds[self._closed % len(self._bounds)] = np.inf

    def tick(
        self, now_s: float, tick_s: float, step: Floats, acked_step: Floats, rtt_s: Floats, totals: Floats
    ) -> None:
        """Process the acknowledgements and losses of one tick.

        Args:
            now_s: time of the tick's end in seconds.
            tick_s: length of the tick in seconds.
            step: packets acknowledged or found lost in the tick, shape (F, E).
            acked_step: packets acknowledged in the tick, shape (F, E).
            rtt_s: RTT of the acknowledged packets in seconds, shape (F, E).
            totals: sums of step, acked_step and rtt_s * acked_step since the start, this tick included, shape
                (3, F, E).
        """
        told = np.stack((step, acked_step, rtt_s, *totals)).reshape(6, -1)
        (rows,) = (told[3] >= self._next).nonzero()
        while rows.size:
            cut = told[:, rows]
            bound = self._cut(rows, now_s, tick_s, cut)
            # An interval in which nothing was sent ends where the one before it ended.
            rows = rows[cut[3] >= bound]

    def _cut(self, hit: Indices, now_s: float, tick_s: float, told: Floats) -> Floats:
        """End the awaited interval of the flows `hit` within this tick; return where the next one ends."""
        step, acked_step, rtt_s, resolved, acked, weighted = told
        bound = self._next[hit]
        beyond = np.divide(resolved - bound, step, out=np.zeros(hit.size), where=step > 0.0)
        beyond = np.minimum(beyond, 1.0)
        acked_beyond = beyond * acked_step
        end = np.stack(
            (bound, acked - acked_beyond, weighted - acked_beyond * rtt_s, now_s - beyond * tick_s)
        )
        spans = end - self._mark[:, hit]
        self._mark[:, hit] = end
        index = self._awaited[hit]
        self._publish(hit, index, *spans)
        index = index + 1
        forgotten = hit[index < self._closed - self._reach]
        if forgotten.size:
            index = np.maximum(index, self._closed - self._reach)
            self._mark[:, forgotten] = np.nan
        self._awaited[hit] = index
        following: Floats = self._bounds[index % len(self._bounds), hit]
        self._next[hit] = following
        return following

    def _publish(
        self, hit: Indices, index: Ints, resolved: Floats, acked: Floats, weighted: Floats, span_s: Floats
    ) -> None:
        (heard,) = (acked > NOTHING).nonzero()
        hit, index, resolved = hit[heard], index[heard], resolved[heard]
        acked, weighted, span_s = acked[heard], weighted[heard], span_s[heard]
        # After a pause, and before the first echo, the time since the last one says nothing about the rate.
        gapless = (index > 0) & (self._last[0, hit] == index - 1) & (span_s > 0.0)
        span_s = np.where(gapless, span_s, self._interval_s)
        self._before[:, hit] = self._last[:, hit]
        echo = (index, resolved / self._interval_s, acked / span_s, weighted / acked, 1.0 - acked / resolved)
        self._last[:, hit] = np.stack(echo)

    def echoes(self) -> tuple[Echo, Echo]:
        """Return the last echo and the echo before it. The arrays of both have the shape (F, E)."""
        return (
            Echo(*self._last.reshape(-1, *self._shape).copy()),
            Echo(*self._before.reshape(-1, *self._shape).copy()),
        )
