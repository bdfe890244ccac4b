# SPDX-License-Identifier: Apache-2.0
"""What LTP sees and does: five normalised signals of an echo (§4, §5), and the window they lead to (Eq. 8).

The signals tell of the packets that were *sent* in an interval, so they line up with what happened at the
bottleneck. None of them holds a rate or a base RTT of its own: a flow on another link sees alike what it
should treat alike.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np

from ltp_switcher.policies.arm import Law
from ltp_switcher.policies.arrays import Bools, Float32s, Floats, Indices, Ints
from ltp_switcher.policies.measurements import Echo, Interval

INTERVAL_S: Final = 0.030
"""Table 4."""
ALPHA: Final = 0.025
"""Largest relative change of the window in an interval (Eq. 8); the value of Astraea, whose rule it is."""
SWIFT_RTT_S: Final = 0.1
"""Beyond it α shrinks with the RTT, so that the window changes by no more than 9 % in a round trip. An action
is heard of an RTT later; the more of them in between, the wider a window swings about what fits."""
NEW_FLOW_PKTS: Final = 64.0
"""A flow that comes with no more than this starts slowly first. A new one has 10 (RFC 6928), and several
times that by its first interval: the kernel has begun without us. A queue that is there ends it at once."""
QUEUE_S: Final = (0.004, 0.016)
"""Slow start takes an eighth of the smallest RTT, within these, for a queue, as HyStart does."""
SLOW_START_LOSS: Final = 0.05
"""Slow start ends at this loss; random loss is well below."""
SLOW_START_LOST_PKTS: Final = 3.0
LOSS_LIMIT: Final = 0.02
"""Of a flow that loses more than this, over about half a second, the window shrinks whatever the policy says:
its signals tell of changes of the loss alone (ΔL), so it would never notice one that stays."""
LOSS_MEMORY: Final = 1 / 16
"""Weight of an interval in that loss."""
SLOW_START_GROWTH: Final = 1.5
"""In a round trip. A queue is heard of an RTT and half an interval late: doubling fills another buffer of a
BDP meanwhile and loses hundreds of packets, this does not."""
SMOOTHING: Final = 0.25
"""Weight of an echo in the throughput whose largest value counts: a single one is too noisy for a maximum."""


@dataclass(frozen=True)
class PathSignals:
    """The five signals of n flows, shape (n,) each (§4, observation step)."""

    rtt_change_s: Floats
    """ΔRTT."""
    throughput_ratio: Floats
    """Δthr, of the last two echoes."""
    kept_ratio: Floats
    """ΔL, of the shares of packets that were acknowledged."""
    throughput: Floats
    """Throughput relative to the largest seen."""
    rtt_s: Floats
    """RTT above the smallest seen."""

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """In the order of the observation."""
        return tuple(field.name for field in fields(cls))

    def rows(self, rows: Indices) -> PathSignals:
        """Those of some flows."""
        return PathSignals(*(getattr(self, name)[rows] for name in self.names()))


def path_signals(last: Echo, before: Echo, rtt_min_s: Floats, throughput_max_pps: Floats) -> PathSignals:
    """Compute the signals of two echoes, arrays of shape (n,). Where an echo is missing, nothing changes."""
    known = (before.index >= 0) & (last.index >= 0)
    there = last.index >= 0
    rtt_change_s = np.where(known, last.rtt_s - before.rtt_s, 0.0)
    throughput_ratio = np.ones(len(known))
    np.divide(last.delivered_pps, before.delivered_pps, out=throughput_ratio, where=known)
    kept_ratio = np.ones(len(known))
    # An echo has at least one acknowledgement, so its loss is below 1.
    np.divide(1.0 - last.loss, 1.0 - before.loss, out=kept_ratio, where=known)
    throughput = np.ones(len(known))
    np.divide(last.delivered_pps, throughput_max_pps, out=throughput, where=there)
    np.minimum(throughput, 1.0, out=throughput)
    rtt_s = np.where(there, last.rtt_s - rtt_min_s, 0.0)
    return PathSignals(rtt_change_s, throughput_ratio, kept_ratio, throughput, np.maximum(0.0, rtt_s))


class LargestThroughput:
    """thr_max of flows that live in numbered slots: of a smoothed throughput, 0 before the first echo."""

    def __init__(self) -> None:
        # Smoothed and largest, packets a second.
        self._pps: Floats = np.zeros((2, 0))

    def resize(self, slots: int) -> None:
        """Make room for slots 0 to `slots` - 1."""
        self._pps = np.pad(self._pps, ((0, 0), (0, max(0, slots - self._pps.shape[1]))))

    def begin(self, slots: Ints) -> None:
        """New flows live in these slots."""
        self._pps[:, slots] = 0.0

    def update(self, slots: Ints, delivered_pps: Floats) -> Floats:
        """Take in throughputs, shape (n,), NaN where there is none; return the largest, shape (n,)."""
        smooth: Floats = self._pps[0, slots]
        largest: Floats = self._pps[1, slots]
        known = ~np.isnan(delivered_pps)
        weight = np.where(smooth > 0.0, SMOOTHING, 1.0)
        smooth[known] += (weight * (delivered_pps - smooth))[known]
        np.maximum(largest, smooth, out=largest)
        self._pps[:, slots] = smooth, largest
        return largest


class WindowSignals:
    """Eq. 8 and the slow start before it; what is observed, a subclass adds.

    The window is kept here with its fraction. Where the kernel's is much smaller (after a time-out, or
    because it was clamped), that one counts.
    """

    observation_size: int
    action_size = 1
    law = Law.WINDOW
    interval_s = INTERVAL_S

    def __init__(self) -> None:
        self._window_pkts: Floats = np.zeros(0)
        self._starting: Bools = np.zeros(0, np.bool_)
        # Averages of an interval's lost and resolved packets.
        self._resolved_pkts: Floats = np.zeros((2, 0))

    def resize(self, slots: int) -> None:
        """See `Signals`."""
        more = max(0, slots - len(self._starting))
        self._window_pkts = np.pad(self._window_pkts, (0, more))
        self._starting = np.pad(self._starting, (0, more))
        self._resolved_pkts = np.pad(self._resolved_pkts, ((0, 0), (0, more)))

    def begin(self, slots: Ints, window_pkts: Floats) -> None:
        """See `Signals`."""
        self._window_pkts[slots] = window_pkts
        self._starting[slots] = window_pkts <= NEW_FLOW_PKTS
        self._resolved_pkts[:, slots] = 0.0

    def displace(self, slots: Ints, window_pkts: Floats) -> None:
        """Set the windows of flows that stay what they are: a disturbance, for training."""
        self._window_pkts[slots] = window_pkts

    def observe(self, slots: Ints, interval: Interval) -> Float32s:
        """See `Signals`."""
        raise NotImplementedError

    def control(self, slots: Ints, interval: Interval, actions: Float32s) -> Floats:
        """See `Signals`."""
        window_pkts: Floats = np.minimum(self._window_pkts[slots], 1.25 * interval.window_pkts)
        action = np.where(self._loses(slots, interval), -1.0, actions[:, 0].astype(np.float64))
        alpha = ALPHA * np.minimum(1.0, SWIFT_RTT_S / interval.rtt_min_s)
        change = np.where(action >= 0.0, 1.0 + alpha * action, 1.0 / (1.0 - alpha * action))
        starting = self._starting[slots]
        if starting.any():
            ends = starting & _queue_is_met(interval)
            starting &= ~ends
            self._starting[slots] = starting
            round_trips = np.minimum(1.0, interval.length_s / np.maximum(interval.rtt_min_s, 1e-3))
            change = np.where(starting, SLOW_START_GROWTH**round_trips, change)
            # What the path just carried, without the queue that ended the slow start.
            carried_pkts = interval.delivered_pps[ends] * interval.rtt_min_s[ends]
            window_pkts[ends] = np.minimum(window_pkts[ends], carried_pkts)
        # A window that the application does not fill tells nothing about the path (RFC 7661).
        unused = interval.in_flight_pkts < 0.5 * window_pkts
        window_pkts = np.maximum(2.0, window_pkts * np.where(unused, np.minimum(1.0, change), change))
        self._window_pkts[slots] = window_pkts
        return window_pkts[:, None]

    def _loses(self, slots: Ints, interval: Interval) -> Bools:
        """Whether flows lose more than they should, in this interval and for longer."""
        average = self._resolved_pkts[:, slots]
        resolved = np.stack((interval.lost_pkts, interval.lost_pkts + interval.acked_pkts))
        average += LOSS_MEMORY * (resolved - average)
        self._resolved_pkts[:, slots] = average
        # A burst that is over, as at the end of slow start, is no reason to shrink further.
        loses: Bools = (average[0] > LOSS_LIMIT * average[1]) & (resolved[0] > LOSS_LIMIT * resolved[1])
        return loses


def _queue_is_met(interval: Interval) -> Bools:
    """Slow start has filled the path: its packets queue, or get lost in numbers."""
    queues = interval.rtt_s - interval.rtt_min_s > np.clip(interval.rtt_min_s / 8.0, *QUEUE_S)
    resolved_pkts = interval.acked_pkts + interval.lost_pkts
    lost = interval.lost_pkts >= SLOW_START_LOSS * resolved_pkts
    return queues | (lost & (interval.lost_pkts >= SLOW_START_LOST_PKTS))


class LtpSignals(WindowSignals):
    """The five signals, brought to the size that networks take (the paper leaves that open).

    Changes and delays span from a millisecond to a second, and small ones matter most: they enter by
    their logarithm.
    """

    observation_size = 5

    def __init__(self) -> None:
        super().__init__()
        self._largest = LargestThroughput()

    def resize(self, slots: int) -> None:
        """See `Signals`."""
        super().resize(slots)
        self._largest.resize(slots)

    def begin(self, slots: Ints, window_pkts: Floats) -> None:
        """See `Signals`."""
        super().begin(slots, window_pkts)
        self._largest.begin(slots)

    def observe(self, slots: Ints, interval: Interval) -> Float32s:
        """See `Signals`."""
        largest = self._largest.update(slots, interval.echo.delivered_pps)
        seen = path_signals(interval.echo, interval.previous_echo, interval.rtt_min_s, largest)
        observation = np.stack(
            (
                np.arcsinh(seen.rtt_change_s / 0.002),
                4.0 * np.log(np.clip(seen.throughput_ratio, 0.25, 4.0)),
                10.0 * np.clip(seen.kept_ratio - 1.0, -0.3, 0.3),
                2.0 * seen.throughput - 1.0,
                np.log1p(seen.rtt_s / 0.005),
            ),
            axis=1,
        )
        return observation.astype(np.float32)
