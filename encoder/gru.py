# SPDX-License-Identifier: Apache-2.0
"""Inference: GRU, then two fully connected layers, for all flows of a step at once, in numpy.

Mutant, Section 5.1, gives the layers, but neither their sizes nor their activations. Here ReLU is between the
two dense layers, and tanh at the end. The tanh keeps the context that LinUCB sees within ±1.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ltp_switcher.arrays import Float32s
from ltp_switcher.encoder.artifact import WEIGHTS, Artifact, load
from ltp_switcher.errors import ArtifactError
from ltp_switcher.layers import Cell, gru_cell, linear

Array = Float32s


class GRUEncoder:
    """The encoder f_enc of Mutant, Algorithm 1, line 11.

    The caller keeps the state of the flows, shape (n, hidden_size).

    Raises:
        ArtifactError: the weights' shapes do not fit together.
    """

    def __init__(self, artifact: Artifact) -> None:
        self.artifact = artifact
        weights = artifact.weights
        self.hidden_size = weights["gru_weight_hh"].shape[1]
        self.input_size = weights["gru_weight_ih"].shape[1]
        self.output_size = weights["fc2_weight"].shape[0]
        hidden, between = self.hidden_size, weights["fc1_weight"].shape[0]
        expected = {
            "gru_weight_ih": (3 * hidden, self.input_size),
            "gru_weight_hh": (3 * hidden, hidden),
            "gru_bias_ih": (3 * hidden,),
            "gru_bias_hh": (3 * hidden,),
            "fc1_weight": (between, hidden),
            "fc1_bias": (between,),
            "fc2_weight": (self.output_size, between),
            "fc2_bias": (self.output_size,),
        }
        for name, shape in expected.items():
            if weights[name].shape != shape:
                raise ArtifactError(f"encoder weights: {name} has shape {weights[name].shape}, not {shape}")
        self._cell = Cell(
            weights["gru_weight_ih"], weights["gru_weight_hh"], weights["gru_bias_ih"], weights["gru_bias_hh"]
        )

    @classmethod
    def from_file(cls, path: Path = WEIGHTS) -> GRUEncoder:
        """Load the encoder. Raises `ArtifactError`, which names the file's fault."""
        return cls(load(path))

    def initial_state(self, n: int) -> Array:
        """Return the state of n flows before their first step, shape (n, hidden_size)."""
        return np.zeros((n, self.hidden_size), np.float32)

    def step(self, hidden: Array, inputs: Array) -> tuple[Array, Array]:
        """Advance n flows by one step.

        Args:
            hidden: shape (n, hidden_size).
            inputs: shape (n, input_size).

        Returns:
            The new state, shape (n, hidden_size), and the contexts z, shape (n, output_size), within ±1.
        """
        weights = self.artifact.weights
        state = gru_cell(inputs, hidden, self._cell)
        middle = np.maximum(linear(state, weights["fc1_weight"], weights["fc1_bias"]), np.float32(0))
        return state, np.tanh(linear(middle, weights["fc2_weight"], weights["fc2_bias"]))
