# SPDX-License-Identifier: Apache-2.0
"""Turns the kernel's step records into the intervals that a policy sees, for all flows of one arm.

An interval is the time between two decisions about a flow. The flows of an arm are dealt to phases, and the
intervals of a phase's flows end together. A control is a decision on its way to the kernel; it carries the
number of the interval that it begins. The kernel counts the packets sent under each control, and reports
their fate as an echo. `Interval` and `Echo` mean the same as in training, but the kernel counts whole packets
and the simulator a fluid.

The kernel does not count sent packets, but their number follows from other counters: a sent packet was
delivered, was lost, or is in flight. A retransmission counts as a packet of its own.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Ints, Slots
from ltp_switcher.daemon.datapath import RecordArray, protocol
from ltp_switcher.daemon.datapath.columns import Columns
from ltp_switcher.daemon.datapath.performance import known_rtt, mean_or
from ltp_switcher.daemon.steer.phases import PHASES_MAX, Deal
from ltp_switcher.policies.runtime.measurements import NOTHING, Echo, Interval
from ltp_switcher.slots import SlotArrays, column

PAUSE_S: Final = 1.0
"""Time without records, in seconds, after which a flow without data in flight counts as stopped. Such a flow
begins anew when it sends again.
"""
_ECHOES: Final = protocol.ECHOES_MAX
# Columns of `_seen`. The first two add up over an interval's records; in all others, the last record counts.
# Fields of 64 bits come before fields of 32 bits, as `Columns` demands, and the echoes come last.
_SUMMED: Final = 2
_RTT_SAMPLES, _RTT_SUM_S, _DELIVERED, _LOST, _PACING_BPS = range(5)
_WINDOW, _IN_FLIGHT, _MIN_RTT_US, _FLOOR_US, _MSS, _TURN, _ECHO = range(5, 12)
_WIDTH: Final = _ECHO + 6 * _ECHOES
_ADDS_UP: Final = np.array([[1.0] * _SUMMED + [0.0] * (_WIDTH - _SUMMED)])
_UNITS: Final = np.ones((_WIDTH, 1))
"""Factors that turn the kernel's numbers into the units of an interval, by field."""
_UNITS[_RTT_SUM_S] = 1e-6
_UNITS[_ECHO:, 0] = _ECHOES * [1.0, 1.0, 1.0, 1e-6, 1e-6, 1e-6]
_ROW: Final = np.dtype(f"V{8 * _WIDTH}")


_FIELDS: Final = Columns(
    "rtt_samples", "rtt_stat.sum", "total_delivered", "total_lost", "pacing_rate",
    "snd_cwnd", "in_flight", "min_rtt_us", "rtt_floor_us", "mss", "turn_pkts",
    *(
        f"echo.{at}.{name}"
        for at in range(_ECHOES)
        for name in ("number", "delivered", "lost", "sending_us", "acking_us", "rtt_us_min")
    ),
)  # fmt: skip


