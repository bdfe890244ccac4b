# SPDX-License-Identifier: Apache-2.0
"""Owl's learning problem in the simulator, which includes the network's reports."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats
from ltp_switcher.policies.owl.reward import Utility
from ltp_switcher.policies.owl.signals import ACTIONS, OwlSignals
from ltp_switcher.policies.runtime.measurements import NOTHING
from ltp_switcher.policies.runtime.path_knowledge import WINDOW_S
from ltp_switcher.policies.simulator.paths import PPS_PER_MBPS, Flows, Paths
from ltp_switcher.policies.simulator.simulator import SimulatedInterval, Simulator
from ltp_switcher.policies.simulator.tasks import Actions, Array, SignalsTask, episode_seed

HIDDEN_SHARE: Final = 0.5
"""Share of the links whose network reports nothing."""
KNOWN: Final = (0.1, 1.0)
"""Range of the share of a path's nodes that report, on all other links (Owl, Section VII-A: 0 to 100 %)."""
HEADROOM: Final = (1.2, 5.0)
"""Range of a ratio: the capacity of the tightest known link over the bottleneck's, where the bottleneck is
unknown.
"""
CAPACITY_MEMORY_S: Final = 0.3
CAPACITY_LEAST: Final = 0.05
"""Least rate with which a queue is converted to a delay, as a share of the link's nominal rate."""


class SimulatedAgent:
    """The measurement agents of E links. They compute the true PNC and PNA (Owl, Eq. 4 and 5) over windows of
    a second.

    The more nodes are known, the likelier the bottleneck is among them: its probability is the known share.
    If the bottleneck is unknown, the known nodes lose nothing and have the spare capacity of faster links.

    Args:
        known: share of known nodes of each link, shape (E,); NaN for a link without an agent.
        bottleneck: whether the bottleneck is among the known nodes, shape (E,).
        headroom: capacity of the tightest known link over the bottleneck's, where the bottleneck is unknown,
            shape (E,).
    """

    def __init__(self, known: Floats, bottleneck: Bools, headroom: Floats) -> None:
        self._known = known
        self._bottleneck = bottleneck
        self._headroom = headroom
        # Packets that came, packets that left, and packets that could have left, since the window began.
        self._counted = np.zeros((3, len(known)))
        self._departed = np.zeros(len(known))
        self._length_s = 0.0
        self.pnc_pkts = np.full(len(known), np.nan)
        self.pna = np.full(len(known), np.nan)
        self.known = np.full(len(known), np.nan)

    @classmethod
    def drawn(cls, environments: int, rng: np.random.Generator) -> SimulatedAgent:
        """Make agents whose known nodes are drawn at random for each link."""
        known = rng.uniform(*KNOWN, environments)
        bottleneck = rng.random(environments) < known
        known[rng.random(environments) < HIDDEN_SHARE] = np.nan
        return cls(known, bottleneck, rng.uniform(*HEADROOM, environments))

    @classmethod
    def at_bottleneck(cls, environments: int, rng: np.random.Generator) -> SimulatedAgent:
        """Make agents that know the bottleneck and no other node, one node of five (Owl, Section VII-A: 20
        %).
        """
        return cls(np.full(environments, 0.2), np.ones(environments, np.bool_), np.ones(environments))

    @classmethod
    def hidden(cls, environments: int, rng: np.random.Generator) -> SimulatedAgent:
        """Make agents that know no node of any link."""
        return cls(np.full(environments, np.nan), np.zeros(environments, np.bool_), np.ones(environments))

    def observe(self, interval: SimulatedInterval, departed: Floats) -> None:
        """Process an interval.

        `departed` has the packets that had left each queue by the interval's end, shape (E,).
        """
        left = departed - self._departed
        self._departed = departed.copy()
        came = interval.sent_pkts.sum(axis=0)
        self._counted += (came, left, interval.capacity_pps * interval.length_s)
        self._length_s += interval.length_s
        if self._length_s < WINDOW_S - interval.length_s / 2:
            return
        came, left, most = self._counted
        here = self._bottleneck
        most = np.where(here, most, most * self._headroom)
        used = np.divide(left, most, out=np.zeros_like(left), where=most > 0.0)
        self.pnc_pkts = np.where(here, np.abs(came - left), 0.0) * WINDOW_S / self._length_s
        self.pna = np.clip(1.0 - used, 0.0, 1.0)
        self.known = self._known
        self._counted[:] = 0.0
        self._length_s = 0.0


