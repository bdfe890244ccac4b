# SPDX-License-Identifier: Apache-2.0
"""Gymnasium's vector interface over `Environment`; needs the extra `[train]`.

One of Gymnasium's sub-environments is one flow slot of the policy. All episodes end together, truncated by
the time limit. The step after that starts the next one and ignores the actions (Gymnasium's next-step
autoreset). `info["active"]` tells which slots hold a flow that is sending.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from ltp_switcher.policies.simulator.tasks import Array, Environment

if TYPE_CHECKING:
    from ltp_switcher.arrays import Bools

Info = dict[str, "Bools"]


class NetworkVectorEnv(VectorEnv):
    """See the module's text. Actions are a box of ±1, float32."""

    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, environment: Environment) -> None:
        task = environment.task
        self._environment = environment
        self._over = False
        self._next_seed = 0
        self.num_envs = environment.slots
        self.single_observation_space = gymnasium.spaces.Box(
            -np.inf, np.inf, (task.observation_size,), np.float32
        )
        self.single_action_space = gymnasium.spaces.Box(-1.0, 1.0, (task.action_size,), np.float32)
        batch = gymnasium.vector.utils.batch_space
        self.observation_space = batch(self.single_observation_space, self.num_envs)
        self.action_space = batch(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Array, Info]:
        """Start an episode; without a seed, the one after the last."""
        seed = self._next_seed if seed is None else seed
        self._next_seed = seed + 1
        first = self._environment.reset(seed)
        self._over = False
        return first.observations, {"active": first.active}

    def step(self, actions: Array) -> tuple[Array, Array, Bools, Bools, Info]:
        """Advance all slots by one control interval."""
        none = np.zeros(self.num_envs, np.bool_)
        if self._over:
            observations, info = self.reset()
            return observations, np.zeros(self.num_envs, np.float32), none, none.copy(), info
        transition = self._environment.step(actions)
        self._over = transition.over
        truncated = np.full(self.num_envs, transition.over)
        info = {"active": transition.active}
        return transition.observations, transition.rewards, none, truncated, info
