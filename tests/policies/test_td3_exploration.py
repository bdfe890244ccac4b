# SPDX-License-Identifier: Apache-2.0
"""TD3's λ-returns and its exploration that lasts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from ltp_switcher.policies.runtime.inference import Layer  # noqa: E402
from ltp_switcher.policies.training.networks import PartialView, Stack  # noqa: E402
from ltp_switcher.policies.training.td3 import Td3, Td3Config  # noqa: E402

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
