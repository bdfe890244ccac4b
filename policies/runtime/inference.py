# SPDX-License-Identifier: Apache-2.0
"""A policy's network at run time: a stack of layers in numpy, for all flows of an interval at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ltp_switcher.errors import ArtifactError
from ltp_switcher.layers import Array, Cell, Gru, linear, lstm_cell

Kind = Literal["dense", "gru", "lstm"]
Activation = Literal["none", "relu", "tanh"]

_PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {
    "dense": ("weight", "bias"),
    "gru": Cell._fields,
    "lstm": Cell._fields,
}
_ZERO: Final = np.float32(0)
BLOCK: Final = 256
"""Number of flows that pass through all layers together. With so few, the values between layers fit the
processor's cache.
"""


@dataclass(frozen=True)
class Layer:
    """One layer of a network. Only dense layers use `activation`."""

    kind: Kind
    size: int
    activation: Activation = "none"

    @property
    def state_size(self) -> int:
        """Number of values that the layer carries from step to step for each flow."""
        return {"dense": 0, "gru": 1, "lstm": 2}[self.kind] * self.size

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the layer's arrays."""
        return _PARAMETERS[self.kind]

    def describe(self) -> dict[str, object]:
        """Return the layer as a dictionary for metadata; `Layer(**…)` rebuilds the layer from it."""
        return asdict(self)


class Network:
    """Layers that are applied in order. The caller keeps the state of the flows, shape (n, state_size).

    Args:
        layers: the layers from input to output.
        arrays: weights by name, in PyTorch's layout. A name is the layer's number and a name of
            `Layer.parameters`: "0.weight", "0.bias" and so on.

    Raises:
        ArtifactError: an array is missing or has the wrong shape.
    """

    def __init__(self, layers: Sequence[Layer], arrays: Mapping[str, NDArray[np.generic]]) -> None:
        self.layers = tuple(layers)
        self.state_size = sum(layer.state_size for layer in layers)
        # In Fortran order `linear` reads the weights one after the other. That halves the cost of one flow.
        self._weights: list[list[Array]] = []
        for number, layer in enumerate(layers):
            names = [f"{number}.{name}" for name in layer.parameters]
            missing = [name for name in names if name not in arrays]
            if missing:
                raise ArtifactError(f"network weights lack {', '.join(missing)}")
            self._weights.append([np.asfortranarray(arrays[name], np.float32) for name in names])
        self.input_size = self._weights[0][0].shape[1]
        self.output_size = layers[-1].size
        self._check()
        ends = list(accumulate(layer.state_size for layer in layers))
        self._grus = {
            number: Gru(Cell(*weights))
            for number, (layer, weights) in enumerate(zip(layers, self._weights, strict=True))
            if layer.kind == "gru"
        }
        self._places = [slice(end - layer.state_size, end) for layer, end in zip(layers, ends, strict=True)]

    def _check(self) -> None:
        inputs = self.input_size
        for number, (layer, weights) in enumerate(zip(self.layers, self._weights, strict=True)):
            rows = {"dense": 1, "gru": 3, "lstm": 4}[layer.kind] * layer.size
            shapes: list[tuple[int, ...]] = [(rows, inputs), (rows,)]
            if layer.kind != "dense":
                shapes = [(rows, inputs), (rows, layer.size), (rows,), (rows,)]
            for name, weight, shape in zip(layer.parameters, weights, shapes, strict=True):
                if weight.shape != shape:
                    raise ArtifactError(
                        f"network weights: {number}.{name} has shape {weight.shape}, not {shape}"
                    )
            inputs = layer.size

    def initial_state(self, n: int) -> Array:
        """Return the state of n flows before their first step, shape (n, state_size)."""
        return np.zeros((n, self.state_size), np.float32)

    def step(self, state: Array, inputs: Array) -> tuple[Array, Array]:
        """Advance n flows by one step.

        Args:
            state: shape (n, state_size).
            inputs: shape (n, input_size).

        Returns:
            The new state, shape (n, state_size), and the outputs, shape (n, output_size).
        """
        after = np.empty_like(state)
        if len(inputs) <= BLOCK:
            return after, self._through(state, inputs, after)
        outputs = np.empty((len(inputs), self.output_size), np.float32)
        for first in range(0, len(inputs), BLOCK):
            rows = slice(first, first + BLOCK)
            outputs[rows] = self._through(state[rows], inputs[rows], after[rows])
        return after, outputs

    def _through(self, state: Array, x: Array, after: Array) -> Array:
        """Return the outputs, and write the new state to `after`."""
        parts = zip(self.layers, self._weights, self._places, strict=True)
        for number, (layer, weights, place) in enumerate(parts):
            if layer.kind == "dense":
                x = linear(x, *weights)
                if layer.activation == "relu":
                    np.maximum(x, _ZERO, out=x)
                elif layer.activation == "tanh":
                    np.tanh(x, out=x)
            elif layer.kind == "gru":
                x = self._grus[number].step(x, state[:, place])
                after[:, place] = x
            else:
                hidden, cell = np.split(state[:, place], 2, axis=1)
                x, cell = lstm_cell(x, hidden, cell, Cell(*weights))
                np.concatenate((x, cell), axis=1, out=after[:, place])
        return x
