# SPDX-License-Identifier: Apache-2.0
"""Cubic (RFC 9438) as Linux runs it, with fast convergence, Reno-friendly region, HyStart and PRR."""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Indices
from ltp_switcher.policies.runtime.slow_start import queue_threshold_s
from ltp_switcher.policies.simulator.controllers import INITIAL_WINDOW, Feedback, LossEvents

BETA: Final = 0.7
C: Final = 0.4
"""Cubic's constant C, in packets per second cubed."""
WINDOW_MIN: Final = 2.0


class Cubic:
    """The controller of rows of Cubic flows. `beta` and `c`, shape (rows, E), may be set per flow (Spine,
    Section 7.5.2).
    """

    def __init__(self, shape: tuple[int, int]) -> None:
        self.beta = np.full(shape, BETA)
        self.c = np.full(shape, C)
        self.window = np.full(shape, INITIAL_WINDOW)
        self.pace = np.full(shape, np.inf)
        self._cwnd = np.full(shape, INITIAL_WINDOW)
        self._threshold = np.full(shape, np.inf)
        self._w_max = np.zeros(shape)
        self._origin = np.zeros(shape)
        self._k_s = np.zeros(shape)
        self._epoch_s = np.full(shape, np.nan)
        self._w_est = np.zeros(shape)
        self._events = LossEvents(shape)
        self._hystart = _HyStart(shape)

    def on_feedback(self, feedback: Feedback) -> None:
        """Grow by the ACKs of the tick, and back off at a loss event."""
        recovering = self._events.recovering
        in_slow_start = self._cwnd < self._threshold
        if in_slow_start.any():
            self._slow_start(feedback, in_slow_start)
        avoiding = ~(in_slow_start | recovering) & (feedback.acked > 0.0)
        if avoiding.any():
            self._avoid(feedback, avoiding)
        begins = self._events.update(feedback)
        if begins.size:
            self._back_off(begins)
        np.copyto(self.window, self._cwnd)
        # Proportional rate reduction (RFC 6937): while more is in flight than the new window allows,
        # each delivered packet lets out beta packets.
        reducing = recovering & (feedback.in_flight > self._cwnd)
        if reducing.any():
            np.copyto(self.window, feedback.in_flight + self.beta * feedback.acked, where=reducing)

    def _slow_start(self, feedback: Feedback, where: Bools) -> None:
        self._cwnd += feedback.acked * where
        leaving = self._hystart.update(feedback, self._cwnd) & where
        np.copyto(self._threshold, self._cwnd, where=leaving)

    def _avoid(self, feedback: Feedback, where: Bools) -> None:
        cwnd, acked = self._cwnd, feedback.acked
        fresh = np.flatnonzero(where & np.isnan(self._epoch_s))
        if fresh.size:
            self._start_epoch(fresh, feedback.now_s)
        rtt_min_s = np.minimum(feedback.rtt_min_s, feedback.rtt_s)
        since = feedback.now_s - self._epoch_s + rtt_min_s - self._k_s
        target = self._origin + self.c * since * since * since
        # Linux: at least one packet in 100 windows; with no loss yet, one in 20 packets; at most one
        # packet in two ACKs.
        gain = np.maximum((target - cwnd) / cwnd, 0.01 / cwnd)
        np.maximum(gain, 0.05, out=gain, where=self._w_max == 0.0)
        self._w_est += np.where(where, acked * (3.0 * (1.0 - self.beta) / (1.0 + self.beta)) / cwnd, 0.0)
        np.maximum(gain, (self._w_est - cwnd) / cwnd, out=gain)
        np.minimum(gain, 0.5, out=gain)
        np.add(cwnd, acked * gain, out=cwnd, where=where)

    def _start_epoch(self, flows: Indices, now_s: float) -> None:
        cwnd = self._cwnd.reshape(-1)[flows]
        w_max = self._w_max.reshape(-1)[flows]
        self._epoch_s.reshape(-1)[flows] = now_s
        self._w_est.reshape(-1)[flows] = cwnd
        self._origin.reshape(-1)[flows] = np.maximum(w_max, cwnd)
        rise = np.maximum(w_max - cwnd, 0.0)
        self._k_s.reshape(-1)[flows] = np.cbrt(rise / self.c.reshape(-1)[flows])

    def _back_off(self, flows: Indices) -> None:
        cwnd = self._cwnd.reshape(-1)[flows]
        w_max = self._w_max.reshape(-1)[flows]
        beta = self.beta.reshape(-1)[flows]
        # Fast convergence: a flow that lost before it was back at its old maximum gives up more.
        self._w_max.reshape(-1)[flows] = np.where(cwnd < w_max, cwnd * (1.0 + beta) / 2.0, cwnd)
        after = np.maximum(cwnd * beta, WINDOW_MIN)
        self._cwnd.reshape(-1)[flows] = after
        self._threshold.reshape(-1)[flows] = after
        self._epoch_s.reshape(-1)[flows] = np.nan


class _HyStart:
    """Ends slow start before the queue overflows (Ha & Rhee 2011): at an increase of the delay, or at a long
    train of ACKs.
    """

    WINDOW_LOW: Final = 16.0
    SAMPLES: Final = 8.0
    ACK_GAP_S: Final = 0.002

    def __init__(self, shape: tuple[int, int]) -> None:
        self._round_end = np.zeros(shape)
        self._round_start_s = np.zeros(shape)
        self._samples = np.zeros(shape)
        self._rtt_s = np.full(shape, np.inf)
        self._train = np.ones(shape, np.bool_)

    def update(self, feedback: Feedback, cwnd: Floats) -> Bools:
        """Return which flows shall leave slow start now; shape (rows, E)."""
        started = feedback.resolved >= self._round_end
        np.copyto(self._round_end, feedback.sent, where=started)
        np.copyto(self._round_start_s, feedback.now_s, where=started)
        np.copyto(self._samples, 0.0, where=started)
        np.copyto(self._rtt_s, np.inf, where=started)
        heard = feedback.acked > 0.0
        np.minimum(self._rtt_s, feedback.rtt_s, out=self._rtt_s, where=heard & (self._samples < self.SAMPLES))
        self._samples += feedback.acked
        self._train |= started
        self._train &= feedback.acked * self.ACK_GAP_S >= feedback.tick_s
        rtt_min_s = feedback.rtt_min_s
        delayed = (self._samples >= self.SAMPLES) & (self._rtt_s > queue_threshold_s(rtt_min_s))
        long_train = self._train & (feedback.now_s - self._round_start_s > rtt_min_s / 2.0)
        leaving: Bools = (delayed | long_train) & (cwnd >= self.WINDOW_LOW) & heard
        return leaving
