# SPDX-License-Identifier: Apache-2.0
"""Spine's two-level recurrent actor, and its training (Spine, Sections 3.4 and 5). `spine.actor` runs the
trained actor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ltp_switcher.policies.runtime.inference import Layer
from ltp_switcher.policies.training.networks import Critic, SequenceNetwork, Stack
from ltp_switcher.policies.training.td3 import Array, Batch, Td3, Td3Config

FIRST_LOGIT: Final = -2.0
"""Initial logit of the trigger's probability. With this value the trigger fires in one interval of eight, so
that the long-term effects of a sub-policy show.
"""
NOISE_OF_FLOWS: Final = np.array([0.0, 0.5, 1.0, 1.0], np.float32)[:, None]
"""Factors of the exploration noise. The flows are given the factors in turn."""
DRAWN_AT_LEAST: Final = 0.02
"""Least probability of either outcome of the trigger, to fire or not, in training. An outcome that is never
tried is never learned.
"""


class HierarchicalActor(SequenceNetwork):
    """A watcher that sees every interval, and a policy generator that runs when the watcher triggers it.

    The last `action_size` inputs are the sub-policy in force (the parameters that a flow has now), within ±1.
    Outputs have `action_size` + 1 columns. The first are the sub-policy from now on, which stays the same
    without a trigger (Spine, Eq. 8). The last is +1 if the watcher triggered, else -1.

    In training mode the trigger is drawn at random (Spine, Eq. 9), and later intervals pass their gradients
    to its probability. Spine, Eq. 7, compares the watcher's output z' with 0, while Eq. 9 uses z' as a
    probability. Here z' is the logit of the probability.
    """

    def __init__(self, observation_size: int, action_size: int, layers: dict[str, tuple[Layer, ...]]) -> None:
        super().__init__()
        report, memory = layers["watcher"][-1].size, layers["generator"][0].size
        self.watcher = Stack(observation_size + memory, layers["watcher"])
        self.trigger = Stack(report, layers["trigger"])
        self.generator = Stack(report, layers["generator"])
        *_, bias = self.trigger.parameters()
        nn.init.constant_(bias, FIRST_LOGIT)
        self.action_size = action_size
        self._memory = memory
        self._sizes = (self.watcher.state_size, self.generator.state_size, 1)
        self.state_size = sum(self._sizes)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """See `SequenceNetwork`."""
        fresh, _, drawn, state = self.considered(inputs, state)
        held = inputs[..., -self.action_size :]
        return torch.cat((torch.lerp(held, fresh, drawn), 2.0 * drawn - 1.0), dim=2), state

    def considered(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Run over sequences as `forward` does, and also return the outputs that `forward` leaves out.

        Returns:
            The generator's output at each step, triggered or not, shape (batch, steps, action_size); the
            probability of the trigger and the trigger itself, 0 or 1, shape (batch, steps, 1) each; and the
            state.
        """
        watcher, generator, started = state.split(self._sizes, dim=1)
        nothing = state[:, :0]
        steps: list[tuple[Tensor, Tensor, Tensor]] = []
        for seen in inputs.split(1, dim=1):
            joined = torch.cat((seen, generator[:, None, : self._memory]), dim=2)
            report, watcher = self.watcher(joined, watcher)
            logit = self.trigger(report, nothing)[0][:, 0]
            probability = DRAWN_AT_LEAST + (1.0 - 2.0 * DRAWN_AT_LEAST) * torch.sigmoid(logit)
            # The first interval of a flow always triggers: there is no sub-policy yet.
            drawn = 1.0 - started * (1.0 - self._drawn(logit, probability))
            started = torch.ones_like(started)
            fresh, after = self.generator(report, generator)
            generator = torch.lerp(generator, after, drawn)
            steps.append((fresh, probability[:, None], drawn[:, None]))
        fresh, probability, drawn = (torch.cat(parts, dim=1) for parts in zip(*steps, strict=True))
        return fresh, probability, drawn, torch.cat((watcher, generator, started), dim=1)

    def networks(self) -> dict[str, tuple[tuple[Layer, ...], dict[str, NDArray[np.generic]]]]:
        """Return the layers and weights of each network by the network's name, in the form that
        `spine.actor.HierarchicalNetwork` takes.
        """
        parts = {"watcher": self.watcher, "trigger": self.trigger, "generator": self.generator}
        return {name: (part.layers, part.arrays()) for name, part in parts.items()}

    def _drawn(self, logit: Tensor, probability: Tensor) -> Tensor:
        """Return 1 where the generator runs and 0 elsewhere. In training the result passes its gradient to
        the probability.
        """
        if not self.training:
            return (logit >= 0.0).to(logit.dtype)
        straight_through: Tensor = torch.bernoulli(probability.detach()) + probability - probability.detach()
        return straight_through


