# SPDX-License-Identifier: Apache-2.0
"""Train LTP, or a variant of it, in the simulator."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final

from ltp_switcher.policies.inference import Layer
from ltp_switcher.policies.ltp.reward import Weights
from ltp_switcher.policies.ltp.signals import LtpSignals
from ltp_switcher.policies.ltp.task import TRUTHS, LtpTask
from ltp_switcher.policies.simulator.regions import LTP_LARGE, LTP_MEDIUM, LTP_SMALL, Region
from ltp_switcher.policies.simulator.simulator import Roster
from ltp_switcher.policies.simulator.tasks import Environment
from ltp_switcher.policies.training.command import Networks, parser, run
from ltp_switcher.policies.training.loop import Schedule, evaluate
from ltp_switcher.policies.training.networks import PartialView, Stack
from ltp_switcher.policies.training.td3 import Td3, Td3Config

REGIONS: Final = {"small": LTP_SMALL, "medium": LTP_MEDIUM, "large": LTP_LARGE}
ROSTER: Final = Roster(window=3, cubic=2)
FLOWS: Final = (1, 4)
"""Of a link; the paper has 2 to 10."""
PARTICLES: Final = 100
LAYERS: Final = (
    Layer("dense", 128, "relu"),
    Layer("gru", 128),
    Layer("dense", 128, "relu"),
    Layer("dense", 1, "tanh"),
)
HEAD: Final = (Layer("dense", 128, "relu"), Layer("dense", 128, "relu"))
CONFIG: Final = Td3Config(
    actor_rate=5e-4,
    critic_rate=1e-3,
    discount=0.98,
    batch=64,
    steps=12,
    burn_in=8,
    stride=12,
    replay=40_000,
    exploration=0.3,
    random_frames=100,
)
_EVALUATION_SEED: Final = 2_000_003
_DURATION_S: Final = 12.0


class LtpTrainer:
    """See `Trainer`."""

    name = "ltp"
    schedule = Schedule(episodes=60, steps=20, updates=20)
    limits = ()

    def __init__(self, region: str, *, probe: bool) -> None:
        self._region: Region = replace(REGIONS[region], flows=FLOWS)
        self._probe = probe

    def environment(self) -> Environment:
        """See `Trainer`."""
        return self._environment(64, bounded=True)

    def _environment(self, environments: int, *, bounded: bool) -> Environment:
        task = LtpTask(
            LtpSignals(), ROSTER.window, particles=PARTICLES if self._probe else 0, bounded=bounded
        )
        return Environment(task, self._region, ROSTER, environments=environments, duration_s=_DURATION_S)

    def agent(self, seed: int, device: str) -> Td3:
        """See `Trainer`."""
        seen = LtpSignals.observation_size
        actor = PartialView(Stack(seen, LAYERS), seen)
        return Td3(actor, seen + TRUTHS, 1, head=HEAD, config=CONFIG, seed=seed, device=device)

    def evaluate(self, agent: Td3) -> Mapping[str, float]:
        """See `Trainer`."""
        return {"reward": evaluate(agent, self._environment(100, bounded=False), seed=_EVALUATION_SEED)}

    def networks(self, agent: Td3) -> Networks:
        """See `Trainer`."""
        actor = agent.actor
        if not isinstance(actor, PartialView):
            raise TypeError(f"an agent of another trainer: {type(actor).__name__}")
        return {"actor": (LAYERS, actor.stack.arrays())}

    def settings(self) -> Mapping[str, object]:
        """See `Trainer`."""
        return {"td3": asdict(CONFIG), "region": asdict(self._region), "reward": asdict(Weights())}


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line; returns the exit status."""
    command = parser("ltp", __doc__)
    command.add_argument("--region", choices=REGIONS, default="large")
    command.add_argument("--no-probe", action="store_true")
    options = command.parse_args(arguments)
    return run(LtpTrainer(options.region, probe=not options.no_probe), options)


if __name__ == "__main__":
    sys.exit(main())
