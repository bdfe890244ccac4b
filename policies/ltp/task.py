# SPDX-License-Identifier: Apache-2.0
"""LTP as a learning problem in the simulator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Float32s, Floats
from ltp_switcher.policies.ltp.particles import ParticleFilter, Ranges
from ltp_switcher.policies.ltp.reward import (
    Weights,
    log_rates,
    performance_reward,
    probe_reward,
    unfairness,
)
from ltp_switcher.policies.ltp.signals import INTERVAL_S, WindowSignals
from ltp_switcher.policies.runtime.measurements import NOTHING
from ltp_switcher.policies.simulator.controllers import INITIAL_WINDOW
from ltp_switcher.policies.simulator.paths import PPS_PER_MBPS, Flows, Paths
from ltp_switcher.policies.simulator.regions import LTP_LARGE, LTP_MEDIUM, LTP_SMALL, Region
from ltp_switcher.policies.simulator.simulator import Roster, SimulatedInterval, Simulator
from ltp_switcher.policies.simulator.tasks import Actions, SignalsTask, episode_seed

REGIONS: Final[Mapping[str, Region]] = {"small": LTP_SMALL, "medium": LTP_MEDIUM, "large": LTP_LARGE}
"""Links on which LTP is trained and compared, by the region names of LTP, Table 3."""
ROSTER: Final = Roster(window=3, cubic=2)
FLOWS: Final = (1, 4)
"""Range of the number of flows on a link. The paper has 2 to 10, but most of its figures are about one flow.
To simulate ten flows would cost too much.
"""
FAIRNESS_WINDOW_S: Final = 1.0
"""Time constant, in seconds, of the exponential average avg_thr in LTP, Eq. 14. The paper leaves it open."""
DISPLACED_EVERY_S: Final = 4.0
"""Mean time in training, in seconds, after which a flow beside Cubic gets a random window. Otherwise a flow
that has given way would stay at the smallest window for the rest of the episode. At that window no action has
an effect, and nothing is learned.
"""
DISPLACED_BY: Final = (-2.5, 0.5)
"""Range from which the logarithm of a random window (`DISPLACED_EVERY_S`) over the flow's fair window is
drawn.
"""
TRUTHS: Final = 9
"""Number of the true values that no flow can know. They follow the signals in an observation. The critics see
all of them. The policy of Oracle, a variant of LTP, sees the first `ORACLE` of them.

The order is: utilisation of the link, queuing delay, RTT over base RTT, base RTT, window over the fair share
of the bandwidth-delay product, own share of the throughput, unfairness, loss, whether Cubic is present.
"""
ORACLE: Final = 2
"""Number of the true values that the policy of the variant Oracle sees (LTP, Section 2.2)."""
RANGES: Final = 6
"""Number of values that give the estimation's ranges, on which the probe reward depends. They follow the true
values, and only critics see them.

