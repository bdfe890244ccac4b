# SPDX-License-Identifier: Apache-2.0
"""LTP's observations and its action: five normalised signals of an echo (LTP, Sections 4 and 5), and the
window (LTP, Eq. 8).

The signals describe the packets that were *sent* in an interval, so they line up with the events at the
bottleneck. None of them shows a rate or a base RTT. So a flow sees the same signals on two links that call
for the same action.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Float32s, Floats, Indices, Slots
from ltp_switcher.policies.runtime.arm import Law
from ltp_switcher.policies.runtime.measurements import Echo, Interval
from ltp_switcher.policies.runtime.slow_start import queue_threshold_s
from ltp_switcher.slots import SlotArrays, column, put_first

INTERVAL_S: Final = 0.030
"""Control interval in seconds (LTP, Table 4)."""
ALPHA: Final = 0.025
"""α, the largest relative change of the window in an interval (LTP, Eq. 8). Value and rule are
from Astraea.
"""
SWIFT_RTT_S: Final = 0.1
"""RTT in seconds beyond which α shrinks, so that the window changes by at most 9 % in a round trip. The echo
of an action comes one RTT later, and the more actions are taken meanwhile, the wider the window swings.
"""
NEW_FLOW_PKTS: Final = 64.0
"""Largest first window, in packets, with which a flow begins in slow start. A new flow has 10 packets (RFC
6928). By its first interval it has several times as many, because the kernel has already begun. If a queue
stands already, slow start ends at once.
"""
MANY_SHARE: Final = 0.05
"""Share of lost packets in an interval at which slow start ends. A pulse, which changes the window for two
round trips to see whose queue it is, ends too. Random loss is well below this share.
"""
MANY_PKTS: Final = 3.0
"""Number of lost packets in an interval below which the share of lost packets is ignored."""
LOSS_LIMIT: Final = 0.02
"""Share of lost packets over about half a second above which the window shrinks, whatever the policy says.
The signals show only changes of the loss (ΔL), so the policy would never notice a constant loss.
"""
LOSS_MEMORY: Final = 1 / 16
"""Weight of one interval in the averaged loss that `LOSS_LIMIT` bounds."""
SLOW_START_GROWTH: Final = 1.5
"""Growth factor of the window in a round trip of slow start. The flow hears of a queue an RTT and half an
interval late. If the window doubled, it would meanwhile fill another buffer of one BDP and lose hundreds of
packets.
"""
CROWDED_INTERVALS: Final = 10
"""Number of intervals in which rates still settle after another flow has joined."""
RECENT: Final = 4
"""Number of intervals, up to the end of slow start, that tell the rate that the path carries."""
SMOOTHING: Final = 0.25
"""Weight of a new echo in the smoothed throughput, whose maximum is kept. Single echoes are too noisy for a
maximum.
"""


@dataclass(frozen=True)
class PathSignals:
    """The five signals of n flows, shape (n,) each (LTP, Section 4, observation step)."""

    rtt_change_s: Floats
    """Change of the RTT between the last two echoes (ΔRTT)."""
    throughput_ratio: Floats
    """Ratio of the throughputs of the last two echoes (Δthr)."""
    kept_ratio: Floats
    """Ratio of the shares of acknowledged packets of the last two echoes (ΔL)."""
    throughput: Floats
    """Throughput over the largest throughput seen."""
    rtt_s: Floats
    """RTT minus the smallest RTT seen."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Names of the signals in the order of the observation."""
        return tuple(field.name for field in fields(cls))

    def rows(self, rows: Indices) -> PathSignals:
        """Select some of the flows."""
        return PathSignals(*(getattr(self, name)[rows] for name in self.names()))


def path_signals(last: Echo, before: Echo, rtt_min_s: Floats, throughput_max_pps: Floats) -> PathSignals:
    """Compute the signals of n flows from two echoes, whose arrays have shape (n,).

    A signal that lacks an echo is neutral: no change, the largest throughput, or no delay.
    """
    signals = [
        last.rtt_s - before.rtt_s,
        last.delivered_pps / before.delivered_pps,
        # An echo has at least one acknowledgement, so its loss is below 1.
        (1.0 - last.loss) / (1.0 - before.loss),
        np.minimum(last.delivered_pps / throughput_max_pps, 1.0),
        np.maximum(last.rtt_s - rtt_min_s, 0.0),
    ]
    # The first signal needs both echoes to be complete, so nothing is missing where it is known.
    if np.count_nonzero(np.isnan(signals[0])):
        signals = [
            np.where(np.isnan(signal), unchanged, signal)
            for signal, unchanged in zip(signals, _UNCHANGED, strict=True)
        ]
    return PathSignals(*signals)


_UNCHANGED: Final = (0.0, 1.0, 1.0, 1.0, 0.0)
"""Values that replace NaN in the fields of `PathSignals`, where an echo is missing."""


