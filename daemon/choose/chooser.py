# SPDX-License-Identifier: Apache-2.0
"""The interface of everything that chooses arms for flows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from ltp_switcher.arrays import ArmIds, Bools, Floats, Indices, Slots
from ltp_switcher.daemon.datapath import RecordArray


class Reasons(NamedTuple):
    """Why n flows have their arms; each array has the shape (n,)."""

    code: Indices
    """Position in `Chooser.reasons`."""
    value: Floats
    """The number that the sentence tells; NaN where it tells none."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The expectation of one arm for one flow, as a normalised reward with its bounds."""

    arm: int
    mean: float
    lower: float
    upper: float


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
        """True where the arm was not chosen for its expected reward alone."""
        ...

    @property
    def settled(self) -> bool:
        """Whether it is known already that every flow runs its arm, so that there is nothing to send."""
        ...


class Chooser(Protocol):
    """Chooses an arm for every flow of a step. A flow is a slot from `open` to `close`."""

    needed_step_s: float
    """The longest step that serves the chooser; with 0 steps are as short as the settings say."""

    @property
    def reasons(self) -> Sequence[str]:
        """Reasons for an arm: parts of sentences in the past tense, in which `{value}` is `Reasons.value`."""
        ...

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

        0 stands for no arm of their own.
        """
        ...

    def reason(self, slots: Slots) -> Reasons:
        """Why open flows have the arms of their latest decisions."""
        ...

    def estimates(self, slot: int) -> Sequence[Estimate]:
        """The expectations of the arms for an open flow, where the chooser has any."""
        ...

    def state(self) -> dict[str, np.ndarray]:
        """The learned state, as arrays that the caller may keep."""
        ...

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:
        """Take over the result of `state`. Raises `ArtifactError` where it does not fit."""
        ...


@runtime_checkable
class KnowsSiblings(Protocol):
    """A chooser that knows which flows share a bottleneck."""

    def together(self, slots: Slots) -> Indices | None:
        """Equal numbers for siblings, shape (n,); None where no open flow has any."""


@runtime_checkable
class TakesPulls(Protocol):
    """A chooser that learns from the arms that team selection gives to its flows."""

    pulled: Callable[[Slots], ArmIds] | None
    """Tells the arms that flows run for team selection, shape (n,), 0 where there is none."""


@runtime_checkable
class Probes(Protocol):
    """A chooser with arms that it keeps, unless it probes a path."""

    def free(self, slots: Slots) -> Bools:
        """True where the chooser neither probes nor tests, so that another arm may run, shape (n,)."""
        ...


@runtime_checkable
class Asks(Protocol):
    """A chooser that asks paths for more than the arms take that it has chosen."""

    def asks(self, slots: Slots) -> Bools:
        """True for flows whose paths the module is to ask for more, by the step before, shape (n,)."""
        ...


@runtime_checkable
class Drains(Protocol):
    """A chooser that knows where a queue stands that a learned arm would keep."""

    def drains(self, slots: Slots, records: RecordArray) -> Bools:
        """True where a learned arm's window is to be small in the coming step, shape (n,)."""
        ...

    def begins_anew(self, slots: Slots) -> Bools:
        """True where a learned arm is to forget the flow, by word since the last call, shape (n,)."""
        ...


class OneReason:
    """The explanations of a chooser that has one reason for all, and estimates nothing."""

    reasons: Sequence[str] = ("it had no reason",)

    def reason(self, slots: Slots) -> Reasons:
        """The one reason of every flow."""
        return Reasons(np.zeros(slots.shape, np.intp), np.full(slots.shape, np.nan))

    def estimates(self, slot: int) -> Sequence[Estimate]:
        """No estimates: there are none."""
        return ()
