# SPDX-License-Identifier: Apache-2.0
"""Pulses distinguish a queue of LTP's own from a path that has become longer or slower.

The policy compares the RTT with the least RTT, and the throughput with the largest throughput. After a change
of the path these two references stay wrong. On the wire of a slower link a packet takes longer, and after a
satellite's handover the way is longer. The policy takes both for a queue. If the queue seems to be two to
four milliseconds long, the policy gives up half of the link. And after a fall of the rate, the policy still
aims at the faster link's throughput, so it keeps the slower link's buffer full.

An RTT alone does not tell a queue from a longer way. So in a pulse the window changes by a quarter for two
round trips, and the throughput and the RTT show who shares the path:

- The throughput follows the window. Then the flow has no queue, or a small part of it, and the least RTT is
  measured anew.
- The RTT follows the window. Then the flow is alone, and its queue stands. If this queue is long, the present
  throughput becomes the largest throughput.
- Each follows a little. Then another flow shares the queue, and the policy was trained for this case.

A pulse for a long queue makes the window smaller, so it loses no packet. A pulse for a short queue makes the
window larger, so it leaves no link idle. The paper has no pulses (LTP, Section 4).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Float32s, Floats, Slots
from ltp_switcher.policies.ltp.restarts import Restarts
from ltp_switcher.policies.ltp.signals import LtpSignals, loses_in_numbers
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.slots import SlotArrays, column

CHANGE: Final = 1.25
"""Ratio by which a pulse changes the window: the larger one of the windows in the pulse and before it, over
the smaller one.
"""
CHANGE_LEAST_PKTS: Final = 1.0
FOLLOWS: Final = 0.5
"""A measure (throughput or RTT) follows the window if it changes by at least this share of the window's
change, in logarithms.

The shares of throughput and RTT add up to one, except for noise and changes of the path.
"""
STAYS: Final = 0.35
"""A measure (throughput or RTT) stays if it changes by at most this share of the window's change, in
logarithms.
"""
DOUBT_S: Final = 0.001
"""RTT minus the least RTT, in seconds, at which the policy begins to give up some of its window."""
LOW_SHARE: Final = 0.85
"""Share of the largest throughput below which other flows seem to be on the path."""
LONG_SHARE: Final = 0.5
"""Ratio of the queuing delay to the least RTT above which a queue is long. A pulse, which changes the window
by a quarter, does not empty such a queue.
"""
WAIT_RTTS: Final = (10.0, 40.0, 160.0)
"""Three numbers of round trips between two pulses: the first wait, the longest wait if the throughput is low,
and the longest wait otherwise.

