# SPDX-License-Identifier: Apache-2.0
"""A learned arm at run time: signals in, a network, parameters for the kernel's executor out.

A policy's `Signals` make its observations, and turn its actions into parameters. The simulator and the daemon
share them, so a network meets the same inputs in training and in service.
"""

from __future__ import annotations

from typing import Final, Protocol, runtime_checkable

import numpy as np

from ltp_switcher.arrays import Float32s, Floats, Slots
from ltp_switcher.policies.runtime.declaration import Law as Law
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.slots import SlotArrays, column

PARAMETERS: Final = {Law.WINDOW: 1, Law.AIMD: 4, Law.CUBIC: 2}
"""How many parameters each law takes."""


class Signals(Protocol):
    """One policy's measurements and actions, for flows that live in numbered slots.

    It keeps its memory of each slot from interval to interval. `slots` has shape (n,), its
    members are distinct, and row i of every other array belongs to `slots[i]`.
    """

    observation_size: int
    action_size: int
    law: Law
    interval_s: float

    def begin(self, slots: Slots, window_pkts: Floats) -> None:
        """Flows come under the policy with these windows, shape (n,): forget the slots' past."""

    def observe(self, slots: Slots, interval: Interval) -> Float32s:
        """Take in an interval, arrays of shape (n,); return observations, (n, observation_size)."""

    def control(self, slots: Slots, interval: Interval, actions: Float32s) -> Floats:
        """Turn actions within ±1, (n, action_size), into the law's parameters, (n, parameters).

        A row of NaN changes nothing for the flow.
        """


class Arm(Protocol):
    """A learned arm as the daemon uses it; its methods are `Signals`'."""

    law: Law
    interval_s: float

    def begin(self, slots: Slots, window_pkts: Floats) -> None:
        """Flows come under the arm."""

    def decide(self, slots: Slots, interval: Interval) -> Floats:
        """Decide for flows of an interval at once: the law's parameters, (n, parameters); NaN changes
        nothing.

        Many flows may come in several parts. A row depends on its own flow alone.
        """


@runtime_checkable
class SharesWindow(Protocol):
    """An arm whose flows may get other windows than it decided, and go on from these."""

    def displace(self, slots: Slots, window_pkts: Floats) -> None:
        """Set the windows of flows that keep their past, shape (n,)."""

    def crowd(self, slots: Slots, siblings: Floats, index: int) -> None:
        """Tell how many flows share each one's path in the interval of this index, shape (n,)."""


class DisplacedSignals(Signals, Protocol):
    """Signals that allow it."""

    def displace(self, slots: Slots, window_pkts: Floats) -> None:
        """See `SharesWindow`."""

    def crowd(self, slots: Slots, siblings: Floats, index: int) -> None:
        """See `SharesWindow`."""


class Actor(Protocol):
    """An arm's network: `inference.Network`, or several of them put together."""

    def initial_state(self, n: int) -> Float32s:
        """State of n flows that have seen nothing, shape (n, state_size)."""

    def step(self, state: Float32s, inputs: Float32s) -> tuple[Float32s, Float32s]:
        """Advance n flows by one step: the new state, and the actions within ±1."""


class NetworkArm(SlotArrays):
    """The arm of a deterministic actor, whose outputs within ±1 are the actions."""

    _state = column(np.float32, "_state_size")

    def __init__(self, signals: Signals, network: Actor) -> None:
        self.law = signals.law
        self.interval_s = signals.interval_s
        self._signals = signals
        self._network = network
        self._state_size = network.initial_state(0).shape[1]
        super().__init__()

    def begin(self, slots: Slots, window_pkts: Floats) -> None:
        """See `Arm`."""
        self.reset(slots)
        self._signals.begin(slots, window_pkts)
        self._state[slots] = self._network.initial_state(len(slots))

    def decide(self, slots: Slots, interval: Interval) -> Floats:
        """See `Arm`."""
        observations = self._signals.observe(slots, interval)
        state, actions = self._network.step(self._state.take(slots, axis=0), observations)
        if state.size:
            # Each row is opaque bytes here: numpy scatters rows of numbers at three times the cost.
            row = np.dtype(f"V{state.itemsize * self._state_size}")
            self._state.view(row).reshape(-1)[slots] = state.view(row).reshape(-1)
        return self._signals.control(slots, interval, np.asarray(actions, np.float32))


class WindowArm(NetworkArm):
    """A `NetworkArm` whose flows may share their windows."""

    def __init__(self, signals: DisplacedSignals, network: Actor) -> None:
        super().__init__(signals, network)
        self._displaced = signals

    def displace(self, slots: Slots, window_pkts: Floats) -> None:
        """See `SharesWindow`."""
        self._displaced.displace(slots, window_pkts)

    def crowd(self, slots: Slots, siblings: Floats, index: int) -> None:
        """See `SharesWindow`."""
        self._displaced.crowd(slots, siblings, index)