class LargestThroughput(SlotArrays):
    """The largest smoothed throughput (thr_max) of flows in numbered slots.

    Before a flow's first echo its largest throughput is 0, and its smoothed throughput NaN.
    """

    _smooth_pps = column(np.float64, initial=np.nan)
    _largest_pps = column(np.float64)
    _heard_index = column(np.float64, initial=-1.0)
    _siblings = column(np.float64, initial=1.0)
    """Number of flows that share the flow's path, the flow included."""
    _from_index = column(np.float64)
    """Number of the first interval whose echo may become the maximum."""

    def crowd(self, slots: Slots, siblings: Floats, index: int) -> None:
        """Set how many flows share each flow's path in the interval of this index, the flow included, shape
        (n,).

        If the number has grown, a flow's largest throughput is scaled down. Otherwise all flows would seem to
        have lost throughput, and would push further into the queue.
        """
        before = self._siblings[slots]
        more = siblings > before
        at = slots[more]
        self._largest_pps[at] *= before[more] / siblings[more]
        self._from_index[at] = index + CROWDED_INTERVALS
        self._siblings[slots] = siblings

    def update(self, slots: Slots, echo: Echo) -> Floats:
        """Process the latest echoes, each only once, and return the largest throughput.

        Its unit is packets a second, and its shape (n,).
        """
        fresh = echo.index > self._heard_index[slots]
        self._heard_index[slots] = np.maximum(self._heard_index[slots], echo.index)
        delivered_pps = np.where(fresh, echo.delivered_pps, np.nan)
        before_pps = self._smooth_pps[slots]
        smooth_pps = before_pps + SMOOTHING * (delivered_pps - before_pps)
        unknown = np.isnan(smooth_pps)
        if np.count_nonzero(unknown):
            smooth_pps = np.where(unknown, np.fmax(before_pps, delivered_pps), smooth_pps)
        self._smooth_pps[slots] = smooth_pps
        counts = echo.index >= self._from_index[slots]
        largest_pps: Floats = np.fmax(self._largest_pps[slots], np.where(counts, smooth_pps, np.nan))
        # Before the first maximum there is nothing else to compare with.
        largest_pps = np.where(largest_pps > 0, largest_pps, np.fmax(largest_pps, smooth_pps))
        self._largest_pps[slots] = largest_pps
        return largest_pps

    def lower(self, slots: Slots, path_pps: Floats) -> None:
        """Lower the largest throughput to the path's throughput, in packets a second, shape (n,). NaN changes
        nothing.
        """
        self._largest_pps[slots] = np.fmin(self._largest_pps[slots], path_pps)

    def pps(self, slots: Slots) -> Floats:
        """Return the largest throughput in packets a second, shape (n,)."""
        return self._largest_pps[slots]

    def shared(self, slots: Slots) -> Bools:
        """Return whether other flows of LTP share each flow's path, shape (n,)."""
        several: Bools = self._siblings[slots] > 1.0
        return several


