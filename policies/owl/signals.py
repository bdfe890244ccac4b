# SPDX-License-Identifier: Apache-2.0
"""Owl's observations, and the effect of its seven actions on the window (Owl, Table I and Eq. 6)."""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Float32s, Floats, Slots
from ltp_switcher.policies.runtime.arm import Law
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.policies.runtime.slow_start import queue_threshold_s
from ltp_switcher.slots import SlotArrays, column

INTERVAL_S: Final = 0.030
ACTIONS: Final = np.array([-10.0, -3.0, -1.0, 0.0, 1.0, 3.0, 10.0])
"""Changes of the window that Owl can choose, in packets (Owl, Eq. 6)."""
FEATURES: Final = (
    "time", "cwnd", "rtt", "rtt_variation", "mss", "delivered", "lost", "in_flight", "retransmitted",
    "pnc", "pna", "known",
)  # fmt: skip
"""Names of the features of Owl, Table I, in the table's order."""
HISTORY: Final = 5
"""Number k of the latest intervals that the network sees (Owl, Section VII-H)."""
MASKED: Final = -1.0
"""Value that marks a feature as hidden. The network's reports, Partial Network Congestion (PNC) and
Availability (PNA), are never negative as this value is.
"""
WINDOW_MIN: Final = 2.0
WINDOW_MAX: Final = 1e6
SLOW_START_BELOW: Final = 40.0
"""Window in packets below which a flow begins with slow start."""
RTT_MAX: Final = 2.5
"""Ratio of the RTT to the flow's least RTT beyond which the window shrinks as fast as Owl, Eq. 6, allows.

In training, windows end at 4 bandwidth-delay products (`LIMIT_BDP`). When a cellular link slows down, the
same window makes a longer queue. The network has never met such queues, and would keep them. A drop-tail
queue of 1 BDP stays below this limit.
"""
LOSS_MAX: Final = 0.3
"""Share of lost packets above which no window grows. It is the limit to which the loss tends when Owl-Loss
senders are many: by Owl, Eq. 9 and 10, it is 1 - δ.
"""
LOSS_MEMORY_S: Final = 3.0
"""Time constant of the averaged share of lost packets, in seconds."""
UNHEARD_RTT_S: Final = 1.0
"""RTT in seconds that is assumed for a flow without an RTT sample (RFC 6298's first time-out)."""


_UNHEARD: Final = np.zeros((HISTORY, len(FEATURES)), np.float32)
_UNHEARD[:, [FEATURES.index("pnc"), FEATURES.index("pna")]] = MASKED


