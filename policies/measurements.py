# SPDX-License-Identifier: Apache-2.0
"""What a policy sees, in the simulator and on the kernel: an interval's measurements, and its echo.

Two views of the same feedback. `Interval` holds what arrived during the interval, as a kernel counts it.
`Echo` holds the fate of the packets *sent* in an interval, known one RTT later, when the last of them is
acknowledged or lost; Jury §3.1 and LTP §4 take their signals from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from ltp_switcher.policies.arrays import Bools, Floats, Indices, Ints

NOTHING: Final = 1e-6
"""Packets below which a fluid's share is rounding, not data."""
_RESOLVED: Final = 5
"""Place of the packets resolved among what `EchoTracker.tick` is told."""


@dataclass(frozen=True)
class Echo:
    """Fate of the packets that each flow sent in one interval, shape as `Interval`. NaN: not known yet."""

    index: Floats
    """Number of the interval in which they were sent, from 0; -1: none yet."""
    sending_pps: Floats
    delivered_pps: Floats
    """Acknowledged packets over the time that their ACKs took to arrive."""
    rtt_s: Floats
    """Mean over the acknowledged packets."""
    loss: Floats
    """Share of the packets that was lost, 0 to 1."""

    def rows(self, rows: Indices) -> Echo:
        """Those of some flows, of shape (n,)."""
        return Echo(
            self.index[rows],
            self.sending_pps[rows],
            self.delivered_pps[rows],
            self.rtt_s[rows],
            self.loss[rows],
        )


@dataclass(frozen=True)
class Interval:
    """One control interval as its senders see it; arrays of one shape, (F, E) or (n,)."""

    index: int
    """Its number; `Echo.index` counts alike."""
    end_s: float
    length_s: float
    active: Bools
    """The flow was sending at the end of the interval."""
    sent_pkts: Floats
    acked_pkts: Floats
    lost_pkts: Floats
    rtt_s: Floats
    """Mean over the ACKs of the interval; the last one known where there was none."""
    rtt_min_s: Floats
    """Smallest of the flow's life, infinite before the first ACK."""
    window_pkts: Floats
    pacing_pps: Floats
    in_flight_pkts: Floats
    echo: Echo
    previous_echo: Echo
    """The echo before `echo`."""

    @property
    def delivered_pps(self) -> Floats:
        """Rate of acknowledged packets, a second."""
        return self.acked_pkts / self.length_s

    def rows(self, rows: Indices) -> Interval:
        """Those of some flows, of shape (n,)."""
        return Interval(
            index=self.index,
            end_s=self.end_s,
            length_s=self.length_s,
            **{name: getattr(self, name)[rows] for name in _MEASURED},
            echo=self.echo.rows(rows),
            previous_echo=self.previous_echo.rows(rows),
        )

    def flat(self, rows: int) -> Interval:
        """The first `rows` rows of (F, E) as flows of their own, shape (rows * E,), row-major."""

        def cut(echo: Echo) -> Echo:
            return Echo(*(getattr(echo, field.name)[:rows].reshape(-1) for field in fields(Echo)))

        return Interval(
            index=self.index,
            end_s=self.end_s,
            length_s=self.length_s,
            **{name: getattr(self, name)[:rows].reshape(-1) for name in _MEASURED},
            echo=cut(self.echo),
            previous_echo=cut(self.previous_echo),
        )


_MEASURED: Final = tuple(
    field.name
    for field in fields(Interval)
    if field.name not in ("index", "end_s", "length_s", "echo", "previous_echo")
)


