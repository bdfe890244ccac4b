# SPDX-License-Identifier: Apache-2.0
"""Owl on given links of the simulator, without exploration and from slow start on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats
from ltp_switcher.policies.owl.reward import OWL, OWL_LOSS, equilibrium
from ltp_switcher.policies.owl.signals import INTERVAL_S
from ltp_switcher.policies.owl.task import OwlTask, SimulatedAgent
from ltp_switcher.policies.runtime.inference import Network
from ltp_switcher.policies.simulator.paths import NEVER, PPS_PER_MBPS, Flows, Paths
from ltp_switcher.policies.simulator.simulator import Roster, Simulator

DURATION_S: Final = 45.0
WARM_UP_S: Final = 9.0
"""The time before does not count."""
REPEATS: Final = 3
"""Of each link; of a trace, from other places on."""

Agents = Callable[[int, np.random.Generator], SimulatedAgent]


@dataclass(frozen=True)
class Outcome:
    """Means over a run without its warm-up, shape (F, E) each."""

    sent_mbps: Floats
    received_mbps: Floats
    rtt_s: Floats

    @property
    def power(self) -> Floats:
        """Eq. 12, Mbit/s over s."""
        return self.received_mbps / self.rtt_s


def play(
    paths: Paths,
    flows: Flows,
    roster: Roster,
    network: Network | None,
    agents: Agents = SimulatedAgent.at_bottleneck,
) -> Outcome:
    """Run one simulation; `network` gives the Q values of the window rows."""
    simulator = Simulator(paths, flows, roster, seed=1, interval_s=INTERVAL_S)
    task = OwlTask(roster.window, OWL, agent=agents, bounded=False)
    if network is not None:
        task.begin(simulator, paths, flows)
    totals = np.zeros((3, roster.count, paths.count))
    while simulator.now_s < DURATION_S:
        interval = simulator.step()
        if network is not None:
            observations, _ = task.observe(interval)
            task.apply(network.step(network.initial_state(len(observations)), observations)[1].argmax(axis=1))
        if simulator.now_s > WARM_UP_S:
            totals += (interval.sent_pkts, interval.acked_pkts, interval.acked_pkts * interval.rtt_s)
    sent, acked, weighted = totals
    pkts = PPS_PER_MBPS * (DURATION_S - WARM_UP_S)
    rtt_s = np.divide(weighted, acked, out=np.full_like(acked, np.nan), where=acked > 0.0)
    return Outcome(sent / pkts, acked / pkts, rtt_s)


def beside_cubic(
    network: Network, rate_mbps: Floats, rtt_ms: Floats, agents: Agents = SimulatedAgent.at_bottleneck
) -> Floats:
    """Throughput beside one Cubic flow over Cubic's, of links with a buffer of 1 BDP, shape (n,) each."""
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
    """Largest relative deviation of the rates at which Owl-Loss flows, 2 or 3, send from Eq. 9."""
    paths = Paths.uniform(REPEATS, rate_mbps=rate_mbps, rtt_ms=rtt_ms)
    present = np.arange(3)[:, None] < np.full(REPEATS, count)
    flows = replace(Flows.forever(3, REPEATS), start_s=np.where(present, 0.0, NEVER))
    sent_mbps = play(paths, flows, Roster(window=3), network).sent_mbps[:count]
    expected_mbps = equilibrium(rate_mbps, [OWL_LOSS.delta] * count)[0]
    return float(np.abs(sent_mbps / expected_mbps - 1.0).max())
