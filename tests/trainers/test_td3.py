# SPDX-License-Identifier: Apache-2.0
"""TD3's λ-returns and its exploration that lasts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from ltp_switcher.policies.runtime.inference import Layer
from ltp_switcher.policies.training.networks import PartialView, Stack
from ltp_switcher.policies.training.replay import Sequences
from ltp_switcher.policies.training.td3 import Batch, Td3, Td3Config

LAYERS = (Layer("dense", 4, "relu"), Layer("dense", 1, "tanh"))


def agent(**changes: object) -> Td3:
    config = replace(Td3Config(steps=3, discount=0.5), **changes)  # type: ignore[arg-type]
    return Td3(Stack(2, LAYERS), 2, 1, head=LAYERS[:1], config=config, seed=1)


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        (0.0, [1 + 0.5 * 10, 2 + 0.5 * 20, 4 + 0.5 * 40]),
        (1.0, [1 + 0.5 * (2 + 0.5 * (4 + 0.5 * 40)), 2 + 0.5 * (4 + 0.5 * 40), 4 + 0.5 * 40]),
        (0.5, [1 + 0.25 * (10 + 13), 2 + 0.25 * (20 + 24), 4 + 0.5 * 40]),
    ],
)
def test_lambda_returns(trace: float, expected: list[float]) -> None:
    rewards, values = torch.tensor([[1.0, 2.0, 4.0]]), torch.tensor([[10.0, 20.0, 40.0]])
    torch.testing.assert_close(agent(trace=trace)._returns(rewards, values), torch.tensor([expected]))


def test_the_lower_of_the_two_critics_counts() -> None:
    """Fujimoto et al. 2018, clipped double Q: critics that say 1 and 3 of everything, and no rewards."""
    made = agent(steps=1)
    for critics in (made.critics, made._target_critics):
        for critic, says in zip(critics.both, (1.0, 3.0), strict=True):
            for parameter in critic.parameters():
                torch.nn.init.zeros_(parameter)
            torch.nn.init.constant_(list(critic.parameters())[-1], says)
    nothing = np.zeros((4, 2), np.float32)
    frames, states = np.zeros((4, 2, 2), np.float32), np.zeros((4, 0), np.float32)
    batch = Batch(Sequences(frames, frames[:, :, :1], nothing, states, np.zeros(4, np.bool_)), made.device)
    # Both are to say 0.5 · min(1, 3), which is 0.5 too little of the one and 2.5 of the other.
    assert made._update_critics(batch) == pytest.approx(0.5**2 + 2.5**2)


@pytest.mark.parametrize("hold", [1, 10])
def test_exploration_is_held_as_long_as_asked(hold: int) -> None:
    made = agent(hold=hold, exploration=0.3)
    made.begin(500)
    made._frames = 1
    still = np.zeros((500, 1), np.float32)
    drawn = np.stack([made._explored(still) for _ in range(60)])[:, :, 0]
    changes = (drawn[1:] != drawn[:-1]).mean()
    assert changes == pytest.approx(1.0 / hold, abs=0.02)
    assert drawn[20:].std() == pytest.approx(0.3, abs=0.03)


def test_a_partial_view_hides_the_rest() -> None:
    actor = PartialView(Stack(2, LAYERS), 2)
    seen = torch.randn(3, 4, 5)
    other = seen.clone()
    other[..., 2:] = 7.0
    state = torch.zeros(3, 0)
    torch.testing.assert_close(actor(seen, state)[0], actor(other, state)[0])
