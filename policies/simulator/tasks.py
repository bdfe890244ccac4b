# SPDX-License-Identifier: Apache-2.0
"""What an arm adds to the simulator to make it a learning problem: observation, action, reward."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ltp_switcher.policies.simulator.paths import Flows, Paths
from ltp_switcher.policies.simulator.regions import Region, draw
from ltp_switcher.policies.simulator.simulator import Roster, Simulator
from ltp_switcher.policies.simulator.statistics import Interval

Array = NDArray[np.float32]
Actions = NDArray[np.float32] | NDArray[np.int64]


class Task(Protocol):
    """One policy's view of the simulator. It controls the roster's first `agents` rows.

    Arrays of agents have shape (agents * E, ...), row-major as (agents, E): reshape, never transpose.
    The task keeps what it must remember from interval to interval; `begin` resets it.
    """

    observation_size: int
    action_size: int

    def begin(self, simulator: Simulator, paths: Paths, flows: Flows) -> None:
        """A new episode starts on this simulator."""

    def apply(self, actions: Actions) -> None:
        """Carry out actions within ±1, shape (agents * E, action_size), or (agents * E,) of integers."""

    def observe(self, interval: Interval) -> tuple[Array, Array]:
        """Return observations (agents * E, observation_size) and rewards (agents * E,)."""


@dataclass(frozen=True)
class Transition:
    """What one step gives back, one entry an agent slot: n = agents * E."""

    observations: Array
    rewards: Array
    active: NDArray[np.bool_]
    """The slot's flow was sending, so that its observation and reward mean something."""
    over: bool
    """The episode ended here, of all slots at once, by its time limit."""


class Environment:
    """Episodes of a task over links drawn from a region; all links start and end together.

    Args:
        task: the policy's view.
        region: where links are drawn from.
        roster: slots of each link.
        environments: E.
        duration_s: length of an episode.
        interval_s: control interval.
    """

    def __init__(
        self,
        task: Task,
        region: Region,
        roster: Roster,
        *,
        environments: int,
        duration_s: float,
        interval_s: float = 0.030,
    ) -> None:
        self.task = task
        self._region = region
        self._roster = roster
        self._environments = environments
        self._duration_s = duration_s
        self._interval_s = interval_s
        self.agents = (roster.window + roster.aimd) or roster.cubic
        self.slots = self.agents * environments
        self._simulator: Simulator | None = None

    def reset(self, seed: int) -> Transition:
        """Draw an episode; equal seeds draw equal ones. The rewards of the first transition are 0."""
        rng = np.random.default_rng(seed)
        paths, flows = draw(self._region, self._roster, self._environments, self._duration_s, rng)
        self._simulator = Simulator(
            paths, flows, self._roster, seed=int(rng.integers(1 << 62)), interval_s=self._interval_s
        )
        self.task.begin(self._simulator, paths, flows)
        transition = self._advance()
        return Transition(
            transition.observations, np.zeros_like(transition.rewards), transition.active, transition.over
        )

    def step(self, actions: Actions) -> Transition:
        """Carry out the actions and advance one interval."""
        self.task.apply(actions)
        return self._advance()

    def _advance(self) -> Transition:
        simulator = self._simulator
        if simulator is None:
            raise RuntimeError("reset the environment before its first step")
        interval = simulator.step()
        observations, rewards = self.task.observe(interval)
        active = interval.active[: self.agents].reshape(-1)
        return Transition(observations, rewards, active, simulator.now_s >= self._duration_s)