The wait doubles after a pulse that finds no change of the path. If the last pulse got no answer, the rate is
too unsteady for frequent pulses, so the last number applies.
"""
ANSWERS: Final = 0.5
"""A pulse is answered if the product of throughput and RTT changed nearly as the window did. The ratio of the
logarithms of both changes may differ from 1 by this much.
"""
WEIGHT: Final = 0.25
"""Weight of a new echo in the running means of throughput and RTT before a pulse."""
ECHOES_LEAST: Final = 2.0
"""Least number of echoes, each the report of one interval, by which a pulse is judged. A round trip with more
intervals than this needs the echoes of all of them.
"""
LATE_ROUNDS: Final = 4.0
"""Number of round trips after which a pulse ends without an answer."""


class Pulses(SlotArrays):
    """The pulses of flows, and the least RTTs that the pulses show. An index is the number of an interval."""

    _mean = column(np.float64, 2, initial=np.nan)
    """Smoothed throughput and RTT of the echoes since the last pulse."""
    _heard_index = column(np.float64, initial=-1.0)
    _least_s = column(np.float64)
    """Least RTT in seconds since a pulse showed that there was no queue; 0 before such a pulse."""
    _round = column(np.float64, initial=1.0)
    """Number of intervals of a round trip."""
    _wait_rtts = column(np.float64, initial=WAIT_RTTS[0])
    _unanswered = column(np.bool_)
    """Whether the last pulse got no answer."""
    _since_index = column(np.float64, initial=-1.0)
    """Index of the last pulse's end, or of the flow's first interval; -1 before that."""
    _shows_index = column(np.float64)
    """Index of the first interval whose packets show the pulse; 0 while no pulse runs."""
    _before = column(np.float64, 3)
    """Throughput, RTT and window before the pulse."""
    _within = column(np.float64, 3)
    """Sums over the echoes that show the pulse: throughput, RTT, and their number."""
    _change = column(np.float64)
    """Window in the pulse over the window before it."""

    def hear(self, slots: Slots, interval: Interval) -> Floats:
        """Process the latest echoes. An echo that was processed before is skipped.

        Returns:
            The path's throughput in packets a second, shape (n,). It is NaN unless a pulse has just shown it.
        """
        echo = interval.echo
        fresh = (echo.index > self._heard_index[slots]) & ~np.isnan(echo.delivered_pps)
        self._heard_index[slots] = np.fmax(self._heard_index[slots], echo.index)
        seen = np.stack((echo.delivered_pps, echo.rtt_s), axis=1)
        self._least_s[slots[fresh]] = np.minimum(self._least_s[slots[fresh]], echo.rtt_s[fresh])
        within = self._shows_index[slots] > 0
        quiet = fresh & ~within
        mean = self._mean[slots[quiet]]
        self._mean[slots[quiet]] = np.where(np.isnan(mean), seen[quiet], mean + WEIGHT * (seen[quiet] - mean))
        path_pps = np.full(slots.shape, np.nan)
        shows = np.flatnonzero(fresh & within & (echo.index >= self._shows_index[slots]))
        if shows.size:
            at = slots[shows]
            self._within[at] += np.pad(seen[shows], ((0, 0), (0, 1)), constant_values=1.0)
            enough = self._within[at, 2] >= np.maximum(self._round[at], ECHOES_LEAST)
            path_pps[shows[enough]] = self._answers(at[enough], interval.index)
        return path_pps

    def least_s(self, slots: Slots, interval: Interval) -> Floats:
        """Return the least RTT of each flow in seconds, by its measurements and its pulses, shape (n,)."""
        return np.maximum(interval.rtt_min_s, self._least_s[slots])

    def step(self, slots: Slots, interval: Interval, may: Bools, low: Bools, window_pkts: Floats) -> Floats:
        """End the pulses that got no answer, and begin new pulses.

        Args:
            slots: shape (n,).
            interval: the latest interval, with the least RTTs of `least_s`.
            may: True where a pulse may run: the flow fills its window, and no other LTP flow shares its path,
                shape (n,).
            low: True where the throughput is low beside the largest one, shape (n,).
            window_pkts: the windows that the policy wants, shape (n,).

        Returns:
            The windows in packets, shape (n,).
        """
        index = interval.index
        self._round[slots] = round_trip = np.maximum(1.0, np.ceil(interval.rtt_s / interval.length_s))
        since_index = self._since_index[slots]
        self._since_index[slots] = since_index = np.where(since_index < 0, index, since_index)
        within = self._shows_index[slots] > 0
        if within.any():
            stops = within & (~may | loses_in_numbers(interval))
            stops |= within & (index > self._shows_index[slots] + LATE_ROUNDS * round_trip)
            back_pkts = np.minimum(self._before[slots, 2], window_pkts)
            window_pkts = np.where(stops, back_pkts, window_pkts)
            self._unanswered[slots[stops]] = True
            self._end(slots[stops], index, found=False)
            within &= ~stops
        queue_s = self._mean[slots, 1] - interval.rtt_min_s
        often = low & ~self._unanswered[slots]
        wait_rtts = np.minimum(self._wait_rtts[slots], np.where(often, WAIT_RTTS[1], WAIT_RTTS[2]))
        due = (index - since_index >= wait_rtts * round_trip) & ((queue_s >= DOUBT_S) | low)
        begins = ~within & may & due & ~np.isnan(queue_s)
        if begins.any():
            queue_share = queue_s[begins] / interval.rtt_min_s[begins]
            self._begin(slots[begins], index, window_pkts[begins], queue_share)
            within |= begins
        # The first round trip changes the window, and the second one shows the change.
        sends = index < self._shows_index[slots] + np.maximum(round_trip, ECHOES_LEAST) - 1.0
        pulse_pkts = self._before[slots, 2] * np.where(sends, self._change[slots], 1.0)
        return np.where(within, pulse_pkts, window_pkts)

    def _begin(self, slots: Slots, index: int, window_pkts: Floats, queue_share: Floats) -> None:
        self._before[slots] = np.concatenate((self._mean[slots], window_pkts[:, None]), axis=1)
        self._within[slots] = 0.0
        larger = np.maximum(CHANGE, 1.0 + CHANGE_LEAST_PKTS / window_pkts)
        self._change[slots] = np.where(queue_share > LONG_SHARE, 1.0 / CHANGE, larger)
        self._shows_index[slots] = index + 1.0 + self._round[slots]

    def _answers(self, slots: Slots, index: int) -> Floats:
        """End pulses by the changes that they showed. Return the paths' throughput in packets a second, shape
        (n,), NaN where it is unknown.
        """
        shown = self._within[slots, :2] / self._within[slots, 2:]
        before, change = self._before[slots, :2], self._change[slots]
        follow = np.log(shown / before) / np.log(change)[:, None]
        throughput, rtt = ((follow >= FOLLOWS) & (np.abs(follow[:, ::-1]) <= STAYS)).T
        self._unanswered[slots] = np.abs(follow.sum(axis=1) - 1.0) > ANSWERS
        least_s = np.minimum(shown, before)[:, 1]
        self._least_s[slots[throughput]] = least_s[throughput]
        self._end(slots, index, found=throughput)
        return np.where(rtt & (change < 1.0), shown[:, 0], np.nan)

    def _end(self, slots: Slots, index: int, *, found: Bools | bool) -> None:
        longer = np.minimum(2.0 * self._wait_rtts[slots], WAIT_RTTS[2])
        self._wait_rtts[slots] = np.where(found, WAIT_RTTS[0], longer)
        self._since_index[slots] = index
        self._shows_index[slots] = 0.0
        self._mean[slots] = np.nan


class PulsedSignals(LtpSignals):
    """LTP's signals and action in service: with pulses, and with slow start again. Training has neither."""

    def __init__(self) -> None:
        super().__init__()
        self._pulses = self.part(Pulses())
        self._restarts = self.part(Restarts())

    def observe(self, slots: Slots, interval: Interval) -> Float32s:
        """See `Signals`."""
        self._largest.lower(slots, self._pulses.hear(slots, interval))
        return super().observe(slots, self._known(slots, interval))

    def control(self, slots: Slots, interval: Interval, actions: Float32s) -> Floats:
        """See `Signals`."""
        interval = self._known(slots, interval)
        before_pkts = self._window_pkts[slots]
        window_pkts = super().control(slots, interval, actions)[:, 0]
        may = ~self._starting[slots] & ~interval.leaves_unused(window_pkts) & ~self._largest.shared(slots)
        starts = self._restarts.step(slots, interval, may, window_pkts / before_pkts)
        self._starting[slots[starts]] = True
        may &= ~starts
        low = interval.echo.delivered_pps < LOW_SHARE * self._largest.pps(slots)
        window_pkts = self._pulses.step(slots, interval, may, low, window_pkts)
        self._window_pkts[slots] = window_pkts
        return window_pkts[:, None]

    def _known(self, slots: Slots, interval: Interval) -> Interval:
        return replace(interval, rtt_min_s=self._pulses.least_s(slots, interval))
