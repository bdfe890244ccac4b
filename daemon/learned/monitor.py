# SPDX-License-Identifier: Apache-2.0
"""From the kernel's step records to the intervals that a policy sees, for all flows of one arm.

The intervals of all flows end together. The kernel counts packets where the simulator's fluid flows, and
that apart a policy meets here what it met in training: `Interval` and `Echo`, of the same meaning.

Sent is not among the kernel's counters, but follows from them: whatever left was delivered, was lost, or is
in flight, retransmissions counted as packets of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ltp_switcher.daemon.datapath import RecordArray, protocol
from ltp_switcher.policies.arrays import Bools, Floats, Ints
from ltp_switcher.policies.measurements import NOTHING, EchoTracker, Interval

LONGEST_RTT_S: Final = 10.0
"""What comes back later than this makes no echo."""
PAUSE_S: Final = 1.0
"""A flow that neither has data in flight nor hears of any for so long has stopped, and begins anew."""
_NO_RTT_S: Final = (2**32 - 1) * 1e-6
# Columns of what a flow's records say: first what adds up over an interval's records, then what the last
# of them shows.
_SUMMED: Final = 3
(
    _LENGTH_S,
    _RTT_SAMPLES,
    _RTT_SUM_S,
    _DELIVERED,
    _LOST,
    _PACING_BPS,
    _WINDOW,
    _IN_FLIGHT,
    _MIN_RTT_S,
    _MSS,
) = range(10)
_ADDS_UP: Final = np.array([[1.0] * _SUMMED + [0.0] * (_MSS + 1 - _SUMMED)])
_UNITS: Final = np.ones((_MSS + 1, 1))
"""What the kernel's numbers are multiplied by."""
_UNITS[_LENGTH_S] = 1e-9
_UNITS[[_RTT_SUM_S, _MIN_RTT_S]] = 1e-6
_ROW: Final = np.dtype(f"V{8 * (_MSS + 1)}")


