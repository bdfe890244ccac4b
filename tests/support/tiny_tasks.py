# SPDX-License-Identifier: Apache-2.0
"""Control tasks whose best policy is known, in the shape that the trainer takes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ltp_switcher.policies.simulator import Flows, Paths, SimulatedInterval, Simulator
from ltp_switcher.policies.simulator.tasks import Actions, Transition

LENGTH = 20


class Integrator:
    """The point x moves by 0.4 a; the reward is -x². Best: straight to 0. Integer actions 0, 1, 2 mean -1, 0,
    +1."""

    def __init__(self, slots: int = 16) -> None:
        self.slots = slots

    def reset(self, seed: int) -> Transition:
        self._x = np.random.default_rng(seed).uniform(-1.0, 1.0, self.slots).astype(np.float32)
        self._step = 0
        return self._seen()

    def step(self, actions: Actions) -> Transition:
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

    def step(self, actions: Actions) -> Transition:
        self._step += 1
        return self._seen(-((actions[:, 0] - self._number) ** 2).astype(np.float32))

    def _seen(self, rewards: NDArray[np.float32]) -> Transition:
        age = self._step - 5 * (np.arange(self.slots) % 2)
        shown = (age >= 0) & (age < 3)
        observations = np.stack((self._number * shown, shown), axis=1).astype(np.float32)
        return Transition(observations, rewards, age >= 0, self._step >= LENGTH)


class Power:
    """One flow a link: move the window by up to 10 %; the reward is utilisation, less for delay and loss.

    Windows start between 0.2 and 2.7 bandwidth-delay products and end at 4: without such a bound, random
    walks end where no action makes a difference, and nothing is learned there.
    """

    observation_size = 4
    action_size = 1

    def begin(self, simulator: Simulator, paths: Paths, flows: Flows) -> None:
        self._simulator = simulator
        bdp_pkts = paths.rate_mbps * paths.rtt_ms / 12.0
        start = np.random.default_rng(1).uniform(-1.5, 1.0, (1, paths.count))
        self._window = bdp_pkts * np.exp(start)
        self._limit = 4.0 * bdp_pkts
        self._best_pps = np.ones((1, paths.count))

    def apply(self, actions: Actions) -> None:
        move = actions.reshape(self._window.shape)
        factor = np.where(move >= 0, 1.0 + 0.1 * move, 1.0 / (1.0 - 0.1 * move))
        self._window = np.clip(self._window * factor, 2.0, self._limit)
        self._simulator.set_window(self._window)

    def observe(self, interval: SimulatedInterval) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        delivered = interval.delivered_pps
        self._best_pps = np.maximum(self._best_pps, delivered)
        rtt_min_s = np.minimum(interval.rtt_min_s, interval.rtt_s)
        inflation = interval.rtt_s / rtt_min_s
        loss = interval.lost_pkts / np.maximum(interval.lost_pkts + interval.acked_pkts, 1e-6)
        filled = self._window / np.maximum(delivered * rtt_min_s, 1.0)
        seen = np.stack((inflation - 1.0, delivered / self._best_pps, 10.0 * loss, filled - 1.0), axis=2)
        power = delivered / interval.capacity_pps * (1.0 - 5.0 * loss)
        rewards = power / np.where(inflation < 1.15, 1.0, inflation)
        return (
            np.clip(seen, -5.0, 5.0).reshape(-1, 4).astype(np.float32),
            rewards.reshape(-1).astype(np.float32),
        )
