# SPDX-License-Identifier: Apache-2.0
"""Simulate a trained Owl on given links, without exploration, from slow start on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats
from ltp_switcher.policies.owl.arm import OwlArm
from ltp_switcher.policies.owl.reward import OWL_LOSS, equilibrium
from ltp_switcher.policies.owl.signals import INTERVAL_S, OwlSignals
from ltp_switcher.policies.owl.task import SimulatedAgent
from ltp_switcher.policies.runtime.inference import Network
from ltp_switcher.policies.simulator.directed import directed
from ltp_switcher.policies.simulator.paths import NEVER, PPS_PER_MBPS, Flows, Paths
from ltp_switcher.policies.simulator.simulator import Roster, SimulatedInterval, Simulator
from ltp_switcher.policies.simulator.tasks import episode_seed
from ltp_switcher.policies.simulator.totals import Totals

DURATION_S: Final = 45.0
WARM_UP_S: Final = 9.0
"""Time at the start of a run that is left out of the figures, in seconds."""
REPEATS: Final = 3
"""Number of runs of each link. Each run begins at a different place of a trace."""

Agents = Callable[[int, np.random.Generator], SimulatedAgent]


class _ToldArm(OwlArm):
    """Owl with the reports of a simulated agent, on all rows of each link."""

    def __init__(self, network: Network, agent: SimulatedAgent, rows: int) -> None:
        super().__init__(OwlSignals(), network)
        self._agent = agent
        self._rows = rows

    def _reports(self) -> tuple[Floats, Floats, Floats]:
        agent, rows = self._agent, self._rows
        return np.tile(agent.pnc_pkts, rows), np.tile(agent.pna, rows), np.tile(agent.known, rows)


def play(
    paths: Paths,
    flows: Flows,
    roster: Roster,
    network: Network | None,
    agents: Agents = SimulatedAgent.at_bottleneck,
) -> Totals:
    """Run one simulation and return its record without the warm-up. `network` gives the Q values for the rows
    under Owl; None for a roster without such rows.
    """
    simulator = Simulator(paths, flows, roster, seed=1, interval_s=INTERVAL_S)
    agent = agents(paths.count, np.random.default_rng(episode_seed(paths) + 1))

    def report(interval: SimulatedInterval) -> None:
        agent.observe(interval, simulator.bottleneck.departed)

    arm = None if network is None else _ToldArm(network, agent, roster.window)
    intervals = directed(simulator, arm, duration_s=DURATION_S, before=report)
    return Totals.of((seen for seen, _ in intervals), roster.count, paths.count, after_s=WARM_UP_S)


def power(totals: Totals) -> Floats:
    """Return the power of each flow, throughput over delay (Owl, Eq. 12), in Mbit/s over s, shape (F, E). NaN
    marks a flow without acknowledged packets.
    """
    return totals.received_mbps / totals.rtt_s


def beside_cubic(
    network: Network, rate_mbps: Floats, rtt_ms: Floats, agents: Agents = SimulatedAgent.at_bottleneck
) -> Floats:
    """Return Owl's throughput over the throughput of a Cubic flow beside it, shape (n,).

    The buffer of each link is 1 BDP.
    """
    paths = replace(
        Paths.uniform(len(rtt_ms) * REPEATS),
        rate_mbps=np.repeat(rate_mbps, REPEATS),
        rtt_ms=np.repeat(rtt_ms, REPEATS),
        buffer_pkts=np.repeat(rate_mbps * PPS_PER_MBPS * rtt_ms / 1e3, REPEATS),
    )
    roster = Roster(window=1, cubic=1)
    received = play(paths, Flows.forever(2, paths.count), roster, network, agents).received_mbps
    ours, cubic = received.reshape(2, len(rtt_ms), REPEATS).mean(axis=2)
    ratios: Floats = ours / cubic
    return ratios


def from_equilibrium(network: Network, count: int, *, rate_mbps: float, rtt_ms: float) -> float:
    """Return the largest relative deviation of the sending rates of 2 or 3 Owl-Loss flows from their
    equilibrium (Owl, Eq. 9).
    """
    paths = Paths.uniform(REPEATS, rate_mbps=rate_mbps, rtt_ms=rtt_ms)
    present = np.arange(3)[:, None] < np.full(REPEATS, count)
    flows = replace(Flows.forever(3, REPEATS), start_s=np.where(present, 0.0, NEVER))
    sent_mbps = play(paths, flows, Roster(window=3), network).sent_mbps[:count]
    expected_mbps = equilibrium(rate_mbps, [OWL_LOSS.delta] * count)[0]
    return float(np.abs(sent_mbps / expected_mbps - 1.0).max())
