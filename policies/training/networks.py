# SPDX-License-Identifier: Apache-2.0
"""Networks over sequences, both feed-forward and recurrent. A flow's state is one flat vector.

Any `SequenceNetwork` can be an actor. A hierarchical actor keeps the states of its several networks side by
side in this vector (Spine, Section 3.4).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ltp_switcher.policies.runtime.inference import Layer


class SequenceNetwork(nn.Module):
    """Base of all networks over sequences. `state_size` is the length of a flow's state; 0 for a network
    without memory.
    """

    state_size: int

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Run over sequences.

        Args:
            inputs: shape (batch, steps, inputs).
            state: state before the first step, shape (batch, state_size).

        Returns:
            Outputs, shape (batch, steps, outputs), and the state after the last step.
        """
        raise NotImplementedError


class Stack(SequenceNetwork):
    """The layers of an `inference.Network` in PyTorch, for training. Without layers the outputs equal the
    inputs.
    """

    def __init__(self, inputs: int, layers: Sequence[Layer]) -> None:
        super().__init__()
        self.layers = tuple(layers)
        self.state_size = sum(layer.state_size for layer in layers)
        self.output_size = layers[-1].size if layers else inputs
        self._modules_of = nn.ModuleList()
        for layer in layers:
            build = {"dense": nn.Linear, "gru": nn.GRU, "lstm": nn.LSTM}[layer.kind]
            batch_first = {} if layer.kind == "dense" else {"batch_first": True}
            self._modules_of.append(build(inputs, layer.size, **batch_first))
            inputs = layer.size

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Run the layers from a state; return their outputs and the state after them."""
        x, place, after = inputs, 0, []
        for layer, module in zip(self.layers, self._modules_of, strict=True):
            before = state[:, place : place + layer.state_size]
            place += layer.state_size
            if layer.kind == "dense":
                x = module(x)
                x = {"none": lambda y: y, "relu": torch.relu, "tanh": torch.tanh}[layer.activation](x)
            elif layer.kind == "gru":
                x, hidden = module(x, before[None].contiguous())
                after.append(hidden[0])
            else:
                hidden, cell = (half.contiguous() for half in before[None].chunk(2, dim=2))
                x, (hidden, cell) = module(x, (hidden, cell))
                after += [hidden[0], cell[0]]
        return x, torch.cat(after, dim=1) if after else state

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the weights in the form that `inference.Network` takes."""
        return {
            f"{number}.{name}": getattr(module, name if layer.kind == "dense" else f"{name}_l0")
            .detach()
            .cpu()
            .numpy()
            .astype(np.float32)
            for number, (layer, module) in enumerate(zip(self.layers, self._modules_of, strict=True))
            for name in layer.parameters
        }


class PartialView(SequenceNetwork):
    """An actor that sees only the first `seen` values of an observation: the values that a flow can know.

    The true values that follow are for critics, which only training needs.
    """

    def __init__(self, stack: Stack, seen: int) -> None:
        super().__init__()
        self.stack = stack
        self.state_size = stack.state_size
        self._seen = seen

    def forward(self, inputs: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """See `SequenceNetwork`."""
        outputs: tuple[Tensor, Tensor] = self.stack(inputs[..., : self._seen], state)
        return outputs


def stack_of(actor: SequenceNetwork) -> Stack:
    """Return the `Stack` inside a `PartialView`, for the export.

    Raises:
        TypeError: the actor is no `PartialView`.
    """
    if not isinstance(actor, PartialView):
        raise TypeError(f"an agent of another trainer: {type(actor).__name__}")
    return actor.stack


def follow(target: nn.Module, source: nn.Module, rate: float) -> None:
    """Move the target's weights towards the source's, by the share `rate` of their difference."""
    with torch.no_grad():
        for slow, fast in zip(target.parameters(), source.parameters(), strict=True):
            slow.lerp_(fast, rate)


class Critic(nn.Module):
    """Q(history, action): a trunk over observations and previous actions, and a head that adds the action to
    judge.

    The trunk's state does not depend on the judged action. So one pass over a sequence serves for judging the
    recorded actions, the actor's actions and the target actor's actions.
    """

    def __init__(self, observation: int, action: int, trunk: Sequence[Layer], head: Sequence[Layer]) -> None:
        super().__init__()
        self._recurrent = any(layer.state_size for layer in trunk)
        self.trunk = Stack(observation + (action if self._recurrent else 0), trunk)
        self.head = Stack(self.trunk.output_size + action, (*head, Layer("dense", 1)))

    @property
    def state_size(self) -> int:
        """Number of values that the trunk carries from step to step."""
        return self.trunk.state_size

    def features(self, observations: Tensor, previous: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """Run the trunk over arrays of shape (batch, steps, …).

        Returns features, shape (batch, steps, F), and the trunk's final state.
        """
        inputs = torch.cat((observations, previous), dim=2) if self._recurrent else observations
        outputs: tuple[Tensor, Tensor] = self.trunk(inputs, state)
        return outputs

    def value(self, features: Tensor, actions: Tensor) -> Tensor:
        """Return Q of the actions at each step, shape (batch, steps)."""
        joined = torch.cat((features, actions), dim=2)
        value: Tensor = self.head(joined, joined.new_zeros(len(joined), 0))[0]
        return value[..., 0]


class TwinCritic(nn.Module):
    """Two critics, of which the lower value counts (clipped double Q-learning)."""

    def __init__(self, first: Critic, second: Critic) -> None:
        super().__init__()
        self.first = first
        self.second = second

    @property
    def both(self) -> tuple[Critic, Critic]:
        """The two critics."""
        return self.first, self.second
