# SPDX-License-Identifier: Apache-2.0
"""Train Spine in the simulator, or Spine-Cubic with --law cubic."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final

from ltp_switcher.policies.runtime.arm import Arm, Law
from ltp_switcher.policies.runtime.inference import Layer, Network
from ltp_switcher.policies.simulator.regions import SPINE
from ltp_switcher.policies.simulator.simulator import Roster
from ltp_switcher.policies.simulator.tasks import Environment
from ltp_switcher.policies.spine import INTERVAL_S, arm_of
from ltp_switcher.policies.spine.actor import layers
from ltp_switcher.policies.spine.choice import friendliness, steadiness
from ltp_switcher.policies.spine.hierarchical_td3 import HierarchicalActor, HierarchicalTd3
from ltp_switcher.policies.spine.reward import DELAY_TOLERANCE, LOSS_WEIGHT, PIT_STOP_PENALTY
from ltp_switcher.policies.spine.signals import SCALES, SpineSignals
from ltp_switcher.policies.spine.task import SETTLED_SHARE, MixedEpisodes, SpineTask
from ltp_switcher.policies.training.command import parser, run
from ltp_switcher.policies.training.loop import Schedule
from ltp_switcher.policies.training.td3 import Td3Config
from ltp_switcher.policies.training.trainer import Networks, Trainer

_BESIDE_CUBIC: Final = (
    replace(SPINE, flows=(2, 3), cubic_share=1.0, loss=(0.0, 0.0)),
    replace(SPINE, flows=(2, 2), cubic_share=1.0, loss=(0.0, 0.0), rtt_spread=0.0, start_within=0.0),
)
REGIONS: Final = {
    Law.AIMD: (replace(SPINE, flows=(1, 1)), *_BESIDE_CUBIC),
    Law.CUBIC: (replace(SPINE, flows=(1, 1), loss=(0.0, 0.0005)), *_BESIDE_CUBIC),
}
"""Three regions from Spine, Table 3, with a third of the links each. In the first a flow is alone. In the
second Cubic flows ("a random number": Spine, Section 6) join the flow. In the third a Cubic flow starts
together with Spine's flow, before this flow knows its throughput alone.

Links with Cubic have no random loss. Under random loss Cubic leaves its share to others, and it is not unfair
to take that share. Spine-Cubic meets little random loss, because Cubic with any constants mistakes random
loss for congestion.
"""
INTERVALS_S: Final = (0.100, 0.200, 0.300)
ROSTERS: Final = {
    Law.AIMD: Roster(aimd=1, cubic=2),
    Law.CUBIC: Roster(cubic=3, learned_cubic=1),
}
NAMES: Final = {Law.AIMD: "spine", Law.CUBIC: "spine-cubic"}
EPISODES: Final = {Law.AIMD: 100, Law.CUBIC: 12}
"""Number of training episodes for each law. The longer Spine-Cubic trains, the more goodput it gives up for
less RTT: 4.6 % after 60 episodes.
"""
ENVIRONMENTS: Final = 48
DURATION_S: Final = 30.0
TICK_S: Final = 0.002
"""Length of the simulator's tick in seconds, a tenth of the shortest RTT."""
CONFIG: Final = Td3Config(
    actor_rate=4e-4,
    critic_rate=1e-3,
    discount=0.98,
    batch=64,
    steps=5,
    burn_in=2,
    stride=5,
    replay=20_000,
    target_rate=0.02,
    exploration=0.2,
    trace=0.8,
    starts=True,
    random_frames=700,
    critics_first=1_000,
    action_weight=0.05,
)
"""Hyperparameters of Spine, Table 6, and the ones that the table leaves open. The paper does not explain the
table's action control coefficient.
"""
SETTLE_AFTER: Final = 70 * 300
"""Number of gradient steps before the last thirty episodes, in which the generator no longer learns. Before
that the trigger fires too often for a choice of weights.
"""


