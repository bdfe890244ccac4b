# SPDX-License-Identifier: Apache-2.0
"""The simulator: senders, bottlenecks and the way back, tick by tick, for all environments at once.

Time is cut into ticks of 1 ms. In each tick a sender hears of the fluid that left the queue one propagation
delay ago. Its controller changes window and pacing rate, and the sender sends as much as these allow. Then
the link queues, drops and serves. All propagation delay lies behind the queue; for a closed loop its place
makes no difference. So an action is at the queue at once, and the sender hears of it one RTT later.

Base RTTs are rounded to whole ticks. A measured RTT is the sum of propagation, queueing, and the time that
the link takes to put one packet on the wire. Only measured RTTs contain this last part: feedback comes
without it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Ints
from ltp_switcher.errors import InvalidValueError
from ltp_switcher.policies.runtime.measurements import NOTHING, Interval
from ltp_switcher.policies.simulator.bottleneck import Bottleneck, check_history, most_over
from ltp_switcher.policies.simulator.capacity import Capacity
from ltp_switcher.policies.simulator.controllers import Aimd, Controller, Feedback, FixedRate, Window
from ltp_switcher.policies.simulator.cubic import Cubic
from ltp_switcher.policies.simulator.echoes import EchoTracker
from ltp_switcher.policies.simulator.paths import PPS_PER_MBPS, Flows, Paths

JITTER_EVERY_S: Final = 0.010
WINDOW_LIMITS: Final = (2.0, 1e6)
"""Least and largest window that `set_window` sets, in packets."""


@dataclass(frozen=True)
class SimulatedInterval(Interval):
    """An interval, and true values that no sender sees. Each of these has the shape (E,)."""

    queued_pkts: Floats
    """Packets in the bottleneck's queue at the end of the interval."""
    capacity_pps: Floats
    """Mean capacity over the interval, in packets a second."""


@dataclass(frozen=True)
class Roster:
    """The number of flow slots that each controller has on a link. A slot is a row of the simulator's arrays.
    The rows of the controllers come in the order of the fields.

    A policy sets β and C of the first `learned_cubic` Cubic rows (Spine, Section 7.5.2). A roster with such
    rows has neither window nor AIMD rows.

    Raises:
        InvalidValueError: `learned_cubic` exceeds `cubic`, or is not 0 beside window or AIMD rows.
    """

    window: int = 0
    aimd: int = 0
    cubic: int = 0
    fixed: int = 0
    learned_cubic: int = 0

    def __post_init__(self) -> None:
        most = self.cubic if self.window + self.aimd == 0 else 0
        if not 0 <= self.learned_cubic <= most:
            raise InvalidValueError("learned_cubic", self.learned_cubic, f"0 to {most}")

    @property
    def agents(self) -> int:
        """Number of rows that a policy controls. They are the first rows."""
        return self.window + self.aimd + self.learned_cubic

    @property
    def count(self) -> int:
        """Number F of slots of a link."""
        return self.window + self.aimd + self.cubic + self.fixed


