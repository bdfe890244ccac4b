# SPDX-License-Identifier: Apache-2.0
"""Spine's two-level recurrent actor, for training (Spine §3.4, §5); `spine.hierarchical` runs it."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ltp_switcher.policies.inference import Layer
from ltp_switcher.policies.training.networks import SequenceNetwork, Stack
from ltp_switcher.policies.training.td3 import Array, Td3

FIRST_LOGIT: Final = -2.0
"""Where the trigger starts: one interval in eight, so that a sub-policy's effects in the long run show."""


class HierarchicalActor(SequenceNetwork):
    """A watcher that sees every interval, and a policy generator that runs when the watcher triggers it.

    The last `action_size` inputs are the sub-policy in force, within ±1. Outputs have `action_size` + 1
    columns: the sub-policy from now on, which is the one in force where nothing was triggered (Eq. 8), and
    +1 or -1 for triggered or not.

    In training mode the trigger is drawn (Eq. 9), and its gradient is that of its probability. Eq. 7
    compares z' with 0 while Eq. 9 takes it for a probability: here z' is the logit of that probability.
    """

    def __init__(self, observation_size: int, action_size: int, layers: dict[str, tuple[Layer, ...]]) -> None:
        super().__init__()
        report, memory = layers["watcher"][-1].size, layers["generator"][0].size
        self.watcher = Stack(observation_size + memory, layers["watcher"])
        self.trigger = Stack(report, layers["trigger"])
        self.generator = Stack(report, layers["generator"])
        *_, bias = self.trigger.parameters()
        nn.init.constant_(bias, FIRST_LOGIT)
        self._action_size = action_size
        self._memory = memory
        self._sizes = (self.watcher.state_size, self.generator.state_size, 1)
        self.state_size = sum(self._sizes)

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """As the base class says."""
        watcher, generator, started = state.split(self._sizes, dim=1)
        nothing = state[:, :0]
        outputs = []
        for seen in inputs.split(1, dim=1):
            held = seen[..., -self._action_size :]
            joined = torch.cat((seen, generator[:, None, : self._memory]), dim=2)
            report, watcher = self.watcher(joined, watcher)
            # The first interval of a flow always triggers: there is no sub-policy yet.
            drawn = 1.0 - started * (1.0 - self._drawn(self.trigger(report, nothing)[0][:, 0]))
            started = torch.ones_like(started)
            fresh, after = self.generator(report, generator)
            generator = torch.lerp(generator, after, drawn)
            outputs.append(
                torch.cat((torch.lerp(held, fresh, drawn[:, None]), 2.0 * drawn[:, None] - 1.0), dim=2)
            )
        return torch.cat(outputs, dim=1), torch.cat((watcher, generator, started), dim=1)

    def networks(self) -> dict[str, tuple[tuple[Layer, ...], dict[str, NDArray[np.generic]]]]:
        """Layers and weights by name, as `spine.hierarchical.HierarchicalNetwork` takes them."""
        parts = {"watcher": self.watcher, "trigger": self.trigger, "generator": self.generator}
        return {name: (part.layers, part.arrays()) for name, part in parts.items()}

    def _drawn(self, logit: Tensor) -> Tensor:
        """1 where the generator shall run, else 0; with the gradient of the probability."""
        if not self.training:
            return (logit >= 0.0).to(logit.dtype)
        probability = torch.sigmoid(logit)
        straight_through: Tensor = torch.bernoulli(probability.detach()) + probability - probability.detach()
        return straight_through


class HierarchicalTd3(Td3):
    """TD3 for a `HierarchicalActor`: noise on new sub-policies only; the trigger brings its own."""

    def _explored(self, actions: Array) -> Array:
        triggered = actions[:, -1:] > 0.0
        # A sub-policy once explored stays in force until the next trigger, and the replay says so.
        explored = np.where(triggered, super()._explored(actions), actions)
        explored[:, -1:] = actions[:, -1:]
        return explored

    def _smoothed(self, proposed: Tensor) -> Tensor:
        smoothed = super()._smoothed(proposed)
        smoothed = torch.where(proposed[..., -1:] > 0.0, smoothed, proposed)
        return torch.cat((smoothed[..., :-1], proposed[..., -1:]), dim=2)
