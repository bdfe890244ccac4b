# SPDX-License-Identifier: Apache-2.0
"""The encoder in PyTorch, for training only. At run time `GRUEncoder` computes the same contexts in numpy."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from ltp_switcher.arrays import Float32s

HIDDEN: Final = 32
BETWEEN: Final = 32
OUTPUTS: Final = 16


class TorchEncoder(nn.Module):  # type: ignore[misc] # PyTorch is not installed where types are checked
    """A GRU, two fully connected layers, and a linear head, which plays LinUCB's part during training.

    The objective follows reference [40] of the Mutant paper. The predicted reward of each arm is linear in
    the last hidden layer, so this layer becomes a good context for a linear bandit. Each step trains only the
    head's weights for the arm that ran.
    """

    def __init__(self, inputs: int, arms: int) -> None:
        super().__init__()
        self.gru = nn.GRU(inputs, HIDDEN, batch_first=True)
        self.fc1 = nn.Linear(HIDDEN, BETWEEN)
        self.fc2 = nn.Linear(BETWEEN, OUTPUTS)
        self.head = nn.Linear(OUTPUTS, arms)

    def forward(self, inputs: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Run the encoder on inputs of shape (paths, steps, inputs).

        `state` is the GRU's state before the first step, shape (1, paths, 32); None stands for zeros. Returns
        the contexts z, shape (paths, steps, 16), and the state after the last step, shape (1, paths, 32).
        """
        hidden, state = self.gru(inputs, state)
        return torch.tanh(self.fc2(torch.relu(self.fc1(hidden)))), state

    def rewards(self, z: Tensor) -> Tensor:
        """Return the predicted reward of every arm id, shape (paths, steps, arms), from the contexts `z`."""
        out: Tensor = self.head(z)
        return out

    def arrays(self) -> dict[str, Float32s]:
        """The encoder's weights by the names that its file uses. The head's weights are left out."""
        names = {
            "gru_weight_ih": self.gru.weight_ih_l0,
            "gru_weight_hh": self.gru.weight_hh_l0,
            "gru_bias_ih": self.gru.bias_ih_l0,
            "gru_bias_hh": self.gru.bias_hh_l0,
            "fc1_weight": self.fc1.weight,
            "fc1_bias": self.fc1.bias,
            "fc2_weight": self.fc2.weight,
            "fc2_bias": self.fc2.bias,
        }
        return {name: tensor.detach().numpy().astype(np.float32) for name, tensor in names.items()}