class WindowSignals(SlotArrays):
    """The window by LTP, Eq. 8, and slow start before that. A subclass adds the observations.

    The window is kept here with its fraction of a packet. The kernel's window may be much smaller, after a
    time-out or because it was clamped. Then the window continues from 1.25 times the kernel's window.
    """

    observation_size: int
    action_size = 1
    law = Law.WINDOW
    interval_s = INTERVAL_S

    _window_pkts = column(np.float64)
    _starting = column(np.bool_)
    _acked_pkts = column(np.float64, RECENT)
    """Acknowledged packets of the last intervals of slow start, newest first."""
    _length_s = column(np.float64, RECENT)
    """Lengths of these intervals in seconds; 0 for those before the first one."""
    _excess_pkts = column(np.float64)
    """Mean number of packets that an interval loses beyond the share `LOSS_LIMIT`; negative where fewer are
    lost.
    """

    def begin(self, slots: Slots, window_pkts: Floats) -> None:
        """See `Signals`."""
        self.reset(slots)
        self._window_pkts[slots] = window_pkts
        self._starting[slots] = window_pkts <= NEW_FLOW_PKTS

    def displace(self, slots: Slots, window_pkts: Floats) -> None:
        """Set the windows of flows in packets, shape (n,), without a reset of the flows' state."""
        self._window_pkts[slots] = window_pkts

    def crowd(self, slots: Slots, siblings: Floats, index: int) -> None:
        """Set how many flows share each flow's path, the flow included, shape (n,). The base class ignores
        the number.
        """

    def observe(self, slots: Slots, interval: Interval) -> Float32s:
        """See `Signals`."""
        raise NotImplementedError

    def control(self, slots: Slots, interval: Interval, actions: Float32s) -> Floats:
        """See `Signals`."""
        window_pkts: Floats = np.minimum(self._window_pkts[slots], 1.25 * interval.window_pkts)
        action = actions[:, 0].astype(np.float64)
        action[self._loses(slots, interval)] = -1.0
        alpha = np.minimum(ALPHA, ALPHA * SWIFT_RTT_S / interval.rtt_min_s)
        step = alpha * action
        change = (1.0 + np.abs(step)) ** np.sign(step)
        starting = self._starting[slots]
        if np.count_nonzero(starting):
            ends = starting & _queue_is_met(interval)
            most_pps = self._carries(slots, interval)
            starting &= ~ends
            self._starting[slots] = starting
            round_trips = np.minimum(1.0, interval.length_s / np.maximum(interval.rtt_min_s, 1e-3))
            change = np.where(starting, SLOW_START_GROWTH**round_trips, change)
            # The window continues with the amount that the path carries without a queue. A link that falls
            # silent for a moment also raises the RTT, and hardly delivers in this interval. Where ACKs come
            # in turns, RTTs are high without a queue, and the window has to hold a turn's packets, too.
            carried_pkts = most_pps[ends] * interval.rtt_min_s[ends]
            carried_pkts += interval.turn_pkts[ends]
            window_pkts[ends] = np.minimum(window_pkts[ends], carried_pkts)
        unused = interval.leaves_unused(window_pkts)
        if np.count_nonzero(unused):
            change = np.where(unused, np.minimum(1.0, change), change)
        window_pkts = np.maximum(2.0, window_pkts * change)
        self._window_pkts[slots] = window_pkts
        return window_pkts[:, None]

    def _carries(self, slots: Slots, interval: Interval) -> Floats:
        """Return the rate that the path carries at the end of slow start, in packets a second, shape (n,).

        It is the highest rate of this interval, and of any two in a row among the last ones. An interval may
        have hardly an ACK, and held ACKs come in a burst after it.
        """
        put_first(self._acked_pkts, slots, interval.acked_pkts)
        put_first(self._length_s, slots, np.broadcast_to(interval.length_s, slots.shape))
        acked_pkts, length_s = self._acked_pkts[slots], self._length_s[slots]
        pairs_s = length_s[:, 1:] + length_s[:, :-1]
        pairs_pps = (acked_pkts[:, 1:] + acked_pkts[:, :-1]) / np.maximum(pairs_s, 1e-9)
        known = length_s[:, 1:] > 0.0
        most_pps: Floats = np.where(known, pairs_pps, 0.0).max(axis=1)
        return np.fmax(most_pps, interval.delivered_pps)

    def _loses(self, slots: Slots, interval: Interval) -> Bools:
        """Return whether each flow loses more than `LOSS_LIMIT`, both in this interval and on average, shape
        (n,).
        """
        excess_pkts = interval.lost_pkts - LOSS_LIMIT * (interval.lost_pkts + interval.acked_pkts)
        average_pkts = self._excess_pkts[slots]
        average_pkts = average_pkts + LOSS_MEMORY * (excess_pkts - average_pkts)
        self._excess_pkts[slots] = average_pkts
        # A burst of losses that is over, as at the end of slow start, is no reason to shrink further.
        loses: Bools = np.minimum(average_pkts, excess_pkts) > 0.0
        return loses


def _queue_is_met(interval: Interval) -> Bools:
    """Return whether slow start has filled the path: its packets queue, or many of them get lost."""
    return (interval.rtt_s > queue_threshold_s(interval.rtt_min_s)) | loses_in_numbers(interval)


def loses_in_numbers(interval: Interval) -> Bools:
    """Return whether an interval loses as many packets as a full buffer drops, shape (n,): at least
    `MANY_PKTS`, and the share `MANY_SHARE` of all.
    """
    resolved_pkts = interval.acked_pkts + interval.lost_pkts
    loses: Bools = interval.lost_pkts >= np.maximum(MANY_PKTS, MANY_SHARE * resolved_pkts)
    return loses


class LtpSignals(WindowSignals):
    """LTP's five signals, scaled for the network's input. The paper leaves the scaling open.

    Changes and delays range from a millisecond to a second, and small values matter most. So the network gets
    their logarithms.
    """

    observation_size = 5

    def __init__(self) -> None:
        super().__init__()
        self._largest = self.part(LargestThroughput())

    def crowd(self, slots: Slots, siblings: Floats, index: int) -> None:
        """See `WindowSignals`."""
        self._largest.crowd(slots, siblings, index)

    def observe(self, slots: Slots, interval: Interval) -> Float32s:
        """See `Signals`."""
        largest = self._largest.update(slots, interval.echo)
        seen = path_signals(interval.echo, interval.previous_echo, interval.rtt_min_s, largest)
        observation = np.array(
            (
                np.arcsinh(seen.rtt_change_s / 0.002),
                np.log(seen.throughput_ratio),
                seen.kept_ratio - 1.0,
                seen.throughput - 0.5,
                np.log1p(seen.rtt_s / 0.005),
            )
        )
        scaled: Floats = observation.clip(-_LIMITS, _LIMITS) * _SCALES
        return scaled.T.astype(np.float32, order="C")


_LIMITS: Final = np.array(((np.inf,), (np.log(4.0),), (0.3,), (np.inf,), (np.inf,)))
_SCALES: Final = np.array(((1.0,), (4.0,), (10.0,), (2.0,), (1.0,)))
