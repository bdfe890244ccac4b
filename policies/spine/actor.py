# SPDX-License-Identifier: Apache-2.0
"""Spine's watcher and policy generator at run time, in numpy, for all flows of an interval (Spine, Section
3.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from ltp_switcher.errors import ArtifactError
from ltp_switcher.layers import Array
from ltp_switcher.policies.runtime.inference import Layer, Network


def layers(parameters: int) -> dict[str, tuple[Layer, ...]]:
    """Return the layers of one network with `parameters` outputs (Spine, Section 6).

    They are LSTMs of 64 and 128 units, an MLP of one layer, and tanh. The paper does not give the MLP's
    width.
    """
    return {
        "watcher": (Layer("lstm", 64),),
        "trigger": (Layer("dense", 1),),
        "generator": (Layer("lstm", 128), Layer("dense", 64, "relu"), Layer("dense", parameters, "tanh")),
    }


_PARTS: Final = ("watcher", "trigger", "generator")


class HierarchicalNetwork:
    """Two levels of networks (Spine, Eq. 6 to 8). The watcher and its trigger run for all flows. The policy
    generator runs for the flows that the trigger chooses.

    The last inputs are the sub-policy in force: the parameters that a flow has now, within ±1. The outputs
    are the sub-policy from now on, and +1 if the watcher triggered, or -1 if not. A flow's first step always
    triggers, because there is no sub-policy yet.

    Args:
        networks: "watcher", "trigger" and "generator", as `layers` describes them.
        hold: number of intervals for which a sub-policy stays, whatever the watcher says. It is 0 in the
            paper and in training.

    Raises:
        ArtifactError: a network is missing, or the networks do not fit each other.
    """

    def __init__(self, networks: Mapping[str, Network], hold: int = 0) -> None:
        missing = [name for name in _PARTS if name not in networks]
        if missing:
            raise ArtifactError(f"Spine's weights lack {', '.join(missing)}")
        self._watcher, self._trigger, self._generator = (networks[name] for name in _PARTS)
        self._hold = hold
        self._memory = self._generator.layers[0].size
        self.input_size = self._watcher.input_size - self._memory
        self.parameters = self._generator.output_size
        self.output_size = self.parameters + 1
        self.state_size = self._watcher.state_size + self._generator.state_size + 1
        report = self._watcher.output_size
        if (self._trigger.input_size, self._generator.input_size) != (report, report):
            raise ArtifactError(f"Spine's weights: trigger and generator do not take a report of {report}")

    def initial_state(self, n: int) -> Array:
        """Return the state of n flows before their first step, shape (n, state_size)."""
        return np.zeros((n, self.state_size), np.float32)

    def step(self, state: Array, inputs: Array) -> tuple[Array, Array]:
        """Advance n flows by one interval. The shapes are as in `Network.step`."""
        ends = (self._watcher.state_size, self.state_size - 1)
        after = state.copy()
        # The last column: intervals since the last trigger, 0 before the first.
        watcher, generator, since = np.split(after, ends, axis=1)  # views
        joined = np.concatenate((inputs, generator[:, : self._memory]), axis=1)
        watcher[:], report = self._watcher.step(watcher, joined)
        _, logit = self._trigger.step(state[:, :0], report)
        may = since[:, 0] >= self._hold
        rows = np.flatnonzero(((logit[:, 0] >= 0.0) & may) | (since[:, 0] == 0.0))
        since[rows] = 0.0
        since += 1.0
        outputs = np.empty((len(inputs), self.output_size), np.float32)
        outputs[:, :-1] = inputs[:, -self.parameters :]
        outputs[:, -1] = -1.0
        if rows.size:
            generator[rows], outputs[rows, :-1] = self._generator.step(generator[rows], report[rows])
            outputs[rows, -1] = 1.0
        return after, outputs