class Monitor(SlotArrays):
    """The measurements of an arm's flows by slot. A flow is watched from `begin` to `leave`. Row i of an
    array of records belongs to `slots[i]`.
    """

    cookie = column(np.uint64)
    _phase = column(np.int64, initial=-1)
    """The phase in which the flow's intervals end; -1 if the flow is not watched."""
    _seen = column(np.float64, _WIDTH)
    _heard_s = column(np.float64)
    _first = column(np.float64)
    """Number of the flow's first whole interval under the arm. A flow often comes in the middle of an
    interval, and the rest of that interval does not count.
    """
    _ended_pkts = column(np.float64, 3)
    """`_totals` at the end of the last interval."""
    _counted_s = column(np.float64)
    """Time in seconds of the record from which `_ended_pkts` was taken."""
    _rates_pps = column(np.float64, 3)
    """Growth of the totals per second until `_counted_s`. It serves flows whose reports are rarer than their
    intervals.
    """
    _rtt_s = column(np.float64)
    _rtt_min_s = column(np.float64, initial=np.inf)

    def __init__(self) -> None:
        super().__init__()
        self.slots: Slots = np.zeros(0, np.int64)
        """The flows that are watched, shape (n,), ascending."""
        self.deal = Deal()
        """The phases of the flows."""
        self.interval = np.zeros(PHASES_MAX, np.int64)
        """Number of the interval under way, by phase. The control that begins an interval carries this
        number.
        """
        self.fresh: tuple[Ints, Floats] = (self.slots, np.zeros(0))
        """Slots of the flows whose first whole interval begins now, and their windows in packets. `close`
        sets them.
        """
        self._of_phase: dict[int, Slots] = {}
        """The slots of each phase, ascending. After a change of the flows, a phase is left out until its
        slots are needed.
        """
        self._closed_ns = [0] * PHASES_MAX

    def watches(self, slots: Slots) -> Bools:
        """True for slots whose flows are watched, shape (n,)."""
        watched: Bools = self._phase[slots] >= 0
        return watched

    def begin(
        self,
        slots: Slots,
        records: RecordArray,
        now_ns: int,
        *,
        phases: int = 1,
        paths: Sequence[Hashable] | None = None,
    ) -> Ints:
        """Watch flows from these records on. Counts from before are left out.

        If other flows are watched already, new flows wait for the next interval of their phase. Their packets
        in a part of the present interval must not be divided by the length of the whole.

        Args:
            slots: slots of the new flows, shape (n,).
            records: records of these flows, `RECORD_DTYPE`, shape (n,).
            now_ns: the present time, CLOCK_MONOTONIC in ns.
            phases: number of phases to which the flows are dealt.
            paths: path of each flow; the flows of a path share a phase. With None each flow has its own path.

        Returns:
            The phases of the flows, shape (n,).
        """
        others = self.slots.size > 0
        members = slots.tolist()
        dealt = self.deal.deal(members, members if paths is None else paths, phases)
        if not others:
            self._closed_ns = [now_ns] * PHASES_MAX
        self.reset(slots)
        self.cookie[slots] = records["cookie"]
        seen = _FIELDS.read(records)
        seen[:, :_SUMMED] = 0.0
        self._seen[slots] = seen
        self._heard_s[slots] = self._counted_s[slots] = now_ns * 1e-9
        # The first phase in use begins an interval with its flows. In any other phase an interval is already
        # under way.
        self._first[slots] = self.interval[dealt] + (others | (dealt != dealt.min(initial=PHASES_MAX)))
        self._ended_pkts[slots] = _totals(seen.T).T
        self._rtt_s[slots] = records["srtt_us"] * 1e-6
        self._watch(slots, dealt)
        return dealt

    def leave(self, slots: Slots) -> None:
        """Stop watching these flows. Flows that are not watched are left alone."""
        watched = slots[self._phase[slots] >= 0]
        if watched.size:
            self._forget(watched)

    def observe(self, slots: Slots, records: RecordArray, now_ns: int) -> None:
        """Take in a step's records of watched flows. A flow that is left out has no record in this step.

        The records are only added up here; `close` computes the rest at the interval's end. With few flows,
        the cost depends on the number of array operations.
        """
        seen = _FIELDS.read(records) + _ADDS_UP * self._seen.take(slots, axis=0)
        # Each row is opaque bytes here: numpy scatters rows of numbers at three times the cost.
        self._seen.view(_ROW).reshape(-1)[slots] = seen.view(_ROW).reshape(-1)
        self._heard_s[slots] = now_ns * 1e-9

    def close(self, now_ns: int, phase: int = 0, rtt_quarters: int = 0) -> tuple[Ints, Interval]:
        """End a phase's interval. Return the slots of the flows that send, shape (n,), and their measurements
        in this interval.

        Flows that came during the interval are left out, and are in `fresh` afterwards. Flows that stopped
        (`PAUSE_S`) are no longer watched. `rtt_quarters` is the least time between the module's reports of a
        flow, in quarters of its RTT.
        """
        length_s = (now_ns - self._closed_ns[phase]) * 1e-9
        self._closed_ns[phase] = now_ns
        number = int(self.interval[phase])
        slots = self._slots_of(phase)
        seen = self._seen.take(slots, axis=0).T * _UNITS
        if slots is self.slots:
            self._seen[:, :_SUMMED].fill(0.0)
        else:
            self._seen[slots, :_SUMMED] = 0.0
        in_flight = seen[_IN_FLIGHT]
        totals = _totals(seen)
        counts = totals - self._ended_pkts.take(slots, axis=0).T
        self._ended_pkts[slots] = totals.T
        mean_rtt_s = self._mean_rtts(slots, seen)
        if rtt_quarters:
            self._spread(slots, counts, now_ns * 1e-9, length_s, mean_rtt_s * rtt_quarters / 4)
        resolved, acked, sent = counts

        sending = np.maximum(in_flight, resolved) > NOTHING
        previous_echo, echo = self._echoes(slots, seen, number)
        interval = Interval(
            index=number,
            end_s=now_ns * 1e-9,
            length_s=length_s,
            active=sending,
            sent_pkts=sent,
            acked_pkts=acked,
            lost_pkts=resolved - acked,
            rtt_s=mean_rtt_s,
            rtt_min_s=self._least_rtts(slots, seen),
            window_pkts=seen[_WINDOW],
            pacing_pps=seen[_PACING_BPS] / np.maximum(seen[_MSS], 1.0),
            in_flight_pkts=in_flight,
            turn_pkts=seen[_TURN],
            echo=echo,
            previous_echo=previous_echo,
        )
        whole = self._first[slots] <= number
        self.interval[phase] += 1
        (rows,) = (sending & whole).nonzero()
        self.fresh = (slots[~whole], seen[_WINDOW, ~whole])
        if rows.size == slots.size:
            return slots, interval
        stopped = ~sending & (self._heard_s[slots] <= now_ns * 1e-9 - PAUSE_S)
        if stopped.any():
            self._forget(slots[stopped])
        return slots[rows], interval.rows(rows)

    def _spread(self, slots: Slots, counts: Floats, now_s: float, length_s: float, apart_s: Floats) -> None:
        """Spread a flow's packets over the intervals between two of its records.

        Otherwise an interval without a record would seem to be one without an ACK, and the next interval
        would have the packets of both. Until a record comes, the rates up to the last record count.

        Args:
            slots: slots of the flows, shape (n,).
            counts: the rows of `_totals` for the interval that ends, shape (3, n). They are changed in place.
            now_s: end of the interval.
            length_s: length of the interval.
            apart_s: the least time between two records of each flow, shape (n,).
        """
        heard_s, since_s = self._heard_s[slots], self._counted_s[slots]
        told = heard_s > since_s
        self._counted_s[slots] = heard_s
        seldom = apart_s > length_s
        at = (told & seldom).nonzero()[0]
        if at.size:
            rates_pps = counts[:, at] / (heard_s - since_s)[at]
            self._rates_pps[slots[at]] = rates_pps.T
            counts[:, at] = rates_pps * length_s
        # A flow whose record is overdue had no ACKs, so its packets are not spread any further.
        waits = (~told & seldom & (now_s - heard_s < apart_s + length_s)).nonzero()[0]
        if waits.size:
            counts[:, waits] = self._rates_pps[slots[waits]].T * length_s
        self._rates_pps[slots[~seldom]] = 0.0

    def _forget(self, slots: Slots) -> None:
        self.deal.leave(slots.tolist())
        self._watch(slots, -1)

    def _watch(self, slots: Slots, phases: Ints | int) -> None:
        self._phase[slots] = phases
        self.slots = np.flatnonzero(self._phase >= 0)
        self._of_phase = {}

    def _slots_of(self, phase: int) -> Slots:
        if phase not in self._of_phase:
            mine = np.flatnonzero(self._phase == phase)
            self._of_phase[phase] = self.slots if mine.size == self.slots.size else mine
        return self._of_phase[phase]

    def _echoes(self, slots: Slots, seen: Floats, interval: int) -> tuple[Echo, Echo]:
        """Return the last two echoes of each flow, the earlier one first. A missing echo has the index -1,
        and NaN for its measurements. `interval` is the number of the interval that ends.
        """
        number, delivered, lost, sending_s, acking_s, rtt_s = (
            seen[_ECHO:].reshape(_ECHOES, 6, -1).swapaxes(0, 1)
        )
        resolved = delivered + lost
        # Controls of an earlier daemon may have had any number.
        known = (acking_s > 0.0) & (number > self._first[slots]) & (number <= interval)
        ratios = np.full((3, *known.shape), np.nan)
        np.divide((resolved, delivered, lost), (sending_s, acking_s, resolved), out=ratios, where=known)
        sending_pps, delivered_pps, loss = ratios
        index, rtt_s = np.where(known, number, -1.0), np.where(known, rtt_s, np.nan)
        before, last = (Echo(*of) for of in zip(index, sending_pps, delivered_pps, rtt_s, loss, strict=True))
        return before, last

    def _mean_rtts(self, slots: Slots, seen: Floats) -> Floats:
        """Return the mean RTT of the interval's samples in seconds, shape (n,). A flow without a sample keeps
        its last known mean.
        """
        rtt_s = mean_or(seen[_RTT_SUM_S], seen[_RTT_SAMPLES], self._rtt_s[slots])
        self._rtt_s[slots] = rtt_s
        return rtt_s

    def _least_rtts(self, slots: Slots, seen: Floats) -> Floats:
        """Return the least RTT that each flow had under the arm, in seconds, shape (n,); infinite if none is
        known.

        The module's floor looks back over seconds. Until there is a floor, the kernel's minimum counts, which
        looks back over minutes. If the path's RTT has risen meanwhile, this minimum makes the rise look like
        a queue.
        """
        floor_us = seen[_FLOOR_US]
        kernel_us = np.where(floor_us > 0, floor_us, seen[_MIN_RTT_US])
        rtt_min_s: Floats = self._rtt_min_s[slots]
        np.minimum(rtt_min_s, kernel_us * 1e-6, out=rtt_min_s, where=known_rtt(kernel_us))
        self._rtt_min_s[slots] = rtt_min_s
        return rtt_min_s


def _totals(seen: Floats) -> Floats:
    """Return three counts over each flow's life, shape (3, n): packets acknowledged or lost, packets
    acknowledged, and packets sent.
    """
    resolved = seen[_DELIVERED] + seen[_LOST]
    return np.array((resolved, seen[_DELIVERED], resolved + seen[_IN_FLIGHT]))
