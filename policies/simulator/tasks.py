# SPDX-License-Identifier: Apache-2.0
"""Tasks: learning problems in the simulator. A task defines observations, actions and rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from ltp_switcher.arrays import Bools, Float32s, Floats, Ints, UInt64s
from ltp_switcher.policies.runtime.arm import Law, Signals
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.policies.simulator.controllers import INITIAL_WINDOW
from ltp_switcher.policies.simulator.directed import impose
from ltp_switcher.policies.simulator.paths import PPS_PER_MBPS, Flows, Paths
from ltp_switcher.policies.simulator.regions import Region, draw_mixed
from ltp_switcher.policies.simulator.simulator import Roster, SimulatedInterval, Simulator

Array = Float32s
Actions = Float32s | Ints


class Task(Protocol):
    """A policy's learning problem in the simulator. The policy controls the roster's first `agents` rows.

    Arrays for agents have the shape (agents * E, ...), row-major as (agents, E): reshape them, and never
    transpose them. The task has a memory from interval to interval, which `begin` resets.
    """

    observation_size: int
    action_size: int

    def begin(self, simulator: Simulator, paths: Paths, flows: Flows) -> None:
        """Start a new episode on this simulator."""

    def apply(self, actions: Actions) -> None:
        """Carry out the agents' actions in all E environments.

        Actions are numbers within ±1, shape (agents * E, action_size), or integers, shape (agents * E,).
        """

    def observe(self, interval: SimulatedInterval) -> tuple[Array, Array]:
        """Process an interval; return observations, shape (agents * E, observation_size), and rewards, shape
        (agents * E,).
        """


START_BDP: Final = (0.2, 2.7)
"""Range of the first windows of flows in training, in bandwidth-delay products. A window is drawn
log-uniformly.
"""
LIMIT_BDP: Final = 4.0
"""Largest window in training, in bandwidth-delay products. With a larger one no action would matter, and an
actor's outputs would get stuck at ±1.
"""


def episode_seed(paths: Paths) -> UInt64s:
    """Return the seed of a task's random numbers. It follows from the episode's links alone, so equal
    episodes get equal random numbers.
    """
    seed: UInt64s = np.round(paths.rate_mbps[:4] * 1e6).astype(np.uint64)
    return seed


class SignalsTask:
    """A task with the observations and actions of a policy's `Signals`; a subclass adds the reward.

    Args:
        signals: signals of the policy. They are reset at every episode, and for each flow at its start.
        agents: number of rows of the roster that the policy controls.
        bounded: whether windows are kept to values that help training: first windows in `START_BDP`, all
            windows up to `LIMIT_BDP`. In evaluation windows have no bounds, and start as the kernel's do.
    """

    def __init__(self, signals: Signals, agents: int, *, bounded: bool = True) -> None:
        self.signals = signals
        self.agents = agents
        self.observation_size = signals.observation_size
        self.action_size = signals.action_size
        self._bounded = bounded

    def begin(self, simulator: Simulator, paths: Paths, flows: Flows) -> None:
        """See `Task`."""
        shape = (self.agents, paths.count)
        self.simulator = simulator
        self.bdp_pkts: Floats = paths.rate_mbps * PPS_PER_MBPS * flows.rtt_ms[: self.agents] / 1e3
        self._slots: Ints = np.arange(shape[0] * shape[1])
        self._was_active: Bools = np.zeros(self._slots.size, np.bool_)
        window_pkts: Floats = np.full(shape, INITIAL_WINDOW)
        if self._bounded and self.signals.law is Law.WINDOW:
            window_pkts = self._draw_windows(np.random.default_rng(episode_seed(paths)))
            simulator.set_window(window_pkts)
        self._window_pkts = window_pkts.reshape(-1)
        self.signals.begin(self._slots, self._window_pkts)
        self.interval: Interval | None = None

    def _draw_windows(self, rng: np.random.Generator) -> Floats:
        """Draw the windows with which flows start in training, in packets, shape (agents, E)."""
        low, high = np.log(START_BDP)
        return self.bdp_pkts * np.exp(rng.uniform(low, high, self.bdp_pkts.shape))

    def apply(self, actions: Actions) -> None:
        """See `Task`."""
        if self.interval is None:
            raise RuntimeError("observe before the first action")
        wanted = self.signals.control(self._slots, self.interval, np.asarray(actions, np.float32))
        if self._bounded and self.signals.law is Law.WINDOW:
            wanted = np.minimum(wanted, LIMIT_BDP * self.bdp_pkts.reshape(-1, 1))
        impose(self.simulator, self.signals.law, wanted)

    def observe(self, interval: SimulatedInterval) -> tuple[Array, Array]:
        """See `Task`."""
        seen = interval.flat(self.agents)
        begins = np.flatnonzero(seen.active & ~self._was_active)
        if begins.size:
            self.signals.begin(self._slots[begins], self._window_pkts[begins])
        self._was_active = seen.active
        self.interval = seen
        observations = self.signals.observe(self._slots, seen)
        return observations, self.rewards(interval).astype(np.float32).reshape(-1)

    def rewards(self, interval: SimulatedInterval) -> Floats:
        """Return the reward of the interval's actions for each agent, shape (agents, E) or flat."""
        raise NotImplementedError


@dataclass(frozen=True)
class Transition:
    """The result of a step for n = agents * E agent slots. Row i of every array belongs to slot i."""

    observations: Array
    rewards: Array
    active: Bools
    """True where the slot's flow was sending, so that its observation and reward mean something."""
    over: bool
    """Whether the episode has reached its time limit. It ends for all slots at once."""


class Environment:
    """Episodes of a task over links drawn from a region. All links of an episode start and end together.

    Args:
        task: the learning problem: observations, actions and rewards.
        region: region of the links, or several regions with equally many links each.
        roster: controllers of the slots of each link.
        environments: number E of links.
        duration_s: length of an episode in seconds.
        interval_s: control interval in seconds.
        tick_s: length of the simulator's tick in seconds. Base RTTs are whole ticks.
    """

    def __init__(
        self,
        task: Task,
        region: Region | Sequence[Region],
        roster: Roster,
        *,
        environments: int,
        duration_s: float,
        interval_s: float = 0.030,
        tick_s: float = 0.001,
    ) -> None:
        self.task = task
        self._regions = (region,) if isinstance(region, Region) else tuple(region)
        self._roster = roster
        self._environments = environments
        self._duration_s = duration_s
        self._interval_s = interval_s
        self._tick_s = tick_s
        self.agents = roster.agents
        self.slots = self.agents * environments
        self._simulator: Simulator | None = None

    def reset(self, seed: int) -> Transition:
        """Draw an episode and begin it. Equal seeds draw equal episodes. The rewards of the first transition
        are 0.
        """
        rng = np.random.default_rng(seed)
        paths, flows = draw_mixed(self._regions, self._roster, self._environments, self._duration_s, rng)
        self._simulator = Simulator(
            paths,
            flows,
            self._roster,
            seed=int(rng.integers(1 << 62)),
            interval_s=self._interval_s,
            tick_s=self._tick_s,
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