class LinkTruth:
    """The quantities of Owl, Eq. 7, at the bottleneck, at the time of the action instead of one round trip
    later.

    A discount of 0.93 looks 14 intervals ahead (Owl, Table II). Behind a queue of half a second, the feedback
    on an action comes later. If Owl is trained on this feedback, it never drains the queues that it has
    built. So the reward is the same utility, computed at the time at which an action causes it.

    Args:
        simulator: the simulator at the start of an episode.
        paths: links of the episode.
        flows: flows of the episode.
        agents: number of the first rows of flows, which Owl controls.
    """

    def __init__(self, simulator: Simulator, paths: Paths, flows: Flows, agents: int) -> None:
        self._simulator = simulator
        self._agents = agents
        self._nominal_pps = paths.rate_mbps * PPS_PER_MBPS
        self._base_rtt_s = np.where(np.isnan(flows.rtt_ms), paths.rtt_ms, flows.rtt_ms)[:agents] / 1e3
        self._before = np.zeros((3, agents, paths.count))
        self._capacity_pps = self._nominal_pps.copy()

    def over(self, interval: SimulatedInterval) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Return the arguments of `Utility.__call__` for an interval that ends now, shape
        (agents, E) each.
        """
        bottleneck, rows = self._simulator.bottleneck, slice(0, self._agents)
        now = np.stack((bottleneck.offered[rows], bottleneck.dropped[rows], self._simulator.served()[rows]))
        offered, dropped, served = now - self._before
        self._before = now
        whole = self._nominal_pps * interval.length_s
        loss = np.divide(dropped, offered, out=np.zeros_like(dropped), where=offered > NOTHING)
        # A trace's rate of a single interval is mostly chance.
        weight = 1.0 - np.exp(-interval.length_s / CAPACITY_MEMORY_S)
        self._capacity_pps += weight * (interval.capacity_pps - self._capacity_pps)
        queue_s = interval.queued_pkts / np.maximum(self._capacity_pps, CAPACITY_LEAST * self._nominal_pps)
        return offered / whole, served / whole, loss, self._base_rtt_s + queue_s, self._base_rtt_s


class OwlTask(SignalsTask):
    """Owl's learning problem, with Owl, Eq. 7, as the reward.

    Actions are indices into `ACTIONS`, shape (agents * E,).

    Args:
        agents: number of the first rows of flows, which Owl controls.
        utility: the reward.
        agent: function that makes the measurement agents of an episode's links.
        bounded: see `SignalsTask`. If it is off, flows also begin with slow start.
    """

    def __init__(
        self,
        agents: int,
        utility: Utility,
        *,
        agent: Callable[[int, np.random.Generator], SimulatedAgent] = SimulatedAgent.drawn,
        bounded: bool = True,
    ) -> None:
        self.owl = OwlSignals(slow_start=not bounded)
        super().__init__(self.owl, agents, bounded=bounded)
        self._utility = utility
        self._make_agent = agent

    def begin(self, simulator: Simulator, paths: Paths, flows: Flows) -> None:
        """See `Task`."""
        super().begin(simulator, paths, flows)
        rng = np.random.default_rng(episode_seed(paths) + 1)
        self._agent = self._make_agent(paths.count, rng)
        self._truth = LinkTruth(simulator, paths, flows, self.agents)

    def apply(self, actions: Actions) -> None:
        """See `Task`."""
        super().apply(np.eye(len(ACTIONS), dtype=np.float32)[np.asarray(actions, np.int64)])
        # The bounds on windows may have made some of them smaller.
        self.owl.window_pkts[:] = self.simulator.window.window.reshape(-1)

    def observe(self, interval: SimulatedInterval) -> tuple[Array, Array]:
        """See `Task`."""
        agent = self._agent
        agent.observe(interval, self.simulator.bottleneck.departed)
        known = (np.tile(value, self.agents) for value in (agent.pnc_pkts, agent.pna, agent.known))
        self.owl.hear(self._slots, *known)
        return super().observe(interval)

    def rewards(self, interval: SimulatedInterval) -> Floats:
        """Return the utility (Owl, Eq. 7) at the bottleneck, shape (agents, E)."""
        return self._utility(*self._truth.over(interval))
