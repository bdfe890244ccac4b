# SPDX-License-Identifier: Apache-2.0
"""The trainer of a task whose best policy is known; a training takes a second."""

from __future__ import annotations

from collections.abc import Mapping

from ltp_switcher.policies.runtime.inference import Layer
from ltp_switcher.policies.training.loop import Schedule
from ltp_switcher.policies.training.networks import Stack
from ltp_switcher.policies.training.td3 import Td3, Td3Config
from ltp_switcher.policies.training.trainer import Networks, Trainer
from support.tiny_tasks import Integrator

LAYERS = (Layer("dense", 16, "relu"), Layer("dense", 1, "tanh"))


class Tiny(Trainer[Td3]):
    name = "tiny"
    bonus = 0.0
    judged_seed = 77
    schedule = Schedule(episodes=6, steps=10, updates=5)
    limits = ("Only integrates.",)

    def environment(self) -> Integrator:
        return Integrator()

    def agent(self, seed: int, device: str) -> Td3:
        config = Td3Config(exploration=0.3, random_frames=20, batch=32)
        return Td3(Stack(1, LAYERS), 1, 1, head=LAYERS[:1], config=config, seed=seed, device=device)

    def score(self, agent: Td3, reward: float) -> float:
        return reward + self.bonus

    def networks(self, agent: Td3) -> Networks:
        assert isinstance(agent.average, Stack)
        return {"actor": (LAYERS, agent.average.arrays())}

    def settings(self) -> Mapping[str, object]:
        return {"step": 0.4, "bonus": self.bonus}
