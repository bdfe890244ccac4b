# SPDX-License-Identifier: Apache-2.0
"""DDPG with TD3's three techniques, feed-forward or recurrent, for many flows that share one policy.

Sources: Lillicrap et al. 2016 (DDPG); Fujimoto et al. 2018 (TD3: clipped double Q, delayed policy updates,
target policy smoothing); Kapturowski et al. 2019 (R2D2: stored state, burn-in). The equations are LTP 24 to
26, Jury 10 to 12, Spine 16 to 18. As printed, the papers' critics fit r - γ Q'. Here they fit r + γ Q'.

LTP and Spine train on the last transition of a sequence. Here every transition after the burn-in counts,
which uses each forward pass better. On sequences of one transition the method is plain TD3. The actor's state
at a sequence's start is the stored one. The critics do not act, so they have no stored state and start from
zeros. The burn-in warms the states of both.

λ-returns run along the recorded actions, which today's actor may no longer take. Nothing corrects for this
difference, as in R2D2's n-step returns.

The control problems here have no end but their time limit, so every transition bootstraps.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ltp_switcher.policies.runtime.inference import Layer
from ltp_switcher.policies.simulator.tasks import Transition
from ltp_switcher.policies.training.networks import Critic, SequenceNetwork, TwinCritic, follow
from ltp_switcher.policies.training.parts import Agent, Part
from ltp_switcher.policies.training.replay import Frame, Recorder, Replay, Sequences

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Td3Config:
    """Hyperparameters. If the papers have no value, the value is TD3's.

    Training uses `steps` transitions of a sequence, after `burn_in` transitions that only warm the states. A
    new sequence begins every `stride` steps.
    """

    actor_rate: float = 5e-4
    critic_rate: float = 1e-3
    discount: float = 0.98
    batch: int = 64
    steps: int = 1
    burn_in: int = 0
    stride: int = 1
    starts: bool = False
    """Whether to learn from flows' first decisions, too, in separate sequences without a burn-in."""
    replay: int = 100_000
    target_rate: float = 0.005
    policy_delay: int = 2
    smoothing: float = 0.2
    smoothing_clip: float = 0.5
    exploration: float = 0.1
    trace: float = 0.0
    """λ of the critics' returns. If one action has little effect, the reward of one step does not show the
    effect, and bootstrapped values show it late. R2D2 uses several steps for the same reason.
    """
    random_frames: int = 0
    """Number of first frames of a run with random actions, uniform within ±1."""
    hold: int = 1
    """Mean number of frames for which a slot's exploration noise stays the same. If one action has little
    effect, independent noise cancels out, and the effect of a persistent change is never learned."""
    critics_first: int = 0
    """Number of first gradient steps that train the critics alone. An actor that follows untrained critics
    may get stuck at extreme actions."""
    average: float = 0.998
    """Share of the old running average of the actor's weights that remains after a step. The average acts
    without exploration and is exported, because the behaviour of a single step's actor still jumps."""
    gradient_clip: float = 10.0
    action_weight: float = 0.0
    """Weight of the squared actions in the actor's loss. It keeps tanh out of saturation and avoids
    needlessly strong reactions."""