class EchoTracker:
    """Cuts the curve of acknowledgements at the ends of the sending intervals.

    Where an interval's last packet is acknowledged between two ticks, the curves are interpolated: with
    30 ticks to an interval, whole ticks would put 3 % of noise on every rate.

    A flow's flat index is its place in the row-major (F, E). Intervals that last longer than said, and
    ticks of different length for different flows, are told in the calls. Echoes later than `longest_rtt_s`
    are left out.
    """

    def __init__(self, shape: tuple[int, int], interval_s: float, longest_rtt_s: float) -> None:
        self._interval_s = interval_s
        self._reach = int(np.ceil(longest_rtt_s / interval_s)) + 3
        self._shape = shape
        size = shape[0] * shape[1]
        # A ring: the ends of the last `_reach` intervals, and of the one under way, which is not known.
        self._bounds = np.full((self._reach + 1, size), np.inf)
        self._lengths_s = np.full(self._reach + 1, interval_s)
        self._closed = 0
        self._awaited = np.zeros(size, np.int64)
        self._next = np.full(size, np.inf)
        # Arrays for themselves, not rows of one: a daemon of few flows gathers and scatters these at a
        # fifth of the cost.
        # Where the last echo ended: packets resolved, packets acknowledged, RTT-weighted ones, time.
        self._mark = [np.zeros(size) for _ in range(4)]
        # Echo's fields; of the last echo and of the one before it.
        self._last, self._before = ([np.full(size, np.nan) for _ in fields(Echo)] for _ in range(2))
        self._last[0][:] = self._before[0][:] = -1.0

    @property
    def last_index(self) -> int:
        """Number of the interval that was closed last, from 0."""
        return self._closed - 1

    def resize(self, columns: int) -> None:
        """Make room for more flows, where the shape has one row."""
        more = columns - self._shape[1]
        self._shape = (1, columns)
        self._bounds = np.pad(self._bounds, ((0, 0), (0, more)), constant_values=np.inf)
        self._awaited = np.pad(self._awaited, (0, more))
        self._next = np.pad(self._next, (0, more), constant_values=np.inf)
        for kept in (self._mark, self._last, self._before):
            kept[:] = [np.pad(array, (0, more), constant_values=np.nan) for array in kept]

    def begin(self, flows: Indices, sent: Floats) -> None:
        """Flows, by flat index, begin anew having sent so much, shape (n,): earlier packets make no echo."""
        self._awaited[flows] = self._closed - 1
        self._next[flows] = sent
        # When the echo of what came before ends is known at the first cut, and its content never.
        for array in (*self._mark, *self._last, *self._before):
            array[flows] = np.nan
        self._last[0][flows] = self._before[0][flows] = -1.0

    def close(self, sent: Floats, length_s: float | None = None) -> None:
        """Note how much each flow had sent, shape (F, E), at the end of an interval of this length."""
        bound = sent.reshape(-1)
        at = self._closed % len(self._bounds)
        self._bounds[at] = bound
        self._lengths_s[at] = self._interval_s if length_s is None else length_s
        np.copyto(self._next, bound, where=self._awaited == self._closed)
        self._closed += 1
        self._bounds[self._closed % len(self._bounds)] = np.inf

    def tick(
        self,
        now_s: float | Floats,
        tick_s: float | Floats,
        step: Floats,
        acked_step: Floats,
        rtt_s: Floats,
        totals: Floats | Sequence[Floats],
        flows: Indices | None = None,
    ) -> None:
        """Take in one tick.

        Args:
            now_s: end of the tick, or shape (F, E) where it is not the same for all.
            tick_s: its length, alike.
            step: packets acknowledged or found lost in it, shape (F, E).
            acked_step: of these, the acknowledged, shape (F, E).
            rtt_s: their RTT, shape (F, E).
            totals: sums over all ticks, this one included, of step, acked_step and rtt_s * acked_step,
                shape (3, F, E).
            flows: flat indices of the flows that the arrays are of, then of shape (n,) instead of (F, E).
        """
        told = (now_s, tick_s, step, acked_step, rtt_s, *totals)
        if flows is None:
            told = tuple(value if isinstance(value, float) else value.reshape(-1) for value in told)
        resolved = told[_RESOLVED]
        (rows,) = (resolved >= (self._next if flows is None else self._next[flows])).nonzero()
        while rows.size:
            hit = rows if flows is None else flows[rows]
            cut = told
            if rows.size < len(resolved):
                cut = tuple(value if isinstance(value, float) else value[rows] for value in told)
            bound = self._cut(hit, *cut)
            # An interval in which nothing was sent ends where the one before it ended.
            rows = rows[cut[_RESOLVED] >= bound]

    def _cut(
        self,
        hit: Indices,
        now_s: float | Floats,
        tick_s: float | Floats,
        step: Floats,
        acked_step: Floats,
        rtt_s: Floats,
        resolved: Floats,
        acked: Floats,
        weighted: Floats,
    ) -> Floats:
        """End the awaited interval of the flows `hit` within this tick; return where the next one ends.

        Arguments as of `tick`, of these flows.
        """
        bound = self._next[hit]
        beyond = np.divide(resolved - bound, step, out=np.zeros(hit.size), where=step > 0.0)
        beyond = np.minimum(beyond, 1.0)
        acked_beyond = beyond * acked_step
        ends = (bound, acked - acked_beyond, weighted - acked_beyond * rtt_s, now_s - beyond * tick_s)
        spans = []
        for mark, end in zip(self._mark, ends, strict=True):
            spans.append(end - mark[hit])
            mark[hit] = end
        index = self._awaited[hit]
        self._publish(hit, index, *spans)
        index = index + 1
        forgotten = hit[index < self._closed - self._reach]
        if forgotten.size:
            index = np.maximum(index, self._closed - self._reach)
            for mark in self._mark:
                mark[forgotten] = np.nan
        self._awaited[hit] = index
        following: Floats = self._bounds[index % len(self._bounds), hit]
        self._next[hit] = following
        return following

    def _publish(
        self, hit: Indices, index: Ints, resolved: Floats, acked: Floats, weighted: Floats, span_s: Floats
    ) -> None:
        (heard,) = (acked > NOTHING).nonzero()
        if heard.size < hit.size:
            hit, index, resolved = hit[heard], index[heard], resolved[heard]
            acked, weighted, span_s = acked[heard], weighted[heard], span_s[heard]
        length_s = self._lengths_s[index % len(self._bounds)]
        # After a pause the time since the last echo says nothing about the rate.
        was = [array[hit] for array in self._last]
        gapless = (was[0] == index - 1) & (span_s > 0.0)
        if np.count_nonzero(gapless) < hit.size:
            span_s = np.where(gapless, span_s, length_s)
        echo = (index, resolved / length_s, acked / span_s, weighted / acked, 1.0 - acked / resolved)
        for before, last, earlier, value in zip(self._before, self._last, was, echo, strict=True):
            before[hit] = earlier
            last[hit] = value

    def echoes(self) -> tuple[Echo, Echo]:
        """The last echo and the one before it, shape (F, E)."""
        return (
            Echo(*(array.reshape(self._shape).copy() for array in self._last)),
            Echo(*(array.reshape(self._shape).copy() for array in self._before)),
        )

    def echoes_of(self, flows: Indices) -> tuple[Echo, Echo]:
        """The same of some flows, by flat index, shape (n,)."""
        return Echo(*[array[flows] for array in self._last]), Echo(*[array[flows] for array in self._before])