def _columns(width: int, *names: str) -> Ints:
    """Where fields lie when a record is read as a row of `width`-byte words: one look for all of them."""
    fields = dict(protocol.RECORD_DTYPE.fields or {})
    return np.array([fields[name][1] // width for name in names])


_WORDS: Final = _columns(
    8, "interval_ns", "rtt_samples", "rtt_stat", "total_delivered", "total_lost", "pacing_rate"
)
# A stat is minimum, maximum and sum.
_WORDS[_RTT_SUM_S] += 2
_HALVES: Final = _columns(4, "snd_cwnd", "in_flight", "min_rtt_us", "mss")


class Monitor:
    """Flows by slot, from `begin` to `leave`. `slots` are distinct, and row i of a record array is of slot i.

    Args:
        interval_s: how long an interval is meant to be; `close` takes the time that it was.
        capacity: slots to begin with.
        fine: echoes are cut at every step's records, not at the interval's sums of them. They come out as
            exact as the steps are short, at the cost of as many cuts.
    """

    def __init__(self, interval_s: float, capacity: int = 64, *, fine: bool = False) -> None:
        self._fine = fine
        self._echoes = EchoTracker((1, capacity), interval_s, LONGEST_RTT_S)
        self._member: Bools = np.zeros(capacity, np.bool_)
        self.slots: Ints = np.zeros(0, np.int64)
        """The flows that are watched, shape (n,), ascending."""
        self._seen: Floats = np.zeros((capacity, _MSS + 1))
        self._heard_s: Floats = np.zeros(capacity)
        # Over the flow's life, in packets. As of the last cut: acknowledged or lost, acknowledged,
        # RTT-weighted ones; as of the last interval's end: acknowledged or lost, acknowledged, sent.
        self._cut = [np.zeros(capacity) for _ in range(3)]
        self._ended = [np.zeros(capacity) for _ in range(3)]
        self._rtt_s: Floats = np.zeros(capacity)
        self._rtt_min_s: Floats = np.zeros(capacity)
        self._closed_ns = 0

    @property
    def capacity(self) -> int:
        """Slots that there is room for."""
        return self._member.size

    def watches(self, slots: Ints) -> Bools:
        """Whether each of the slots is watched, shape (n,)."""
        return self._member[slots]

    def grow(self, capacity: int) -> None:
        """Make room for more slots."""
        more = capacity - self.capacity
        self._echoes.resize(capacity)
        for name in ("_member", "_heard_s", "_rtt_s", "_rtt_min_s"):
            setattr(self, name, np.pad(getattr(self, name), (0, more)))
        self._seen = np.pad(self._seen, ((0, more), (0, 0)))
        self._cut = [np.pad(total, (0, more)) for total in self._cut]
        self._ended = [np.pad(total, (0, more)) for total in self._ended]

    def begin(self, slots: Ints, records: RecordArray, now_ns: int) -> None:
        """Watch flows from these records (`RECORD_DTYPE`, shape (n,)) on; what came before is not counted."""
        if not self.slots.size:
            self._closed_ns = now_ns
        seen = _read(records)
        seen[:, :_SUMMED] = 0.0
        self._seen[slots] = seen
        self._heard_s[slots] = now_ns * 1e-9
        delivered, resolved = seen[:, _DELIVERED], seen[:, _DELIVERED] + seen[:, _LOST]
        sent = resolved + seen[:, _IN_FLIGHT]
        _put(self._cut, slots, (resolved, delivered, np.zeros(len(slots))))
        _put(self._ended, slots, (resolved, delivered, sent))
        self._rtt_s[slots] = records["srtt_us"] * 1e-6
        self._rtt_min_s[slots] = np.inf
        self._echoes.begin(slots, sent)
        self._watch(slots, True)

    def leave(self, slots: Ints) -> None:
        """Watch these no more, if they were watched."""
        if self._member[slots].any():
            self._watch(slots, False)

    def observe(self, slots: Ints, records: RecordArray, now_ns: int) -> None:
        """Take in a step's records of flows that are watched; a flow without one shows itself later.

        But for fine echoes, an interval is worked off at its end as if it were one step: at a few flows the
        cost is the number of array operations.
        """
        told = _read(records)
        seen = told + _ADDS_UP * self._seen.take(slots, axis=0)
        # As opaque bytes: numpy scatters rows of numbers at three times the cost.
        self._seen.view(_ROW).reshape(-1)[slots] = seen.view(_ROW).reshape(-1)
        self._heard_s[slots] = now_ns * 1e-9
        if self._fine:
            told = told.T * _UNITS
            self._tick(slots, told, self._mean_rtts(slots, told))

    def close(self, now_ns: int) -> tuple[Ints, Interval]:
        """End the interval; return the flows that are sending and what they measured, shape (n,)."""
        length_s = (now_ns - self._closed_ns) * 1e-9
        self._closed_ns = now_ns
        slots = self.slots
        seen = self._seen.take(slots, axis=0).T * _UNITS
        self._seen[:, :_SUMMED].fill(0.0)
        in_flight = seen[_IN_FLIGHT]
        rtt_s = self._mean_rtts(slots, seen)
        if not self._fine:
            self._tick(slots, seen, rtt_s)

        resolved = seen[_DELIVERED] + seen[_LOST]
        totals = (resolved, seen[_DELIVERED], resolved + in_flight)
        step, acked, sent = (now - then[slots] for now, then in zip(totals, self._ended, strict=True))
        _put(self._ended, slots, totals)
        self._echoes.close(self._ended[-1], length_s)

        sending = np.maximum(in_flight, step) > NOTHING
        echo, previous_echo = self._echoes.echoes_of(slots)
        interval = Interval(
            index=self._echoes.last_index,
            end_s=now_ns * 1e-9,
            length_s=length_s,
            active=sending,
            sent_pkts=sent,
            acked_pkts=acked,
            lost_pkts=step - acked,
            rtt_s=rtt_s,
            rtt_min_s=self._least_rtts(slots, seen),
            window_pkts=seen[_WINDOW],
            # Without pacing the kernel names a rate beyond any link's.
            pacing_pps=seen[_PACING_BPS] / np.maximum(seen[_MSS], 1.0),
            in_flight_pkts=in_flight,
            echo=echo,
            previous_echo=previous_echo,
        )
        (rows,) = sending.nonzero()
        if rows.size == slots.size:
            return slots, interval
        stopped = ~sending & (self._heard_s[slots] <= now_ns * 1e-9 - PAUSE_S)
        if stopped.any():
            self._watch(slots[stopped], False)
        return slots[rows], interval.rows(rows)

    def _watch(self, slots: Ints, watched: bool) -> None:
        self._member[slots] = watched
        self.slots = np.flatnonzero(self._member)

    def _tick(self, slots: Ints, seen: Floats, rtt_s: Floats) -> None:
        """Cut echoes from what came since the last cut, columns as in `_read` with units."""
        delivered = seen[_DELIVERED]
        resolved = delivered + seen[_LOST]
        before = [total[slots] for total in self._cut]
        step, acked = resolved - before[0], delivered - before[1]
        totals = (resolved, delivered, before[2] + acked * rtt_s)
        _put(self._cut, slots, totals)
        self._rtt_s[slots] = rtt_s
        self._echoes.tick(self._heard_s[slots], seen[_LENGTH_S], step, acked, rtt_s, totals, slots)

    def _mean_rtts(self, slots: Ints, seen: Floats) -> Floats:
        """Mean RTT of the samples, of the last ones known where there is none, shape (n,)."""
        rtt_s: Floats = self._rtt_s[slots]
        np.divide(seen[_RTT_SUM_S], seen[_RTT_SAMPLES], out=rtt_s, where=seen[_RTT_SAMPLES] > 0.0)
        return rtt_s

    def _least_rtts(self, slots: Ints, seen: Floats) -> Floats:
        """Least RTT of the flows' lives, shape (n,): the kernel forgets its minimum after minutes."""
        kernel_s = seen[_MIN_RTT_S]
        rtt_min_s: Floats = self._rtt_min_s[slots]
        known = (kernel_s > 0.0) & (kernel_s < _NO_RTT_S)
        np.minimum(rtt_min_s, kernel_s, out=rtt_min_s, where=known)
        self._rtt_min_s[slots] = rtt_min_s
        return rtt_min_s


def _put(totals: Sequence[Floats], slots: Ints, values: Sequence[Floats]) -> None:
    for total, value in zip(totals, values, strict=True):
        total[slots] = value


def _read(records: RecordArray) -> Floats:
    """What records say, shape (n, 10), in the kernel's units."""
    n = len(records)
    words = records.view(np.uint64).reshape(n, -1).take(_WORDS, axis=1)
    halves = records.view(np.uint32).reshape(n, -1).take(_HALVES, axis=1)
    return np.concatenate((words, halves), axis=1, dtype=np.float64)
