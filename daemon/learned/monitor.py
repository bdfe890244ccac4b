# SPDX-License-Identifier: Apache-2.0
"""From the kernel's step records to the intervals that a policy sees, for all flows of one arm.

The intervals of all flows end together. The kernel counts packets where the simulator's fluid flows, and
that apart a policy meets here what it met in training: `Interval` and `Echo`, of the same meaning.

Sent is not among the kernel's counters, but follows from them: whatever left was delivered, was lost, or is
in flight, retransmissions counted as packets of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltp_switcher.daemon.datapath import RecordArray, protocol
from ltp_switcher.policies.arrays import Bools, Floats, Ints
from ltp_switcher.policies.measurements import NOTHING, EchoTracker, Interval

LONGEST_RTT_S: Final = 10.0
"""What comes back later than this makes no echo."""
PAUSE_NS: Final = 1_000_000_000
"""A flow that neither has data in flight nor hears of any for so long has stopped, and begins anew."""
_NO_RTT: Final = 2**32 - 1
_UNPACED: Final = 2.0**63
# Rows of the arrays below. What grows over a flow's life, in packets; the RTT's sum is weighted by them.
_RESOLVED, _ACKED, _RTT_SUM, _SENT = range(4)
# What a flow shows now.
_WINDOW, _PACING_PPS, _IN_FLIGHT, _RTT_S, _RTT_MIN_S = range(5)


Words = NDArray[np.uint64]
"""Records as plain words, which numpy joins at a hundredth of the cost of fields."""


def _columns(width: int, *names: str) -> Ints:
    """Where fields lie when a record is read as a row of `width`-byte words: one look for all of them."""
    fields = dict(protocol.RECORD_DTYPE.fields or {})
    return np.array([fields[name][1] // width for name in names])


_WORDS: Final = _columns(
    8, "total_delivered", "total_lost", "interval_ns", "pacing_rate", "rtt_samples", "rtt_stat"
)
# A stat is minimum, maximum and sum.
_WORDS[-1] += 2
_RTTS: Final = slice(4, 6)
_HALVES: Final = _columns(4, "snd_cwnd", "in_flight", "min_rtt_us", "mss")


class Monitor:
    """Flows by slot, from `begin` to `leave`. `slots` are distinct, and row i of a record array is of slot i.

    Args:
        interval_s: how long an interval is meant to be; `close` takes the time that it was.
        capacity: slots to begin with.
    """

    def __init__(self, interval_s: float, capacity: int = 64) -> None:
        self._echoes = EchoTracker((1, capacity), interval_s, LONGEST_RTT_S)
        self._member: Bools = np.zeros(capacity, np.bool_)
        self._total: Floats = np.zeros((4, capacity))
        self._before: Floats = np.zeros((4, capacity))
        """`_total` at the end of the last interval."""
        self._rtt_samples: Floats = np.zeros((2, capacity))
        """Of the interval under way: number of RTTs, their sum in µs."""
        self._now: Floats = np.zeros((5, capacity))
        self._steps: list[tuple[Ints, Words, int]] = []
        """Of the interval under way, to be worked off."""
        self._closed_ns = 0
        self._heard_ns: Ints = np.zeros(capacity, np.int64)

    @property
    def capacity(self) -> int:
        """Slots that there is room for."""
        return self._member.size

    @property
    def slots(self) -> Ints:
        """The flows that are watched, shape (n,), ascending."""
        return np.flatnonzero(self._member)

    @property
    def any(self) -> bool:
        """Whether a flow is watched."""
        return bool(self._member.any())

    def watches(self, slots: Ints) -> Bools:
        """Whether each of the slots is watched, shape (n,)."""
        return self._member[slots]

    def grow(self, capacity: int) -> None:
        """Make room for more slots."""
        more = capacity - self.capacity
        self._echoes.resize(capacity)
        self._member = np.pad(self._member, (0, more))
        self._heard_ns = np.pad(self._heard_ns, (0, more))
        for name in ("_total", "_before", "_rtt_samples", "_now"):
            setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, more))))

    def begin(self, slots: Ints, records: RecordArray, now_ns: int) -> None:
        """Watch flows from these records (`RECORD_DTYPE`, shape (n,)) on; what came before is not counted."""
        self._work_off()
        if not self._member.any():
            self._closed_ns = now_ns
        self._member[slots] = True
        delivered, lost = (records[name].astype(np.float64) for name in ("total_delivered", "total_lost"))
        total = np.zeros((4, len(slots)))
        total[_ACKED] = delivered
        total[_RESOLVED] = delivered + lost
        total[_SENT] = total[_RESOLVED] + records["in_flight"]
        self._total[:, slots] = self._before[:, slots] = total
        self._rtt_samples[:, slots] = 0.0
        self._now[_RTT_MIN_S, slots] = np.inf
        words, halves = _read(_words(records), 1)
        self._look(slots, words[0], halves[0], records["srtt_us"] * 1e-6, now_ns)
        self._echoes.begin(slots, total[_SENT])

    def leave(self, slots: Ints) -> None:
        """Watch these no more, if they were watched."""
        self._work_off()
        self._member[slots] = False

    def observe(self, slots: Ints, records: RecordArray, now_ns: int) -> None:
        """Take in a step's records of flows that are watched; a flow without one shows itself later.

        The arrays must stay as they are until the interval's end, when its steps are worked off together:
        at a few flows the cost is the number of array operations. Steps of the same flows should come with
        the same `slots`, the object, not a copy.
        """
        self._steps.append((slots, _words(records), now_ns))

    def _work_off(self) -> None:
        steps, self._steps = self._steps, []
        for _, block in groupby(steps, key=lambda step: id(step[0])):
            slots, words, times_ns = zip(*block, strict=True)
            self._fold(slots[0], np.concatenate(words), times_ns)

    def _fold(self, slots: Ints, raw: Words, times_ns: Sequence[int]) -> None:
        """Take in S steps, step by step; `raw` has the words of S * n records."""
        words, halves = _read(raw, len(times_ns))
        acked, lost, interval_ns, _, samples, rtt_sum_us = words.transpose(2, 0, 1)
        rtt_s = rtt_sum_us * 1e-6
        if samples.all():
            rtt_s /= samples
        else:
            before = self._now[_RTT_S, slots]
            for row, count in zip(rtt_s, samples, strict=True):
                np.divide(row, count, out=row, where=count > 0.0)
                np.copyto(row, before, where=count == 0.0)
                before = row
        self._rtt_samples[:, slots] += words[:, :, _RTTS].sum(axis=0).T
        self._look(slots, words[-1], halves[-1], rtt_s[-1], times_ns[-1])

        total = np.empty((len(times_ns) + 1, 4, slots.size))
        total[0] = self._total[:, slots]
        np.add(acked, lost, out=total[1:, _RESOLVED])
        total[1:, _ACKED] = acked
        step = np.diff(total[:, : _ACKED + 1], axis=0)
        total[1:, _RTT_SUM] = step[:, _ACKED] * rtt_s
        np.cumsum(total[:, _RTT_SUM], axis=0, out=total[:, _RTT_SUM])
        tick_s = interval_ns * 1e-9
        for i, now_ns in enumerate(times_ns):
            moved = step[i]
            self._echoes.tick(
                now_ns * 1e-9,
                tick_s[i],
                moved[_RESOLVED],
                moved[_ACKED],
                rtt_s[i],
                total[i + 1, :_SENT],
                slots,
            )
        total[-1, _SENT] = total[-1, _RESOLVED] + halves[-1, :, 1]
        self._total[:, slots] = total[-1]

    def close(self, now_ns: int) -> tuple[Ints, Interval]:
        """End the interval; return the flows that are sending and what they measured, shape (n,)."""
        self._work_off()
        length_s = (now_ns - self._closed_ns) * 1e-9
        self._closed_ns = now_ns
        self._echoes.close(self._total[_SENT], length_s)
        samples, rtt_sum_us = self._rtt_samples
        np.divide(rtt_sum_us * 1e-6, samples, out=self._now[_RTT_S], where=samples > 0.0)
        self._rtt_samples[:] = 0.0
        moved = self._total - self._before
        self._before[:] = self._total

        sending = self._member & ((self._now[_IN_FLIGHT] > 0.0) | (moved[_RESOLVED] > NOTHING))
        self._member &= sending | (self._heard_ns > now_ns - PAUSE_NS)
        slots = np.flatnonzero(sending)
        moved, now = moved[:, slots], self._now[:, slots]
        echo, previous_echo = self._echoes.echoes_of(slots)
        return slots, Interval(
            index=self._echoes.last_index,
            end_s=now_ns * 1e-9,
            length_s=length_s,
            active=sending[slots],
            sent_pkts=moved[_SENT],
            acked_pkts=moved[_ACKED],
            lost_pkts=moved[_RESOLVED] - moved[_ACKED],
            rtt_s=now[_RTT_S],
            rtt_min_s=now[_RTT_MIN_S],
            window_pkts=now[_WINDOW],
            pacing_pps=now[_PACING_PPS],
            in_flight_pkts=now[_IN_FLIGHT],
            echo=echo,
            previous_echo=previous_echo,
        )

    def _look(self, slots: Ints, words: Floats, halves: Floats, rtt_s: Floats, now_ns: int) -> None:
        """Keep what the flows show at the end of a step; arrays of shape (n,) or (n, fields)."""
        self._heard_ns[slots] = now_ns
        now = self._now[:, slots]
        now[_WINDOW], now[_IN_FLIGHT], kernel_us, mss = halves.T
        pacing_Bps = words[:, 3]
        now[_PACING_PPS] = np.where(pacing_Bps < _UNPACED, pacing_Bps / np.maximum(mss, 1.0), np.inf)
        now[_RTT_S] = rtt_s
        # The kernel forgets its minimum after minutes, and the flow's life does not.
        known = (kernel_us > 0.0) & (kernel_us < _NO_RTT)
        np.minimum(now[_RTT_MIN_S], kernel_us * 1e-6, out=now[_RTT_MIN_S], where=known)
        self._now[:, slots] = now


def _words(records: RecordArray) -> Words:
    return np.ascontiguousarray(records).view(np.uint64)


def _read(raw: Words, steps: int) -> tuple[Floats, Floats]:
    """The fields of `_WORDS` and `_HALVES` of the records of S steps, shape (S, n, fields)."""
    shape = (steps, len(raw) * 8 // (protocol.RECORD_DTYPE.itemsize * steps), -1)
    words, halves = raw.reshape(shape), raw.view(np.uint32).reshape(shape)
    return words[:, :, _WORDS].astype(np.float64), halves[:, :, _HALVES].astype(np.float64)
