# SPDX-License-Identifier: Apache-2.0
"""The base of a policy's trainer: the description that a policy must give, with defaults."""

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
    """The description of a policy that `command.run` trains. `A` is the type of its agent, `Td3` or `Dqn`."""

    name: str
    """Name of the policy or its variant. The files of the weights and the card have the same name."""
    schedule: Schedule
    """Schedule of a full training, which `--episodes` shortens."""
    limits: tuple[str, ...]
    """Sentences for the card about conditions in which the policy was not trained or is known to fail."""
    judged_seed: int
    """Seed of the episodes that judge the trained agent."""
    judged_episodes: int = 1

    @abstractmethod
    def environment(self) -> Episodes:
        """Build the training environment. The loop draws the seeds by which the episodes differ."""

    def validation(self) -> Episodes:
        """Build the environment on which the best episode's weights are chosen."""
        return self.environment()

    def judged(self) -> Episodes:
        """Build the environment on which the trained agent is judged."""
        return self.environment()

    @abstractmethod
    def agent(self, seed: int, device: str) -> A:
        """Build an agent that has learned nothing yet. `device` is PyTorch's device."""

    def evaluate(self, agent: A) -> Mapping[str, float]:
        """Judge the trained agent without exploration on held-out links, and return figures by name. They
        must include "reward".
        """
        reward = evaluate(agent, self.judged(), seed=self.judged_seed, episodes=self.judged_episodes)
        return {"reward": reward}

    def score(self, agent: A, reward: float) -> float:
        """Return the score by which the best episode and the best seed are chosen. `reward` is the reward on
        held-out links.
        """
        return reward

    @abstractmethod
    def networks(self, agent: A) -> Networks:
        """Return the networks to export by name, each as the layers and arrays of a `Stack`."""

    @abstractmethod
    def settings(self) -> Mapping[str, object]:
        """Return hyperparameters, region and roster for the card."""


class ActorTrainer(Trainer[Td3]):
    """A trainer of a single actor, which sees only a part of an observation. The critics see all of it."""

    def networks(self, agent: Td3) -> Networks:
        """See `Trainer`."""
        stack = stack_of(agent.average)
        return {"actor": (stack.layers, stack.arrays())}