class SpineTrainer(Trainer[HierarchicalTd3]):
    """The trainer of Spine over a law; see `Trainer`."""

    judged_seed = 1_000_033
    judged_episodes = 6
    limits: tuple[str, ...] = (
        "Trained on 40 to 200 Mbit/s, 20 to 200 ms, 0.5 to 2 BDP of buffer, beside at most two Cubic flows.",
        "Trained on up to 1 % of random loss, Spine-Cubic on up to 0.05 %.",
        "Trained in a simulator without delayed or lost ACKs, time-outs, and rates that change.",
        "Fairness among Spine flows is not trained for.",
    )

    def __init__(self, law: Law, penalty: float = PIT_STOP_PENALTY) -> None:
        self.name = NAMES[law]
        # Gradient steps come once an episode, so that long intervals, with fewer steps, teach as much.
        self.schedule = Schedule(episodes=EPISODES[law], steps=1_000_000, updates=300)
        self._law = law
        self._penalty = penalty

    def environment(self) -> MixedEpisodes:
        """See `Trainer`."""
        return MixedEpisodes([self._environment(interval_s) for interval_s in INTERVALS_S])

    def validation(self) -> Environment:
        """See `Trainer`."""
        return self._environment(INTERVAL_S)

    def _environment(self, interval_s: float) -> Environment:
        roster = ROSTERS[self._law]
        return Environment(
            SpineTask(SpineSignals(self._law, interval_s), roster.agents, self._penalty),
            REGIONS[self._law],
            roster,
            environments=ENVIRONMENTS,
            duration_s=DURATION_S,
            interval_s=interval_s,
            tick_s=TICK_S,
        )

    def agent(self, seed: int, device: str) -> HierarchicalTd3:
        """Make an untrained agent on this PyTorch device."""
        signals = SpineSignals(self._law, INTERVALS_S[0])
        size, parameters = signals.observation_size, signals.parameters
        return HierarchicalTd3(
            HierarchicalActor(size, parameters, layers(parameters)),
            size,
            trunk=(Layer("lstm", 128),),
            penalty=self._penalty,
            settle_after=SETTLE_AFTER,
            config=CONFIG,
            seed=seed,
            device=device,
        )

    def score(self, agent: HierarchicalTd3, reward: float) -> float:
        """See `Trainer`."""
        networks = {name: Network(stack, arrays) for name, (stack, arrays) in self.networks(agent).items()}

        def arms(interval_s: float) -> Arm:
            return arm_of(networks, self._law, interval_s)

        score = reward + friendliness(arms)
        return score + steadiness(arms) if self._law is Law.AIMD else score

    def networks(self, agent: HierarchicalTd3) -> Networks:
        """See `Trainer`."""
        actor = agent.average
        assert isinstance(actor, HierarchicalActor)  # noqa: S101 (made above)
        return actor.networks()

    def settings(self) -> Mapping[str, object]:
        """See `Trainer`."""
        return {
            "td3": asdict(CONFIG),
            "regions": [asdict(region) for region in REGIONS[self._law]],
            "roster": asdict(ROSTERS[self._law]),
            "environments": ENVIRONMENTS,
            "duration_s": DURATION_S,
            "intervals_s": INTERVALS_S,
            "scales": [asdict(scale) for scale in SCALES[self._law]],
            "loss_weight": LOSS_WEIGHT,
            "delay_tolerance": DELAY_TOLERANCE,
            "settle_after": SETTLE_AFTER,
            "settled_share": SETTLED_SHARE if self._law is Law.AIMD else 0.0,
            "pit_stop_penalty": self._penalty,
        }


def _penalty(text: str) -> float:
    try:
        penalty = float(text)
    except ValueError:
        penalty = -1.0
    if not 0.0 <= penalty <= 1.0:
        raise argparse.ArgumentTypeError(f"{text} is not valid; allowed: 0 to 1")
    return penalty


def main(arguments: Sequence[str] | None = None) -> int:
    """Train Spine or Spine-Cubic as the arguments say; returns the exit status."""
    options = parser("spine", __doc__)
    options.add_argument(
        "--law",
        type=Law,
        choices=tuple(NAMES),
        default=Law.AIMD,
        help="the law that executes the sub-policies (aimd)",
    )
    options.add_argument(
        "--pit-stop-penalty",
        type=_penalty,
        default=PIT_STOP_PENALTY,
        metavar="A",
        help=f"the cost of a run of the policy generator, α_psp, 0 to 1 ({PIT_STOP_PENALTY:g})",
    )
    chosen = options.parse_args(arguments)
    return run(SpineTrainer(chosen.law, chosen.pit_stop_penalty), chosen)


if __name__ == "__main__":
    sys.exit(main())