class Simulator:
    """A simulation of E links with the flows of a roster, from time 0 on.

    The rows of `Flows` are, in order, the window-controlled, the AIMD, the Cubic and the fixed-rate slots.
    `window`, `aimd` and `cubic` are the controllers of these rows. The first `agents` rows belong to a
    policy. Between two calls of `step`, set windows with `set_window`, and the parameters of the other
    controllers in place. `bottleneck` holds the truth that no sender sees.

    Args:
        paths: the links.
        flows: the flows, shape (F, E), where F is the roster's count.
        roster: the controllers of the rows.
        seed: seed of the losses and the jitter; equal arguments give equal runs.
        interval_s: time that `step` advances, in seconds: a whole number of ticks.
        tick_s: length of a tick in seconds.

    Raises:
        InvalidValueError: shapes do not fit, or the curves of the longest queue would need too much memory.
    """

    def __init__(
        self,
        paths: Paths,
        flows: Flows,
        roster: Roster,
        *,
        seed: int,
        interval_s: float = 0.030,
        tick_s: float = 0.001,
    ) -> None:
        shape = (roster.count, paths.count)
        if flows.start_s.shape != shape:
            raise InvalidValueError("flows", flows.start_s.shape, f"arrays of shape {shape}")
        self._ticks_per_interval = round(interval_s / tick_s)
        if self._ticks_per_interval < 1:
            raise InvalidValueError("interval_s", interval_s, f"at least one tick of {tick_s:g} s")
        self._tick_s = tick_s
        self.interval_s = self._ticks_per_interval * tick_s
        self.paths = paths
        self.agents = roster.agents
        self._flows = flows
        self._rng = np.random.default_rng(seed)
        self._capacity = Capacity(paths, tick_s)
        self._own_rtt = ~np.isnan(flows.rtt_ms)
        self._propagation = self._propagation_ticks()
        longest_s = self._longest_rtt_s()
        history = int(longest_s / tick_s) + 3
        too_much = check_history(history, *shape)
        if too_much is not None:
            buffer_pkts = float(paths.buffer_pkts.max())
            raise InvalidValueError("buffer_pkts", buffer_pkts, f"less than needs {too_much >> 30} GiB")
        self.bottleneck = Bottleneck(roster.count, paths.buffer_pkts, history, self._rng)
        self._echoes = EchoTracker(shape, self.interval_s, longest_s)
        self._now = 0
        self._jitter = np.zeros(shape, np.int64)
        self._position = np.zeros(shape)
        # Sums since the start, by flow: packets acknowledged or lost, packets acknowledged, and their RTTs.
        self._totals = np.zeros((3, *shape))
        self._lost = np.zeros(shape)
        self._rtt_s = self._propagation.astype(np.float64) * tick_s
        self._rtt_min_s = np.full(shape, np.inf)
        self._window = np.zeros(shape)
        self._pace = np.zeros(shape)
        self._begin = np.where(np.isfinite(flows.start_s), flows.start_s / tick_s, np.inf)
        self._end = flows.stop_s / tick_s
        self._changes = np.unique(np.concatenate((self._begin.ravel(), self._end.ravel()))).tolist()[::-1]
        self._active: Bools = np.zeros(shape, np.bool_)
        self._controllers = self._assign(roster)

    def _propagation_ticks(self) -> Ints:
        rtt_s = np.where(self._own_rtt, self._flows.rtt_ms / 1e3, self._capacity.rtt_s)
        return np.maximum(1, np.round(rtt_s / self._tick_s)).astype(np.int64)

    def _longest_rtt_s(self) -> float:
        paths = self.paths
        rtt_ms = np.where(self._own_rtt, self._flows.rtt_ms, paths.rtt_ms).max(axis=0)
        if paths.steps is not None:
            rtt_ms = np.fmax(rtt_ms, np.nan_to_num(paths.steps.rtt_ms).max(axis=0))
        queue_s = self._capacity.longest_queue_s(paths.buffer_pkts + most_over(len(self._flows.start_s)))
        return float(np.max((rtt_ms + paths.jitter_ms) / 1e3 + queue_s)) + 2 * self._tick_s

    def _assign(self, roster: Roster) -> list[tuple[slice, Controller]]:
        environments, rtt_s = self.paths.count, self._rtt_s
        ends = np.cumsum((roster.window, roster.aimd, roster.cubic, roster.fixed)).tolist()
        window, aimd, cubic, fixed = (slice(a, b) for a, b in zip([0, *ends[:-1]], ends, strict=True))
        self.window_rows = window
        self.window = Window((roster.window, environments), rtt_s[window])
        self.aimd = Aimd((roster.aimd, environments), rtt_s[aimd])
        self.cubic = Cubic((roster.cubic, environments))
        rate = np.nan_to_num(self._flows.rate_mbps[fixed] * PPS_PER_MBPS)
        blocks: list[tuple[slice, Controller]] = [
            (window, self.window), (aimd, self.aimd), (cubic, self.cubic), (fixed, FixedRate(rate)),
        ]  # fmt: skip
        return [(rows, block) for rows, block in blocks if rows.stop > rows.start]

    @property
    def now_s(self) -> float:
        """Simulated time since the start, in seconds."""
        return self._now * self._tick_s

    def served(self) -> Floats:
        """Return the packets of each flow that have left the queue since the start, whether acknowledged yet
        or not, shape (F, E).
        """
        now = np.full(self._window.shape, self._now)
        offered, dropped = self.bottleneck.curves(self._now, self.bottleneck.position(self._now, now))
        return offered - dropped

    def set_window(self, window_pkts: Floats) -> None:
        """Set the windows of the window-controlled rows in packets, shape (rows, E).

        The pacing rate follows from the window and the RTT of the last interval.
        """
        self.window.act(window_pkts, self._rtt_s[self.window_rows], WINDOW_LIMITS)

    def step(self) -> SimulatedInterval:
        """Advance one interval and return its measurements."""
        sent_before = self.bottleneck.offered.copy()
        totals_before = self._totals.copy()
        lost_before = self._lost.copy()
        served = np.zeros(self.paths.count)
        for _ in range(self._ticks_per_interval):
            self._now += 1
            served += self._tick()
        self._echoes.close(self.bottleneck.offered)
        _, acked, weighted = self._totals - totals_before
        np.divide(weighted, acked, out=self._rtt_s, where=acked > NOTHING)
        echo, previous_echo = self._echoes.echoes()
        return SimulatedInterval(
            index=self._echoes.last_index,
            end_s=self.now_s,
            length_s=self.interval_s,
            active=self._active.copy(),
            sent_pkts=self.bottleneck.offered - sent_before,
            acked_pkts=acked,
            lost_pkts=self._lost - lost_before,
            rtt_s=self._rtt_s.copy(),
            rtt_min_s=self._rtt_min_s.copy(),
            window_pkts=self._window.copy(),
            pacing_pps=self._pace.copy(),
            in_flight_pkts=self.bottleneck.offered - self._totals[0],
            turn_pkts=np.zeros_like(acked),
            echo=echo,
            previous_echo=previous_echo,
            queued_pkts=self.bottleneck.queued.copy(),
            capacity_pps=served / self.interval_s,
        )

    def _tick(self) -> Floats:
        """Advance one tick, and return the packets that each link could send in it, shape (E,)."""
        now, tick_s = self._now, self._tick_s
        if self._capacity.advance(now):
            self._propagation = self._propagation_ticks()
        self._shake()
        while self._changes and self._changes[-1] < now:
            self._changes.pop()
            self._active = (self._begin < now) & (self._end >= now)
        bottleneck = self.bottleneck
        left = np.maximum(now - self._propagation - self._jitter, 0)
        # Jitter reorders nothing, so the last packet that a sender has heard of never becomes an earlier one.
        position = np.maximum(bottleneck.position(now, left), self._position)
        offered, dropped = bottleneck.curves(now, position)
        lost = dropped - self._lost
        step = offered - self._totals[0]
        acked = step - lost
        rtt_s = (now - position) * tick_s
        rtt_s += self._capacity.packet_s
        self._position, self._lost = position, dropped
        self._totals[0] = offered
        self._totals[1] += acked
        self._totals[2] += acked * rtt_s
        np.minimum(self._rtt_min_s, rtt_s, out=self._rtt_min_s, where=acked > 0.0)
        self._echoes.tick(self.now_s, tick_s, step, acked, rtt_s, self._totals)
        in_flight = bottleneck.offered - offered
        for rows, controller in self._controllers:
            controller.on_feedback(
                Feedback(
                    now_s=self.now_s,
                    tick_s=tick_s,
                    acked=acked[rows],
                    lost=lost[rows],
                    rtt_s=rtt_s[rows],
                    rtt_min_s=self._rtt_min_s[rows],
                    in_flight=in_flight[rows],
                    resolved=offered[rows],
                    sent=bottleneck.offered[rows],
                )
            )
            self._window[rows] = controller.window
            self._pace[rows] = controller.pace
        arrivals = np.minimum(self._window - in_flight, self._pace * tick_s)
        np.maximum(arrivals, 0.0, out=arrivals)
        arrivals *= self._active
        capacity = self._capacity.packets(now)
        bottleneck.tick(now, arrivals, capacity, self._capacity.loss)
        return capacity

    def _shake(self) -> None:
        """Draw the jitter anew every `JITTER_EVERY_S` seconds."""
        every = max(1, round(JITTER_EVERY_S / self._tick_s))
        jitter_ms = self.paths.jitter_ms
        if self._now % every == 1 % every and jitter_ms.any():
            shift = self._rng.uniform(-1.0, 1.0, self._jitter.shape) * jitter_ms / 1e3 / self._tick_s
            self._jitter = np.maximum(np.round(shift), 1.0 - self._propagation).astype(np.int64)