Critics have no memory, so without these values they would not know the state of the estimation.
"""


def critics_see(signals: WindowSignals, *, probe: bool) -> int:
    """Return the number of values that the critics see in training a policy with these signals."""
    return signals.observation_size + TRUTHS + RANGES * probe


class LtpTask(SignalsTask):
    """LTP's learning problem: the paper's reward for agents beside Cubic and each other.

    thr_max of LTP, Eq. 12, is the throughput that a flow could have: the rest that all other flows leave, but
    at least the fair share. Throughput beyond thr_max does not count. If thr_max were the capacity, giving
    way to Cubic would pay better than competing. Taking from other flows would pay nearly as well as being
    fair.

    Args:
        signals: the policy's observations.
        agents: number of the roster's rows that the policy controls.
        particles: number of the estimation module's particles; 0 leaves the probe reward out, for the variant
            LTP-no-probe.
        bounded: see `SignalsTask`.
        weights: weights of the reward.
    """

    def __init__(
        self,
        signals: WindowSignals,
        agents: int,
        *,
        particles: int,
        bounded: bool = True,
        weights: Weights | None = None,
    ) -> None:
        super().__init__(signals, agents, bounded=bounded)
        self._window_signals = signals
        self._particles = particles
        self._weights = weights or Weights()
        self.observation_size = critics_see(signals, probe=particles > 0)
        self.performance: Floats = np.zeros((agents, 0))
        """R_perf of the last interval, shape (agents, E)."""
        self.beside_cubic: Bools = np.zeros((agents, 0), np.bool_)
        """True for flows that had a Cubic flow beside them in the last interval, shape (agents, E)."""
        self.alone: Bools = np.zeros(0, np.bool_)
        """True for links on which no more than one flow was active in the last interval, shape (E,)."""

    def begin(self, simulator: Simulator, paths: Paths, flows: Flows) -> None:
        """See `Task`."""
        super().begin(simulator, paths, flows)
        if self._bounded:
            cubics: Bools = np.isfinite(flows.start_s[self.agents :])
            self._start_slowly(np.logical_or.reduce(cubics, axis=0))
        rtt_ms = np.where(np.isnan(flows.rtt_ms), paths.rtt_ms, flows.rtt_ms)
        self._base_s = rtt_ms / 1e3 + 1.0 / (paths.rate_mbps * PPS_PER_MBPS)
        self._average_pps: Floats = np.zeros(flows.start_s.shape)
        self._truth: Float32s = np.zeros((self._slots.size, TRUTHS), np.float32)
        # A fair window is a share of the packets that the link and half of its queue hold.
        self._held_pkts: Floats = self.bdp_pkts + 0.5 * paths.buffer_pkts
        self._fair_pkts: Floats = self._held_pkts
        self.beside_cubic = np.zeros((self.agents, paths.count), np.bool_)
        seed = episode_seed(paths).tolist()
        self._rng = np.random.default_rng(seed)
        if self._particles:
            self._filter = ParticleFilter(INTERVAL_S, seed=seed, particles=self._particles)
            self._filter.reset(self._slots)

    def _start_slowly(self, links: Bools) -> None:
        """Let flows on these links, shape (E,), start with the initial window, as in service."""
        window_pkts = np.where(links, INITIAL_WINDOW, self.simulator.window.window)
        self.simulator.set_window(window_pkts)
        self._window_pkts = window_pkts.reshape(-1)
        self.signals.begin(self._slots, self._window_pkts)

    def apply(self, actions: Actions) -> None:
        """See `Task`."""
        super().apply(actions)
        if not self._bounded or self.interval is None:
            return
        chance = self.interval.length_s / DISPLACED_EVERY_S
        due = (self._rng.random(self._fair_pkts.shape) < chance) & self.beside_cubic
        spread = np.exp(self._rng.uniform(*DISPLACED_BY, due.shape))
        window_pkts = np.where(due, self._fair_pkts * spread, self.simulator.window.window)
        at = np.flatnonzero(due)
        self._window_signals.displace(at, window_pkts.reshape(-1)[at])
        self.simulator.set_window(window_pkts)

    def observe(self, interval: SimulatedInterval) -> tuple[Float32s, Float32s]:
        """See `Task`."""
        observations, rewards = super().observe(interval)
        known = [_inputs(self._ranges)] if self._particles else []
        return np.concatenate((observations, self._truth, *known), axis=1), rewards

    def rewards(self, interval: SimulatedInterval) -> Floats:
        """Return the rewards of an interval (LTP, Eq. 15), shape (agents, E)."""
        n = self.agents
        weight = min(1.0, interval.length_s / FAIRNESS_WINDOW_S)
        self._average_pps += weight * (interval.delivered_pps - self._average_pps)
        total_pps, flows = interval.delivered_pps.sum(axis=0), np.maximum(1, interval.active.sum(axis=0))
        own_pps, capacity_pps = interval.delivered_pps[:n], interval.capacity_pps
        could_have_pps = np.maximum(capacity_pps / flows, capacity_pps - (total_pps - own_pps))
        attained = np.minimum(1.0, own_pps / could_have_pps)
        lost, acked = interval.lost_pkts[:n], interval.acked_pkts[:n]
        loss = np.divide(lost, lost + acked, out=np.zeros_like(lost), where=lost + acked > NOTHING)
        self._fair_pkts = self._held_pkts / flows
        self.beside_cubic = interval.active[:n] & interval.active[n:].any(axis=0)
        self.alone = flows == 1
        uneven = unfairness(self._average_pps, interval.active)
        delay_ratio = interval.rtt_s[:n] / self._base_s[:n]
        self.performance = performance_reward(attained, loss, delay_ratio, uneven, self._weights)
        self._see_truth(interval, delay_ratio, uneven, loss)
        total = self._weights.performance * self.performance
        if self._particles:
            self._filter.update(self._slots, interval.flat(n))
            self._ranges = self._filter.ranges(self._slots)
            probe = probe_reward(self._ranges, self._weights)
            total += self._weights.estimation * probe.reshape(total.shape)
        return total

    def _see_truth(
        self, interval: SimulatedInterval, delay_ratio: Floats, uneven: Floats, loss: Floats
    ) -> None:
        n = self.agents
        flows = np.maximum(1, interval.active.sum(axis=0))
        fair_pkts = interval.capacity_pps * self._base_s[:n] / flows
        own = self._average_pps[:n] / np.maximum(self._average_pps.sum(axis=0), 1e-9)
        truths = (
            np.minimum(1.0, interval.delivered_pps.sum(axis=0) / interval.capacity_pps),
            np.log1p(interval.queued_pkts / interval.capacity_pps / 0.005),
            np.log(delay_ratio),
            np.log(self._base_s[:n] / 0.030),
            np.log(np.maximum(interval.window_pkts[:n], 1.0) / fair_pkts),
            own * flows - 1.0,
            2.0 * uneven,
            10.0 * loss,
            1.0 * self.beside_cubic,
        )
        self._truth = np.stack(np.broadcast_arrays(*truths), axis=2).reshape(-1, TRUTHS).astype(np.float32)


def _inputs(ranges: Ranges) -> Float32s:
    """Return ranges as inputs of the critics, shape (n, 6): logarithms of the rates, and delays per 50 ms.
    They are 0 before the first echo.
    """
    inputs: Float32s = np.concatenate((*log_rates(ranges), 20.0 * ranges.delay_s), axis=1).astype(np.float32)
    return np.nan_to_num(inputs, copy=False, nan=0.0)
