# SPDX-License-Identifier: Apache-2.0
"""The interface of everything that chooses arms for flows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np

from ltp_switcher.arrays import ArmIds, Bools, Floats, Slots
from ltp_switcher.daemon.datapath import RecordArray


class Decision(Protocol):
    """A chooser's decision for n flows; each array has the shape (n,)."""

    @property
    def arms(self) -> ArmIds:
        """The arm of the coming step."""
        ...

    @property
    def reward(self) -> Floats:
        """Normalised reward of the step that was; NaN where unknown."""
        ...

    @property
    def exploring(self) -> Bools:
        """Where the arm was not chosen for its expected reward alone."""
        ...

    @property
    def settled(self) -> bool:
        """Whether it is known already that every flow runs its arm, so that there is nothing to send."""
        ...


class Chooser(Protocol):
    """Chooses an arm for every flow of a step. A flow is a slot from `open` to `close`."""

    needed_step_s: float
    """The longest step that serves it; 0: as short as the settings say."""

    def open(self, slots: Slots, prefixes: Sequence[str]) -> None:
        """New flows, with the destination prefix over which knowledge is shared."""
        ...

    def close(self, slots: Slots) -> None:
        """Flows that ended; their slots may come again."""
        ...

    def step(self, slots: Slots, records: RecordArray) -> Decision:
        """Decide: `records[i]` (`RECORD_DTYPE`) is the step of slot `slots[i]`; slots are distinct."""
        ...

    def set_pool(self, arms: Sequence[int], slots: Slots | None = None) -> None:
        """Choose among these arms from now on: for these flows, or for all and those to come."""
        ...

    @property
    def pool(self) -> tuple[int, ...]:
        """The arms chosen among for a new flow."""
        ...

    def starts(self) -> dict[str, int]:
        """What was learned since the last call: by prefix, the arm that new flows should begin with.

        0: no arm of their own.
        """
        ...

    def state(self) -> dict[str, np.ndarray]:
        """The learned state, as arrays that the caller may keep."""
        ...

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over the result of `state`. Raises `ArtifactError` where it does not fit."""
        ...