class PitStopCritic(Critic):
    """A critic whose Q is the value of a sub-policy from now on, minus the cost of a trigger.

    The paper calls a trigger a pit stop. The future depends on the sub-policy alone, not on the trigger. So
    the cost, which is relatively small, is subtracted and need not be learned.
    """

    def __init__(
        self,
        observation: int,
        action: int,
        trunk: Sequence[Layer],
        head: Sequence[Layer],
        *,
        penalty: float,
    ) -> None:
        super().__init__(observation, action, trunk, head)
        self._penalty = penalty

    def value(self, features: Tensor, actions: Tensor) -> Tensor:
        """See `Critic`."""
        sub_policy, triggered = actions[..., :-1], (actions[..., -1] + 1.0) / 2.0
        return super().value(features, nn.functional.pad(sub_policy, (0, 1))) - self._penalty * triggered


class HierarchicalTd3(Td3):
    """TD3 for a `HierarchicalActor`.

    Only new sub-policies get the noise of exploration and of target smoothing, because the trigger is random
    itself. The trigger has two outcomes, so its own gradient is exact: the value of the generator's
    sub-policy less the value of the sub-policy in force, less the cost. All other arguments are the same as
    in `Td3`.

    Args:
        penalty: the cost of a trigger, in units of the reward (α_psp).
        settle_after: number of gradient steps after which only the trigger and the critics still learn, and
            new sub-policies are no longer explored. Then the trigger learns with the generator that it will
            serve.
    """

    def __init__(
        self,
        actor: HierarchicalActor,
        observation_size: int,
        *,
        trunk: Sequence[Layer],
        penalty: float,
        settle_after: int,
        config: Td3Config,
        seed: int,
        device: str = "cpu",
    ) -> None:
        self._penalty = penalty
        self._settle_after = settle_after
        self.hierarchy = actor
        super().__init__(
            actor,
            observation_size,
            actor.action_size + 1,
            trunk=trunk,
            config=config,
            seed=seed,
            device=device,
        )

    def _critic(
        self, observation_size: int, action_size: int, trunk: Sequence[Layer], head: Sequence[Layer]
    ) -> Critic:
        return PitStopCritic(observation_size, action_size, trunk, head, penalty=self._penalty)

    @property
    def _settling(self) -> bool:
        return self._updates > self._settle_after

    def _update_actor(self, batch: Batch) -> float:
        for part in (self.hierarchy.watcher, self.hierarchy.generator):
            part.requires_grad_(not self._settling)
        return super()._update_actor(batch)

    def _explored(self, actions: Array) -> Array:
        if self._settling:
            return actions
        # The noise grows from flow to flow, from 0 on, because the trigger must also see flows that need no
        # change.
        bolder = np.resize(NOISE_OF_FLOWS, (len(actions), 1))
        explored = actions + bolder * (super()._explored(actions) - actions)
        # An explored sub-policy stays in force until the next trigger, and the replay records it.
        explored = np.where(actions[:, -1:] > 0.0, explored, actions)
        explored[:, -1:] = actions[:, -1:]
        return explored

    def _smoothed(self, proposed: Tensor) -> Tensor:
        smoothed = super()._smoothed(proposed)
        smoothed = torch.where(proposed[..., -1:] > 0.0, smoothed, proposed)
        return torch.cat((smoothed[..., :-1], proposed[..., -1:]), dim=2)

    def _actor_value(self, batch: Batch, features: Tensor, critic: Critic) -> Tensor:
        state = self._burnt_in(self.hierarchy, batch)
        observations = batch.observations[:, self.config.burn_in :]
        fresh, probability, _, _ = self.hierarchy.considered(observations, state)
        held = observations[..., -self.hierarchy.action_size :]
        proposed, kept = (
            nn.functional.pad(fresh, (0, 1), value=1.0),
            nn.functional.pad(held, (0, 1), value=-1.0),
        )
        with torch.no_grad():
            # The generator seeks actions that its critic overrates, so the other critic has to agree. Noise
            # is added, because the sub-policy in force had noise, too.
            smoothed, other = self._smoothed(proposed), self.critics.second
            known = ((critic, features), (other, self._features(other, batch)))
            gains = [judge.value(seen, smoothed) - judge.value(seen, kept) for judge, seen in known]
            gain = torch.minimum(*gains)
        value = critic.value(features, proposed) + probability[..., 0] * gain
        return value - self.config.action_weight * fresh.square().sum(dim=2)
