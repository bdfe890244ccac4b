# SPDX-License-Identifier: Apache-2.0
"""Control tasks whose best policy is known, in the shape that the trainer takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltp_switcher.policies.simulator.tasks import Transition

LENGTH = 20


class Integrator:
    """x moves by 0.4 a; the reward is -x². Best: straight to 0. Integer actions 0, 1, 2 mean -1, 0, +1."""

    def __init__(self, slots: int = 16) -> None:
        self.slots = slots

    def reset(self, seed: int) -> Transition:
        self._x = np.random.default_rng(seed).uniform(-1.0, 1.0, self.slots).astype(np.float32)
        self._step = 0
        return self._seen()

    def step(self, actions: NDArray[np.float32] | NDArray[np.int64]) -> Transition:
        move = actions[:, 0] if actions.ndim == 2 else actions - 1
        self._x = (self._x + 0.4 * move).astype(np.float32)
        self._step += 1
        return self._seen()

    def _seen(self) -> Transition:
        return Transition(
            self._x[:, None].copy(), -(self._x**2), np.ones(self.slots, np.bool_), self._step >= LENGTH
        )


class Recall:
    """A number is shown in the first three steps, zeros afterwards; the reward is -(a - number)².

    Without memory the best is a = 0, for -1/3 on average; with it, 0. Half of the slots start 5 steps late.
    """

    def __init__(self, slots: int = 16) -> None:
        self.slots = slots

    def reset(self, seed: int) -> Transition:
        self._number = np.random.default_rng(seed).uniform(-1.0, 1.0, self.slots).astype(np.float32)
        self._step = 0
        return self._seen(np.zeros(self.slots, np.float32))

    def step(self, actions: NDArray[np.float32] | NDArray[np.int64]) -> Transition:
        self._step += 1
        return self._seen(-((actions[:, 0] - self._number) ** 2).astype(np.float32))

    def _seen(self, rewards: NDArray[np.float32]) -> Transition:
        age = self._step - 5 * (np.arange(self.slots) % 2)
        shown = (age >= 0) & (age < 3)
        observations = np.stack((self._number * shown, shown), axis=1).astype(np.float32)
        return Transition(observations, rewards, age >= 0, self._step >= LENGTH)