class OwlSignals(SlotArrays):
    """Owl's `Signals`: the features of Owl, Table I, over five intervals, scaled to the order of 1.

    Some absolute values of Owl, Table I, are replaced by ratios, so that the policy suits links of any speed.
    The ratios are RTT over the flow's least RTT, losses over packets, and PNC over the flow's own packets.
    With the window and the delivered packets, the network can still compute the absolute values.

    Args:
        slow_start: whether flows with small windows begin with slow start. The paper leaves slow start to
            Cubic (Owl, Section VI).
    """

    window_pkts = column(np.float64)
    """The last window of each slot, in packets."""
    _slow_start = column(np.bool_)
    _age_s = column(np.float64)
    _rtt_s = column(np.float64, initial=np.nan)
    _lost = column(np.float64)
    _resolved = column(np.float64)
    _network = column(np.float64, 3, initial=np.nan)
    """PNC, PNA and the share of the path's nodes that is known; NaN where the value is hidden."""
    _history = column(np.float32, HISTORY, len(FEATURES), initial=_UNHEARD)

    def __init__(self, *, slow_start: bool = True) -> None:
        super().__init__()
        self.observation_size = HISTORY * len(FEATURES)
        self.action_size = len(ACTIONS)
        self.law = Law.WINDOW
        self.interval_s = INTERVAL_S
        self._slow_start_below = SLOW_START_BELOW if slow_start else 0.0

    def begin(self, slots: Slots, window_pkts: Floats) -> None:
        """See `Signals`."""
        self.reset(slots)
        self.window_pkts[slots] = window_pkts
        self._slow_start[slots] = window_pkts < self._slow_start_below

    def hear(self, slots: Slots, pnc_pkts: Floats, pna: Floats, known: Floats) -> None:
        """Set the reports about the paths of these slots: PNC, PNA and the known share of nodes, broadcast to
        shape (n,).

        NaN hides a value.
        """
        self._network[slots, 0] = pnc_pkts
        self._network[slots, 1] = pna
        self._network[slots, 2] = known

    def observe(self, slots: Slots, interval: Interval) -> Float32s:
        """See `Signals`."""
        # A flow that has not heard anything yet has no RTT, and none of its features say anything.
        rtt_s = np.where(interval.rtt_s > 0.0, interval.rtt_s, UNHEARD_RTT_S)
        least_s = np.minimum(interval.rtt_min_s, rtt_s)
        before_s = self._rtt_s[slots]
        variation = np.where(np.isnan(before_s), 0.0, (rtt_s - before_s) / least_s)
        self._rtt_s[slots] = rtt_s
        self._age_s[slots] += interval.length_s
        resolved = interval.acked_pkts + interval.lost_pkts
        keep = np.exp(-interval.length_s / LOSS_MEMORY_S)
        self._lost[slots] = lost = keep * self._lost[slots] + interval.lost_pkts
        self._resolved[slots] = total = keep * self._resolved[slots] + resolved
        window = self.window_pkts[slots]
        self._end_slow_start(slots, interval, least_s)

        features = np.empty((len(slots), len(FEATURES)))
        features[:, 0] = np.log1p(self._age_s[slots]) / 5.0
        features[:, 1] = np.log2(window) / 10.0
        features[:, 2] = np.log(rtt_s / least_s)
        features[:, 3] = np.clip(4.0 * variation, -2.0, 2.0)
        # `Interval` has no packet size, and the simulator has one size only. So this feature is constant.
        features[:, 4] = 1.0
        features[:, 5] = np.log2(1.0 + interval.acked_pkts) / 10.0
        features[:, 6] = 2.0 * np.sqrt(_share(lost, total))
        features[:, 7] = np.minimum(interval.in_flight_pkts / window, 2.0)
        features[:, 8] = 2.0 * np.sqrt(_share(interval.lost_pkts, resolved))
        features[:, 9:] = mask(self._network[slots].T, interval.delivered_pps)
        history = self._history[slots]
        history[:, :-1] = history[:, 1:]
        history[:, -1] = features
        self._history[slots] = history
        return history.reshape(len(slots), self.observation_size)

    def _end_slow_start(self, slots: Slots, interval: Interval, least_s: Floats) -> None:
        """End the slow start of flows that meet a loss or a queue."""
        self._slow_start[slots] &= (interval.lost_pkts < 0.5) & (interval.rtt_s <= queue_threshold_s(least_s))

    def control(self, slots: Slots, interval: Interval, actions: Float32s) -> Floats:
        """Add the change with the largest Q value to the window; `actions` holds the Q values, shape (n, 7).

        In slow start the window grows by the acknowledged packets instead. It at most doubles or halves. It
        does not grow while the flow fills less than half of it (RFC 7661), or while the loss exceeds
        `LOSS_MAX`. It shrinks by ten packets where the RTT exceeds `RTT_MAX` times the least RTT.
        """
        window = self.window_pkts[slots]
        resolved = interval.acked_pkts + interval.lost_pkts
        held = interval.leaves_unused(window) | (interval.lost_pkts > LOSS_MAX * resolved)
        change = ACTIONS[actions.argmax(axis=1)]
        change = np.where(self._slow_start[slots], interval.acked_pkts, change)
        change = np.where(held, np.minimum(change, 0.0), change)
        change = np.where(interval.rtt_s > RTT_MAX * interval.rtt_min_s, ACTIONS.min(), change)
        window = np.clip(window + change, np.maximum(WINDOW_MIN, 0.5 * window), 2.0 * window)
        window = np.minimum(window, WINDOW_MAX)
        self.window_pkts[slots] = window
        return window[:, None]


def mask(network: Floats, delivered_pps: Floats) -> Floats:
    """Return features 10 to 12, shape (n, 3), with hidden values masked (state masking: Owl, Section IV-A).

    `network` holds PNC, PNA and the known share of nodes, shape (3, n), NaN where they are hidden. PNC counts
    packets of all flows in a second. Divided by the flow's own packets in a second, PNC says how many flows
    of the same rate the node has too many.
    """
    pnc_pkts, pna, known = network
    hidden = np.isnan(known)
    excess = np.sqrt(_share(pnc_pkts, pnc_pkts + delivered_pps))
    return np.stack(
        (
            np.where(hidden, MASKED, excess),
            np.where(hidden, MASKED, pna),
            np.where(hidden, 0.0, known),
        ),
        axis=1,
    )


def _share(part: Floats, whole: Floats) -> Floats:
    """The part's share of the whole, of one shape; 0 where the whole is 0."""
    shares: Floats = np.divide(part, whole, out=np.zeros_like(whole), where=whole > 0.0)
    return shares
