# SPDX-License-Identifier: Apache-2.0
"""From the kernel's step records to the intervals that a policy sees, for all flows of one arm.

The intervals of all flows end together. The kernel counts packets where the simulator's fluid flows, and
that apart a policy meets here what it met in training: `Interval` and `Echo`, of the same meaning.

Sent is not among the kernel's counters, but follows from them: whatever left was delivered, was lost, or is
in flight, retransmissions counted as packets of their own.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.policies.arrays import Bools, Floats, Ints
from ltp_switcher.policies.measurements import NOTHING, EchoTracker, Interval

LONGEST_RTT_S: Final = 10.0
"""What comes back later than this makes no echo."""
PAUSE_NS: Final = 1_000_000_000
"""A flow that neither has data in flight nor hears of any for so long has stopped, and begins anew."""
_NO_RTT: Final = 2**32 - 1
_UNPACED: Final = (2**32 - 1, 2**64 - 1)
# Rows of the arrays below. What grows over a flow's life, in packets; the RTT's sum is weighted by them.
_RESOLVED, _ACKED, _RTT_SUM, _SENT = range(4)
# What a flow shows now.
_WINDOW, _PACING_PPS, _IN_FLIGHT, _RTT_S, _RTT_MIN_S = range(5)


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
        """Of the interval under way: sum of the RTTs in s, number."""
        self._now: Floats = np.zeros((5, capacity))
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
        self._now[_RTT_S, slots] = records["srtt_us"] * 1e-6
        self._now[_RTT_MIN_S, slots] = np.inf
        self._look(slots, records, now_ns)
        self._echoes.begin(slots, total[_SENT])

    def leave(self, slots: Ints) -> None:
        """Watch these no more, if they were watched."""
        self._member[slots] = False

    def observe(self, slots: Ints, records: RecordArray, now_ns: int) -> None:
        """Take in a step's records of flows that are watched; a flow without one shows itself later."""
        acked = records["total_delivered"].astype(np.float64)
        resolved = acked + records["total_lost"]
        samples = records["rtt_samples"].astype(np.float64)
        rtt_sum_s = records["rtt_stat"]["sum"] * 1e-6
        self._rtt_samples[:, slots] += (rtt_sum_s, samples)
        rtt_s = self._now[_RTT_S, slots]
        np.divide(rtt_sum_s, samples, out=rtt_s, where=samples > 0.0)
        self._look(slots, records, now_ns)

        step, rtts, tick_s = np.zeros((2, self.capacity)), np.zeros(self.capacity), np.zeros(self.capacity)
        step[:, slots] = (resolved, acked) - self._total[: _ACKED + 1, slots]
        rtts[slots] = rtt_s
        tick_s[slots] = records["interval_ns"] * 1e-9
        self._total[_RESOLVED, slots] = resolved
        self._total[_ACKED, slots] = acked
        self._total[_RTT_SUM] += step[1] * rtts
        self._total[_SENT, slots] = resolved + records["in_flight"]
        self._echoes.tick(now_ns * 1e-9, tick_s, step[0], step[1], rtts, self._total[:_SENT])

    def close(self, now_ns: int) -> tuple[Ints, Interval]:
        """End the interval; return the flows that are sending and what they measured, shape (n,)."""
        length_s = (now_ns - self._closed_ns) * 1e-9
        self._closed_ns = now_ns
        self._echoes.close(self._total[_SENT], length_s)
        rtt_sum_s, samples = self._rtt_samples
        np.divide(rtt_sum_s, samples, out=self._now[_RTT_S], where=samples > 0.0)
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

    def _look(self, slots: Ints, records: RecordArray, now_ns: int) -> None:
        """Keep what the flows show at the end of the step."""
        self._heard_ns[slots] = now_ns
        now = self._now
        now[_WINDOW, slots] = records["snd_cwnd"]
        pacing_Bps = records["pacing_rate"]
        pacing_pps = pacing_Bps / np.maximum(records["mss"], 1)
        now[_PACING_PPS, slots] = np.where(np.isin(pacing_Bps, _UNPACED), np.inf, pacing_pps)
        now[_IN_FLIGHT, slots] = records["in_flight"]
        # The kernel's own minimum knows what was before; it forgets after minutes, and the step's does not.
        kernel_us, step_us = records["min_rtt_us"], records["rtt_stat"]["min"]
        known = (kernel_us > 0) & (kernel_us < _NO_RTT)
        least_s = np.where(known, kernel_us * 1e-6, np.inf)
        least_s = np.minimum(least_s, np.where(records["rtt_samples"] > 0, step_us * 1e-6, np.inf))
        now[_RTT_MIN_S, slots] = np.minimum(now[_RTT_MIN_S, slots], least_s)
