# SPDX-License-Identifier: Apache-2.0
"""Neural network layers in numpy for a batch of flows, so that running a network needs no PyTorch.

Weights are float32, in PyTorch's layout and order of gates. The first axis of every other array is the batch:
one row for each flow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ltp_switcher.arrays import Float32s

Array = Float32s
_HALF = np.float32(0.5)
_ONE = np.float32(1)


class Cell(NamedTuple):
    """Weights of a recurrent layer with g gates (3 for a GRU, 4 for an LSTM), as PyTorch names and orders
    them. `size` is the length of the layer's state.
    """

    weight_ih: Array
    """Weights of the inputs, shape (g size, inputs)."""
    weight_hh: Array
    """Weights of the state, shape (g size, size)."""
    bias_ih: Array
    """Bias of the inputs' part, shape (g size,)."""
    bias_hh: Array
    """Bias of the state's part, shape (g size,)."""


def sigmoid(x: Array) -> Array:
    """Compute 1 / (1 + e^-x) by tanh, which cannot overflow."""
    half: Array = np.tanh(x * _HALF) * _HALF
    return half + _HALF


def linear(x: Array, weight: Array, bias: Array) -> Array:
    """Apply a fully connected layer to x, shape (n, inputs); return the outputs, shape (n, outputs).

    `weight` has the shape (outputs, inputs), `bias` the shape (outputs,).
    """
    y: Array = x.dot(weight.T)
    y += bias
    return y


def gru_cell(x: Array, hidden: Array, weights: Cell) -> Array:
    """Do one step of `torch.nn.GRUCell` and return the new state, shape (n, size).

    The order of the gates is reset, update, candidate.

    Args:
        x: inputs, shape (n, inputs).
        hidden: state, shape (n, size).
        weights: weights of the 3 gates.
    """
    size = hidden.shape[1]
    ours = linear(x, weights.weight_ih, weights.bias_ih)
    theirs = linear(hidden, weights.weight_hh, weights.bias_hh)
    gates = sigmoid(ours[:, : 2 * size] + theirs[:, : 2 * size])
    reset, update = gates[:, :size], gates[:, size:]
    candidate: Array = np.tanh(ours[:, 2 * size :] + reset * theirs[:, 2 * size :])
    return candidate + update * (hidden - candidate)


class Gru:
    """A GRU layer that computes `gru_cell` faster with many flows.

    The reset and update gates come from one matrix product of inputs and state. A sigmoid is computed by the
    tanh of half its argument. The weights are halved beforehand, which is exact in floating point.
    """

    def __init__(self, weights: Cell) -> None:
        size = weights.weight_hh.shape[1]
        self.size = size
        gates, candidate = slice(2 * size), slice(2 * size, None)
        sides = np.concatenate((weights.weight_ih[gates], weights.weight_hh[gates]), axis=1)
        self._gates, self._gates_bias = _HALF * sides.T, _HALF * (weights.bias_ih + weights.bias_hh)[gates]
        self._candidate = np.ascontiguousarray(weights.weight_ih[candidate].T)
        self._candidate_bias = weights.bias_ih[candidate]
        self._memory, self._memory_bias = (
            _HALF * weights.weight_hh[candidate].T,
            _HALF * weights.bias_hh[candidate],
        )
        self._gates, self._memory = np.ascontiguousarray(self._gates), np.ascontiguousarray(self._memory)

    def step(self, x: Array, hidden: Array) -> Array:
        """Return the new state, shape (n, size), from inputs, shape (n, inputs), and the old state, shape (n,
        size).
        """
        gates = np.concatenate((x, hidden), axis=1).dot(self._gates)
        gates += self._gates_bias
        # The next two lines leave twice the gates in this array.
        np.tanh(gates, out=gates)
        gates += _ONE
        reset, update = gates[:, : self.size], gates[:, self.size :]
        memory: Array = hidden.dot(self._memory)
        memory += self._memory_bias
        memory *= reset
        candidate = x.dot(self._candidate)
        candidate += self._candidate_bias
        candidate += memory
        np.tanh(candidate, out=candidate)
        kept: Array = np.subtract(hidden, candidate, out=memory)
        kept *= update
        kept *= _HALF
        kept += candidate
        return kept


def lstm_cell(x: Array, hidden: Array, cell: Array, weights: Cell) -> tuple[Array, Array]:
    """Do one step of `torch.nn.LSTMCell`. The order of the gates is input, forget, candidate, output.

    Args:
        x: inputs, shape (n, inputs).
        hidden: state, shape (n, size).
        cell: cell state, shape (n, size).
        weights: weights of 4 gates.

    Returns:
        The new hidden state and the new cell state, each of shape (n, size).
    """
    size = hidden.shape[1]
    gates = linear(x, weights.weight_ih, weights.bias_ih) + linear(hidden, weights.weight_hh, weights.bias_hh)
    entry, forget = sigmoid(gates[:, :size]), sigmoid(gates[:, size : 2 * size])
    candidate = np.tanh(gates[:, 2 * size : 3 * size])
    cell = forget * cell + entry * candidate
    return sigmoid(gates[:, 3 * size :]) * np.tanh(cell), cell
