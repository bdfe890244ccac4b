# SPDX-License-Identifier: Apache-2.0
"""Train LTP, or a variant of it, in the simulator: `make train-ltp`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from ltp_switcher.policies.ltp.reward import Weights
from ltp_switcher.policies.ltp.task import FLOWS, REGIONS, ROSTER, LtpTask, critics_see
from ltp_switcher.policies.ltp.variants import VARIANTS
from ltp_switcher.policies.runtime.inference import Layer
from ltp_switcher.policies.simulator.tasks import Environment
from ltp_switcher.policies.training.command import parser, run
from ltp_switcher.policies.training.loop import Schedule
from ltp_switcher.policies.training.networks import PartialView, Stack
from ltp_switcher.policies.training.td3 import Td3, Td3Config
from ltp_switcher.policies.training.trainer import ActorTrainer

PARTICLES: Final = 100
"""Number of particles in training. The paper has 1000; docs/lab-notes/ltp.md compares the two numbers."""
ENVIRONMENTS: Final = 64
DURATION_S: Final = 12.0
_AMONG_THEMSELVES: Final[Mapping[str, Any]] = {"flows": (1, 3), "cubic_share": 0.0}
_BESIDE_CUBIC: Final[Mapping[str, Any]] = {"flows": (2, 3), "cubic_share": 1.0, "loss": (0.0, 0.0)}
"""Half of the links have LTP flows alone, and half have Cubic flows, too. Under random loss Cubic leaves its
share to others, and a policy that knows only such Cubic flows gives way to all others. So links with Cubic
have no random loss.

On half of the links with Cubic all flows start together. A policy that always starts first learns to hold
half of the rate that it once had.
"""
LAYERS: Final = (
    Layer("dense", 128, "relu"),
    Layer("gru", 128),
    Layer("dense", 128, "relu"),
    Layer("dense", 1, "tanh"),
)
HEAD: Final = (Layer("dense", 128, "relu"), Layer("dense", 128, "relu"))
CONFIG: Final = Td3Config(
    actor_rate=2e-4,
    critic_rate=1e-3,
    discount=0.98,
    trace=0.9,
    target_rate=0.02,
    batch=64,
    steps=20,
    burn_in=8,
    stride=20,
    replay=30_000,
    exploration=0.3,
    random_frames=600,
    hold=12,
    critics_first=300,
)
TICK_S: Final = 0.002
_JUDGED_PATHS: Final = 100


class LtpTrainer(ActorTrainer):
    """The trainer of LTP and its variants; see `Trainer`."""

    judged_seed = 2_000_003
    schedule = Schedule(episodes=100, steps=20, updates=12)
    limits: tuple[str, ...] = (
        "Trained with 1 to 3 flows of one bottleneck, drop-tail, up to 600 Mbit/s and 240 ms.",
        "Never met a link whose rate changes, a policer or an AQM in training.",
    )

    def __init__(self, variant: str, region: str) -> None:
        self.name = variant
        self._variant = VARIANTS[variant]
        drawn = replace(REGIONS[region], flows=FLOWS)
        alone = replace(drawn, **_AMONG_THEMSELVES)
        beside = replace(drawn, **_BESIDE_CUBIC)
        self._regions = (alone, alone, beside, replace(beside, start_within=0.0))
        self._seen = self._variant.signals().observation_size + self._variant.truths

    def environment(self) -> Environment:
        """See `Trainer`."""
        return self._environment(ENVIRONMENTS, bounded=True)

    def judged(self) -> Environment:
        """See `Trainer`. Here windows are not bounded as in training."""
        return self._environment(_JUDGED_PATHS, bounded=False)

    def _environment(self, environments: int, *, bounded: bool) -> Environment:
        particles = PARTICLES if self._variant.probe else 0
        task = LtpTask(self._variant.signals(), ROSTER.window, particles=particles, bounded=bounded)
        return Environment(
            task, self._regions, ROSTER, environments=environments, duration_s=DURATION_S, tick_s=TICK_S
        )

    def agent(self, seed: int, device: str) -> Td3:
        """See `Trainer`."""
        actor = PartialView(Stack(self._seen, LAYERS), self._seen)
        size = critics_see(self._variant.signals(), probe=self._variant.probe)
        return Td3(actor, size, 1, head=HEAD, config=CONFIG, seed=seed, device=device)

    def settings(self) -> Mapping[str, object]:
        """See `Trainer`."""
        return {
            "variant": self.name,
            "td3": asdict(CONFIG),
            "regions": [asdict(region) for region in self._regions],
            "roster": asdict(ROSTER),
            "reward": asdict(Weights()),
            "particles": PARTICLES if self._variant.probe else 0,
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Train LTP or a variant as the arguments say; returns the exit status."""
    command = parser("ltp", __doc__)
    command.add_argument("--variant", choices=VARIANTS, default="ltp")
    command.add_argument("--region", choices=REGIONS, default="large")
    options = command.parse_args(arguments)
    return run(LtpTrainer(options.variant, options.region), options)


if __name__ == "__main__":
    sys.exit(main())
