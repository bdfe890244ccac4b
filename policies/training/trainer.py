# SPDX-License-Identifier: Apache-2.0
"""The base of a policy's trainer: its description of itself, and the usual answers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from ltp_switcher.policies.runtime.inference import Layer
from ltp_switcher.policies.training.loop import Episodes, Learner, Schedule, evaluate
from ltp_switcher.policies.training.networks import stack_of
from ltp_switcher.policies.training.td3 import Td3

Networks = Mapping[str, tuple[Sequence[Layer], Mapping[str, NDArray[np.generic]]]]
A = TypeVar("A", bound=Learner)


class Trainer(ABC, Generic[A]):
    """A policy, as `command.run` trains it. `A` is its kind of agent, `Td3` or `Dqn`."""

    name: str
    """Name of the policy or its variant, of which the weights and the card have theirs."""
    schedule: Schedule
    """A full training; `--episodes` shortens it."""
    limits: tuple[str, ...]
    """Sentences for the card: where the policy has not been trained, or is known to fail."""
    judged_seed: int
    """Seed of the episodes that judge the trained agent."""
    judged_episodes: int = 1

    @abstractmethod
    def environment(self) -> Episodes:
        """Build the training environment. Episodes differ by the seeds that the loop draws, not by this."""

    def validation(self) -> Episodes:
        """Build the environment on which the best episode's weights are chosen."""
        return self.environment()

    def judged(self) -> Episodes:
        """Build the environment on which the trained agent is judged."""
        return self.environment()

    @abstractmethod
    def agent(self, seed: int, device: str) -> A:
        """Build a fresh agent."""

    def evaluate(self, agent: A) -> Mapping[str, float]:
        """Judge the trained agent, without exploration, on links kept for it; must have "reward"."""
        reward = evaluate(agent, self.judged(), seed=self.judged_seed, episodes=self.judged_episodes)
        return {"reward": reward}

    def score(self, agent: A, reward: float) -> float:
        """The score that chooses the best episode and the best seed, given the reward on held-out links."""
        return reward

    @abstractmethod
    def networks(self, agent: A) -> Networks:
        """The networks to export, by name: layers and arrays, as `Stack` has them."""

    @abstractmethod
    def settings(self) -> Mapping[str, object]:
        """Hyperparameters, region and roster, for the card."""


class ActorTrainer(Trainer[Td3]):
    """A trainer of one actor, which sees a part of the critics' observations."""

    def networks(self, agent: Td3) -> Networks:
        """See `Trainer`."""
        stack = stack_of(agent.average)
        return {"actor": (stack.layers, stack.arrays())}
