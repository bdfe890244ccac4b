# SPDX-License-Identifier: Apache-2.0
"""DQN (Mnih et al. 2015) for Owl: experience replay, a target network, and ε-greedy actions (Owl, Section III
and Table II).

There is no double or dueling variant, because the authors of Owl saw no difference (Owl, Section III-B).
Every transition bootstraps, as in `td3`. The running average of the weights is exported and acts without
exploration, because the weights of a single step still fluctuate.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ltp_switcher.policies.runtime.inference import Layer
from ltp_switcher.policies.simulator.tasks import Transition
from ltp_switcher.policies.training.networks import Stack, follow
from ltp_switcher.policies.training.parts import Agent, Part
from ltp_switcher.policies.training.replay import Frame, Recorder, Replay


@dataclass(frozen=True)
class DqnConfig:
    """Hyperparameters of DQN. Only the default of the discount is from Owl, Table II. The paper's learning
    rate, 0.006, is not used.
    """

    rate: float = 1e-3
    discount: float = 0.93
    batch: int = 64
    replay: int = 200_000
    target_every: int = 500
    """Number of gradient steps between two copies of the network into the target."""
    epsilon_first: float = 1.0
    epsilon_last: float = 0.05
    epsilon_frames: int = 10_000
    """Number of frames over which ε falls linearly."""
    gradient_clip: float = 10.0
    average: float = 0.998
    """Share of the old running average of the weights that remains after a gradient step."""


class Dqn(Agent):
    """The DQN agent. Actions are indices of choices, shape (slots,), int64.

    Args:
        observation_size: size of the task's observations, history included.
        choices: number of actions.
        hidden: layers before the Q values; Owl: 512 and 256.
        config: hyperparameters.
        seed: seed of all random numbers, including PyTorch's generator.
        device: PyTorch's device.
    """

    def __init__(
        self,
        observation_size: int,
        choices: int,
        *,
        hidden: Sequence[Layer] = (Layer("dense", 512, "relu"), Layer("dense", 256, "relu")),
        config: DqnConfig,
        seed: int,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.config = config
        self.device = torch.device(device)
        self._choices = choices
        self.network = Stack(observation_size, (*hidden, Layer("dense", choices))).to(self.device)
        self._target = copy.deepcopy(self.network)
        self.average = copy.deepcopy(self.network)
        self._optimiser = torch.optim.Adam(self.network.parameters(), lr=config.rate)
        self.replay = Replay(config.replay, 1, observation_size, 1, 0)
        self._recorder = Recorder(self.replay, 1, 1)
        self._no_state = np.zeros((0, 0), np.float32)
        self._actions = np.zeros(0, np.int64)

    def begin(self, slots: int) -> None:
        """Start a new episode with this number of slots."""
        self._actions = np.zeros(slots, np.int64)
        self._no_state = np.zeros((slots, 0), np.float32)
        self._recorder.begin()

    @property
    def epsilon(self) -> float:
        """Present share of random actions, ε."""
        done = min(1.0, self._frames / self.config.epsilon_frames)
        return self.config.epsilon_first + done * (self.config.epsilon_last - self.config.epsilon_first)

    def act(self, seen: Transition, *, explore: bool = True) -> NDArray[np.int64]:
        """Choose the actions, and record the observations if `explore` is set."""
        if explore:
            self.finish(seen)
        with torch.no_grad():
            network = self.network if explore else self.average
            values = self._values(network, torch.from_numpy(seen.observations).to(self.device))
        best = values.argmax(dim=1).cpu().numpy()
        if explore:
            random = self.rng.random(len(best)) < self.epsilon
            best = np.where(random, self.rng.integers(0, self._choices, len(best)), best)
        self._actions = best.astype(np.int64)
        return self._actions

    def finish(self, seen: Transition) -> None:
        """Record the last frame of an episode. `act` records all earlier frames of an episode
        that explores.
        """
        self._frames += 1
        actions = self._actions[:, None].astype(np.float32)
        self._recorder.add(Frame(seen.observations, actions, seen.rewards, self._no_state, seen.active))

    def learn(self, updates: int) -> dict[str, float]:
        """Do gradient steps (Owl, Eq. 2 and 3), and return the mean loss. Until the replay holds one batch,
        nothing happens.
        """
        if len(self.replay) < self.config.batch:
            return {}
        losses = []
        for _ in range(updates):
            batch = self.replay.sample(self.config.batch, self.rng)
            observations = torch.from_numpy(batch.observations).to(self.device)
            actions = torch.from_numpy(batch.actions[:, 1]).to(self.device).long()
            rewards = torch.from_numpy(batch.rewards[:, 1]).to(self.device)
            with torch.no_grad():
                best = self._values(self._target, observations[:, 1]).max(dim=1).values
                target = rewards + self.config.discount * best
            value = self._values(self.network, observations[:, 0]).gather(1, actions)[:, 0]
            loss = nn.functional.smooth_l1_loss(value, target)
            self._optimiser.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(self.network.parameters(), self.config.gradient_clip)
            self._optimiser.step()
            follow(self.average, self.network, 1.0 - self.config.average)
            losses.append(float(loss.detach()))
            self._updates += 1
            if self._updates % self.config.target_every == 0:
                self._target.load_state_dict(self.network.state_dict())
        return {"loss": float(np.mean(losses))}

    @staticmethod
    def _values(network: Stack, observations: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = network(observations[:, None], observations.new_zeros(len(observations), 0))[
            0
        ]
        return outputs[:, 0]

    def _parts(self) -> dict[str, Part]:
        return {
            "network": self.network,
            "target": self._target,
            "average": self.average,
            "optimiser": self._optimiser,
        }
