# SPDX-License-Identifier: Apache-2.0
"""A learned arm at run time: its network turns signals into parameters for the kernel's executor.

A policy's `Signals` make its observations, and turn its actions into parameters. Simulator and daemon use the
same `Signals`, so a network meets the same inputs in training and in service.
"""

from __future__ import annotations

from typing import Final, Protocol, runtime_checkable

import numpy as np

from ltp_switcher.arrays import Float32s, Floats, Slots
from ltp_switcher.policies.runtime.declaration import Law as Law
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.slots import SlotArrays, column

PARAMETERS: Final = {Law.WINDOW: 1, Law.AIMD: 4, Law.CUBIC: 2}
"""Number of parameters of each control law."""


class Signals(Protocol):
    """A policy's observations and actions for flows in numbered slots.

    The object keeps a state for each slot from interval to interval. `slots` has shape (n,) and distinct
    members. Row i of every other array belongs to `slots[i]`.
    """

    observation_size: int
    action_size: int
    law: Law
    interval_s: float

    def begin(self, slots: Slots, window_pkts: Floats) -> None:
        """Start new flows in these slots, and forget the slots' past. `window_pkts` has their windows in
        packets, shape (n,).
        """

    def observe(self, slots: Slots, interval: Interval) -> Float32s:
        """Process an interval, whose arrays have shape (n,), and return observations, shape (n,
        observation_size).
        """

    def control(self, slots: Slots, interval: Interval, actions: Float32s) -> Floats:
        """Turn actions within ±1, shape (n, action_size), into the law's parameters, shape (n, parameters).

        A row of NaN changes nothing for the flow.
        """


class Arm(Protocol):
    """A learned arm as the daemon uses it. The arguments are the same as in `Signals`."""

    law: Law
    interval_s: float

    def begin(self, slots: Slots, window_pkts: Floats) -> None:
        """Start new flows in these slots under the arm."""

    def decide(self, slots: Slots, interval: Interval) -> Floats:
        """Return the law's parameters for all flows of an interval, shape (n, parameters).

        A row of NaN changes nothing for its flow. The caller may split many flows into several calls, because
        a row depends on its own flow alone.
        """


@runtime_checkable
class SharesWindow(Protocol):
    """An arm whose flows can continue from windows that the arm did not decide."""

    def displace(self, slots: Slots, window_pkts: Floats) -> None:
        """Set the windows of flows in packets, shape (n,), without a reset of the flows' state."""

    def crowd(self, slots: Slots, siblings: Floats, index: int) -> None:
        """Set how many flows share each flow's path in the interval of this index, the flow included, shape
        (n,).
        """


class DisplacedSignals(Signals, Protocol):
    """Signals whose flows can continue from windows that the policy did not decide."""

    def displace(self, slots: Slots, window_pkts: Floats) -> None:
        """See `SharesWindow`."""

    def crowd(self, slots: Slots, siblings: Floats, index: int) -> None:
        """See `SharesWindow`."""


class Actor(Protocol):
    """An arm's network: one `inference.Network`, or a combination of several."""

    def initial_state(self, n: int) -> Float32s:
        """Return the state of n flows before their first step, shape (n, state_size)."""

    def step(self, state: Float32s, inputs: Float32s) -> tuple[Float32s, Float32s]:
        """Advance n flows by one step, and return the new state and the actions within ±1."""


class NetworkArm(SlotArrays):
    """An arm whose network decides without chance. The network's outputs, within ±1, are the actions."""

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
    """A `NetworkArm` that implements `SharesWindow`."""

    def __init__(self, signals: DisplacedSignals, network: Actor) -> None:
        super().__init__(signals, network)
        self._displaced = signals

    def displace(self, slots: Slots, window_pkts: Floats) -> None:
        """See `SharesWindow`."""
        self._displaced.displace(slots, window_pkts)

    def crowd(self, slots: Slots, siblings: Floats, index: int) -> None:
        """See `SharesWindow`."""
        self._displaced.crowd(slots, siblings, index)
