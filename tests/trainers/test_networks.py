# SPDX-License-Identifier: Apache-2.0
"""A network computes the same in numpy, as it runs, and in PyTorch, as it was trained."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from support.stacks import STACKS

from ltp_switcher.policies.runtime.inference import Network
from ltp_switcher.policies.training.networks import Stack


@pytest.mark.parametrize("stack", STACKS)
def test_numpy_computes_what_pytorch_computes(stack: str) -> None:
    torch.manual_seed(1)
    layers = STACKS[stack]
    trained = Stack(5, layers)
    network = Network(layers, trained.arrays())
    inputs = np.random.default_rng(2).normal(0, 2, (7, 50, 5)).astype(np.float32)
    with torch.no_grad():
        expected, last = trained(torch.from_numpy(inputs), torch.zeros(7, trained.state_size))
    state = network.initial_state(7)
    for step in range(inputs.shape[1]):
        state, outputs = network.step(state, inputs[:, step])
        np.testing.assert_allclose(outputs, expected[:, step], atol=1e-5)
    np.testing.assert_allclose(state, last, atol=1e-5)