class Td3(Agent):
    """The TD3 agent. Actions are within ±1.

    Args:
        actor: network whose outputs, within ±1, have the shape (batch, steps, action_size).
        observation_size: size of the task's observations.
        action_size: size of the task's actions.
        trunk: the critics' layers over the history, empty for a feed-forward critic.
        head: the critics' layers after the action has joined.
        config: hyperparameters.
        seed: seed of all random numbers, including PyTorch's generator.
        device: PyTorch's device.
    """

    def __init__(
        self,
        actor: SequenceNetwork,
        observation_size: int,
        action_size: int,
        *,
        trunk: Sequence[Layer] = (),
        head: Sequence[Layer] = (Layer("dense", 128, "relu"), Layer("dense", 128, "relu")),
        config: Td3Config,
        seed: int,
        device: str = "cpu",
    ) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.rng = np.random.default_rng(seed)
        self.config = config
        self.device = torch.device(device)
        self.actor = actor.to(self.device)
        self.critics = TwinCritic(
            self._critic(observation_size, action_size, trunk, head),
            self._critic(observation_size, action_size, trunk, head),
        ).to(self.device)
        self.average = copy.deepcopy(self.actor)
        self._target_actor = copy.deepcopy(self.actor)
        self._target_critics = copy.deepcopy(self.critics)
        self._actor_optimiser = torch.optim.Adam(self.actor.parameters(), lr=config.actor_rate)
        self._critic_optimiser = torch.optim.Adam(self.critics.parameters(), lr=config.critic_rate)
        self._action_size = action_size
        length = config.burn_in + config.steps
        self.replay = Replay(config.replay, length, observation_size, action_size, actor.state_size)
        self._recorder = Recorder(self.replay, length, config.stride, config.burn_in if config.starts else 0)
        self._states = torch.zeros(0, 0)
        self._actions = np.zeros((0, 0), np.float32)
        self._noise = np.zeros((0, 0))

    def _critic(
        self, observation_size: int, action_size: int, trunk: Sequence[Layer], head: Sequence[Layer]
    ) -> Critic:
        """Build one of the two critics."""
        return Critic(observation_size, action_size, trunk, head)

    def begin(self, slots: int) -> None:
        """Start a new episode with this number of slots, and forget the flows of the last episode."""
        self._states = torch.zeros(slots, self.actor.state_size, device=self.device)
        self._actions = np.zeros((slots, self._action_size), np.float32)
        self._noise = np.zeros((slots, self._action_size))
        self._recorder.begin()

    def act(self, seen: Transition, *, explore: bool = True) -> Array:
        """Choose the actions, shape (slots, action_size), and record the observations if `explore` is set."""
        if explore:
            self._record(seen)
        actor = self.actor if explore else self.average
        # An actor that draws something itself does so in training mode only.
        actor.train(explore)
        with torch.no_grad():
            inputs = torch.from_numpy(seen.observations).to(self.device)
            outputs, states = actor(inputs[:, None], self._states)
            # A flow that does not exist yet has to start without memory.
            self._states = states * torch.from_numpy(seen.active).to(self.device)[:, None]
        actions: Array = outputs[:, 0].cpu().numpy()
        self._actions = self._explored(actions) if explore else actions
        return self._actions

    def _explored(self, actions: Array) -> Array:
        """Return the actions with noise, or random actions during the first `random_frames` frames."""
        config, shape = self.config, actions.shape
        random = self._frames <= config.random_frames
        drawn = (
            self.rng.uniform(-1.0, 1.0, shape) if random else self.rng.normal(0.0, config.exploration, shape)
        )
        if config.hold > 1:
            drawn = np.where(self.rng.random((len(actions), 1)) < 1.0 / config.hold, drawn, self._noise)
        self._noise = drawn
        return np.clip(drawn if random else actions + drawn, -1.0, 1.0).astype(np.float32)

    def finish(self, seen: Transition) -> None:
        """Record the last frame of an episode."""
        self._record(seen)

    def _record(self, seen: Transition) -> None:
        self._frames += 1
        states = self._states.cpu().numpy()
        self._recorder.add(Frame(seen.observations, self._actions, seen.rewards, states, seen.active))

    def learn(self, updates: int) -> dict[str, float]:
        """Do gradient steps and return the mean losses. Until the replay holds one batch, nothing happens."""
        if len(self.replay) < self.config.batch:
            return {}
        losses: dict[str, list[float]] = {"critic_loss": [], "actor_loss": []}
        for _ in range(updates):
            batch = Batch(self.replay.sample(self.config.batch, self.rng), self.device)
            losses["critic_loss"].append(self._update_critics(batch))
            self._updates += 1
            if self._updates % self.config.policy_delay == 0:
                if self._updates > self.config.critics_first:
                    losses["actor_loss"].append(self._update_actor(batch))
                    follow(self._target_actor, self.actor, self.config.target_rate)
                    # At first the average is the plain mean. The untrained actor soon counts little in it.
                    done = (self._updates - self.config.critics_first) / self.config.policy_delay
                    follow(self.average, self.actor, max(1.0 - self.config.average, 1.0 / (1.0 + done)))
                follow(self._target_critics, self.critics, self.config.target_rate)
        return {name: float(np.mean(values)) for name, values in losses.items() if values}

    def _update_critics(self, batch: Batch) -> float:
        burn_in = self.config.burn_in
        with torch.no_grad():
            smoothed = self._smoothed(self._actions_of(self._target_actor, batch)[:, 1:])
            values = [
                critic.value(self._features(critic, batch)[:, 1:], smoothed)
                for critic in self._target_critics.both
            ]
            target = self._returns(batch.rewards[:, burn_in + 1 :], torch.minimum(*values))
        taken = batch.actions[:, burn_in + 1 :]
        loss = torch.zeros((), device=self.device)
        for critic in self.critics.both:
            value = critic.value(self._features(critic, batch)[:, :-1], taken)
            loss = loss + nn.functional.mse_loss(value, target)
        self._descend(self._critic_optimiser, loss, self.critics)
        return float(loss.detach())

    def _smoothed(self, proposed: Tensor) -> Tensor:
        """Return the target actor's actions with the noise of target policy smoothing."""
        noise = torch.randn_like(proposed) * self.config.smoothing
        noise = noise.clamp(-self.config.smoothing_clip, self.config.smoothing_clip)
        return (proposed + noise).clamp(-1.0, 1.0)

    def _returns(self, rewards: Tensor, values: Tensor) -> Tensor:
        """Return the λ-returns of each step, shape (batch, steps). `values` are the values after each step.
        With λ = 0 a return is r + γ Q'.
        """
        config, backed_up = self.config, values[:, -1]
        returns = []
        for step in reversed(range(config.steps)):
            backed_up = rewards[:, step] + config.discount * torch.lerp(
                values[:, step], backed_up, config.trace
            )
            returns.append(backed_up)
        return torch.stack(returns[::-1], dim=1)

    def _update_actor(self, batch: Batch) -> float:
        critic = self.critics.both[0]
        with torch.no_grad():
            features = self._features(critic, batch)
        loss = -self._actor_value(batch, features, critic).mean()
        self._descend(self._actor_optimiser, loss, self.actor)
        return float(loss.detach())

    def _actor_value(self, batch: Batch, features: Tensor, critic: Critic) -> Tensor:
        """Return the actor's objective, shape (batch, steps + 1), given the critic's features."""
        actions = self._actions_of(self.actor, batch)
        return critic.value(features, actions) - self.config.action_weight * actions.square().sum(dim=2)

    def _actions_of(self, actor: SequenceNetwork, batch: Batch) -> Tensor:
        """Return the actor's actions after the burn-in, shape (batch, steps + 1, action_size)."""
        state = self._burnt_in(actor, batch)
        actions: Tensor = actor(batch.observations[:, self.config.burn_in :], state)[0]
        return actions

    def _burnt_in(self, actor: SequenceNetwork, batch: Batch) -> Tensor:
        """Return the actor's state after the burn-in, without gradient, shape (batch, state_size)."""
        burn_in, state = self.config.burn_in, batch.states
        if burn_in:
            with torch.no_grad():
                state = actor(batch.observations[:, :burn_in], state)[1] * batch.remembers
        return state

    def _features(self, critic: Critic, batch: Batch) -> Tensor:
        """Return the critic's features at the frames after the burn-in, shape (batch, steps + 1, F)."""
        burn_in = self.config.burn_in
        observations, previous = batch.observations, batch.actions
        state = observations.new_zeros(len(observations), critic.state_size)
        if burn_in:
            with torch.no_grad():
                state = critic.features(observations[:, :burn_in], previous[:, :burn_in], state)[1]
                state = state * batch.remembers
        return critic.features(observations[:, burn_in:], previous[:, burn_in:], state)[0]

    def _descend(self, optimiser: torch.optim.Optimizer, loss: Tensor, module: nn.Module) -> None:
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), self.config.gradient_clip)
        optimiser.step()

    def _parts(self) -> dict[str, Part]:
        return {
            "actor": self.actor,
            "average": self.average,
            "critics": self.critics,
            "target_actor": self._target_actor,
            "target_critics": self._target_critics,
            "actor_optimiser": self._actor_optimiser,
            "critic_optimiser": self._critic_optimiser,
        }


class Batch:
    """A batch of sequences as tensors."""

    def __init__(self, sequences: Sequences, device: torch.device) -> None:
        self.observations = torch.from_numpy(sequences.observations).to(device)
        self.actions = torch.from_numpy(sequences.actions).to(device)
        self.rewards = torch.from_numpy(sequences.rewards).to(device)
        self.states = torch.from_numpy(sequences.states).to(device)
        self.remembers = torch.from_numpy(~sequences.starts[:, None]).to(device)
        """Whether the state after the burn-in counts, shape (batch, 1)."""
