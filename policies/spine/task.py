# SPDX-License-Identifier: Apache-2.0
"""Spine as a learning problem: its signals, its reward, and episodes at several monitor intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats
from ltp_switcher.policies.runtime.arm import Law
from ltp_switcher.policies.simulator.paths import Flows, Paths
from ltp_switcher.policies.simulator.simulator import SimulatedInterval, Simulator
from ltp_switcher.policies.simulator.tasks import (
    Actions,
    Environment,
    SignalsTask,
    Transition,
    episode_seed,
)
from ltp_switcher.policies.spine.reward import PIT_STOP_PENALTY, rewards
from ltp_switcher.policies.spine.signals import TRIGGERED, SpineSignals

SETTLED_SHARE: Final = 0.5
"""Share of the flows in training that begin without slow start, like a flow that is switched to Spine later.
In slow start no sub-policy has an effect. So without these flows the first sub-policy would never be learned.
"""


class SpineTask(SignalsTask):
    """Spine's learning problem, for either law. `penalty` is the cost of a run of the policy generator."""

    def __init__(self, signals: SpineSignals, agents: int, penalty: float = PIT_STOP_PENALTY) -> None:
        super().__init__(signals, agents)
        self._penalty = penalty
        self._triggered: Bools = np.zeros((0, 0), np.bool_)

    def begin(self, simulator: Simulator, paths: Paths, flows: Flows) -> None:
        """See `Task`."""
        super().begin(simulator, paths, flows)
        self._triggered = np.zeros((self.agents, paths.count), np.bool_)
        if self._bounded and self.signals.law is Law.AIMD:
            rng = np.random.default_rng(episode_seed(paths))
            window_pkts = self._draw_windows(rng)
            simulator.aimd.settle(rng.random(window_pkts.shape) < SETTLED_SHARE, window_pkts)

    def apply(self, actions: Actions) -> None:
        """See `Task`."""
        super().apply(actions)
        self._triggered = (actions[:, -1] > TRIGGERED).reshape(self._triggered.shape)

    def rewards(self, interval: SimulatedInterval) -> Floats:
        """See `SignalsTask`."""
        return rewards(interval, self.agents, self._triggered, self._penalty)


class MixedEpisodes:
    """Episodes from several environments with equally many slots. An episode's seed chooses the environment.

    One network serves all monitor intervals, so it is trained at several of them.
    """

    def __init__(self, environments: Sequence[Environment]) -> None:
        self._environments = environments
        self._playing = environments[0]
        self.slots = environments[0].slots

    def reset(self, seed: int) -> Transition:
        """Start the episode that belongs to a seed."""
        self._playing = self._environments[seed % len(self._environments)]
        return self._playing.reset(seed)

    def step(self, actions: Actions) -> Transition:
        """Advance the episode by one step."""
        return self._playing.step(actions)
