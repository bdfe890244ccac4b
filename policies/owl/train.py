# SPDX-License-Identifier: Apache-2.0
"""Train Owl in the simulator, or Owl-Loss with --variant owl-loss."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final

import numpy as np

from ltp_switcher.policies.owl.cellular import training_trace
from ltp_switcher.policies.owl.play import beside_cubic, from_equilibrium
from ltp_switcher.policies.owl.reward import OWL as OWL_UTILITY
from ltp_switcher.policies.owl.reward import OWL_LOSS, Utility
from ltp_switcher.policies.owl.signals import ACTIONS, HISTORY
from ltp_switcher.policies.owl.task import HIDDEN_SHARE, OwlTask, SimulatedAgent
from ltp_switcher.policies.runtime.inference import Layer, Network
from ltp_switcher.policies.simulator.regions import OWL as TABLE_II
from ltp_switcher.policies.simulator.regions import Region
from ltp_switcher.policies.simulator.simulator import Roster
from ltp_switcher.policies.simulator.tasks import Environment
from ltp_switcher.policies.training.command import parser, run
from ltp_switcher.policies.training.dqn import Dqn, DqnConfig
from ltp_switcher.policies.training.loop import Schedule
from ltp_switcher.policies.training.trainer import Networks, Trainer

HIDDEN: Final = (Layer("dense", 512, "relu"), Layer("dense", 256, "relu"))
"""Hidden layers of the network (Owl, Table II and Fig. 14b)."""
RTT_MS: Final = (1.0, 140.0)
"""Range of base RTTs in training, in ms. Owl, Table II, has 1 to 40 ms, but friendliness is judged up to 120
ms.
"""
LONG_BESIDE_CUBIC: Final = replace(
    TABLE_II,
    rate_mbps=(20, 100),
    rtt_ms=(20.0, 140.0),
    buffer_bdp=(0.5, 2.0),
    buffer_pkts=None,
    flows=(2, 2),
    cubic_share=1.0,
)
"""Region of a third of the links. Half of the buffers in Owl, Table II, have less than 80 packets, where
Cubic never queues many packets. Without the links of this region, Owl yielded to Cubic: at 100 Mbit/s and 120
ms its throughput fell to 0.3 of Cubic's.
"""
ENVIRONMENTS: Final = 66
DURATION_S: Final = 10.0
TICK_S: Final = 0.002
"""Length of the simulator's tick in seconds. The simulation runs twice as fast as with 1 ms, and is nearly as
accurate for base RTTs from 5 ms.
"""
CONFIG: Final = DqnConfig(
    rate=7e-4,
    discount=0.93,
    batch=256,
    replay=150_000,
    target_every=200,
    epsilon_frames=3_000,
    average=0.9995,
)

BESIDE_CUBIC: Final = np.array(((40.0, 25.0), (100.0, 25.0), (60.0, 75.0), (100.0, 75.0), (100.0, 130.0))).T
"""Rates (Mbit/s) and RTTs (ms) of five links, shape (2, 5). Owl shares each link with a Cubic flow, and the
result helps to choose the weights that are kept. `evaluate` uses other links.
"""
UNFRIENDLY: Final = 0.5
"""Score that is lost for each factor e between the throughputs of Owl and Cubic, when the weights to keep are
chosen. From episode to episode friendliness changes by a factor of 3 while the reward hardly changes, because
Owl, Eq. 7, does not reward friendliness.
"""


def friendliness(network: Network) -> float:
    """Score how near Owl's throughput is to the throughput of a Cubic flow beside it, with the network's
    reports and without.

    The score is 0 if they are equal, and negative otherwise.
    """
    rate_mbps, rtt_ms = BESIDE_CUBIC
    ratios = [
        beside_cubic(network, rate_mbps, rtt_ms, agents)
        for agents in (SimulatedAgent.at_bottleneck, SimulatedAgent.hidden)
    ]
    return -UNFRIENDLY * float(np.abs(np.log(ratios)).mean())


def equilibrium(network: Network) -> float:
    """Score how near the sending rates of two and three flows are to their equilibrium (Owl, Eq. 9).

    The score is 0 in the equilibrium, and negative otherwise. `evaluate` uses other links.
    """
    return -float(
        np.mean([from_equilibrium(network, count, rate_mbps=60.0, rtt_ms=40.0) for count in (2, 3)])
    )


class OwlTrainer(Trainer[Dqn]):
    """The trainer of Owl or Owl-Loss; see `Trainer`."""

    judged_seed = 77
    judged_episodes = 4
    schedule = Schedule(episodes=45, steps=4, updates=8)
    limits: tuple[str, ...] = (
        "Trained on 6 to 100 Mbit/s, 1 to 140 ms, 3 to 2000 packets of buffer, no random loss, and an LTE-"
        "like model's trace, beside at most one other flow (Owl-Loss: two).",
        "Steps of ten packets at most: on paths of thousands of packets it takes seconds to follow a change.",
        "Trained in a simulator without delayed or lost ACKs, time-outs, and queues other than drop-tail.",
    )

    def __init__(
        self,
        name: str,
        utility: Utility,
        regions: tuple[Region, ...],
        roster: Roster,
        bonus: Callable[[Network], float],
    ) -> None:
        self.name = name
        self._bonus = bonus
        self._utility = utility
        self._regions = regions
        self._roster = roster

    def environment(self) -> Environment:
        """See `Trainer`."""
        return Environment(
            OwlTask(self._roster.agents, self._utility),
            self._regions,
            self._roster,
            environments=ENVIRONMENTS,
            duration_s=DURATION_S,
            tick_s=TICK_S,
        )

    def agent(self, seed: int, device: str) -> Dqn:
        """See `Trainer`."""
        size = self.environment().task.observation_size
        return Dqn(size, len(ACTIONS), hidden=HIDDEN, config=CONFIG, seed=seed, device=device)

    def score(self, agent: Dqn, reward: float) -> float:
        """See `Trainer`."""
        return reward + self._bonus(Network(agent.average.layers, agent.average.arrays()))

    def networks(self, agent: Dqn) -> Networks:
        """See `Trainer`."""
        return {"q": (agent.average.layers, agent.average.arrays())}

    def settings(self) -> Mapping[str, object]:
        """See `Trainer`."""
        regions = [{**asdict(region), "traces": len(region.traces)} for region in self._regions]
        return {
            "dqn": asdict(CONFIG),
            "utility": asdict(self._utility),
            "regions": regions,
            "roster": asdict(self._roster),
            "actions_pkts": ACTIONS.tolist(),
            "history": HISTORY,
            "hidden_share": HIDDEN_SHARE,
            "environments": ENVIRONMENTS,
            "duration_s": DURATION_S,
        }


def trainer(variant: str) -> OwlTrainer:
    """Return the trainer of the variant "owl" or "owl-loss"."""
    region = replace(TABLE_II, rtt_ms=RTT_MS, traces=(training_trace().astype(np.int64),))
    if variant == "owl-loss":
        alike = replace(region, trace_share=0.1, cubic_share=0.0)
        return OwlTrainer(variant, OWL_LOSS, (alike,), Roster(window=3), equilibrium)
    mixed = replace(region, trace_share=0.4, flows=(1, 2), cubic_share=0.75)
    return OwlTrainer(
        "owl", OWL_UTILITY, (mixed, mixed, LONG_BESIDE_CUBIC), Roster(window=2, cubic=1), friendliness
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Train Owl or Owl-Loss as the arguments say; returns the exit status."""
    made = parser("owl", __doc__)
    made.add_argument("--variant", choices=("owl", "owl-loss"), default="owl")
    options = made.parse_args(arguments)
    return run(trainer(options.variant), options)


if __name__ == "__main__":
    sys.exit(main())
