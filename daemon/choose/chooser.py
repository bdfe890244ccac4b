# SPDX-License-Identifier: Apache-2.0
"""The interface of everything that chooses arms for flows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

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


class Number(IntEnum):
    """The numbers of a path, and their units; `path/model.py` measures them."""

    RATE = 0
    """Rate that the path delivered while the application had enough to send, bytes/s."""
    VARIATION = 1
    """Change of the rate from look to look, as a share of it."""
    PROPAGATION = 2
    """RTT without a queue, µs."""
    ACK_GAP = 3
    """Mean time between ACKs that carried an RTT sample, µs. The kernel module reports no quantiles of it."""
    BUFFER = 4
    """Queue of the player in which losses began, in packets."""
    QUIET_LOSS = 5
    """Share of the packets that were lost while no queue stood."""
    OTHERS_QUEUE = 6
    """Queue that stood while the player's own was empty, as time, µs."""
    APPLICATION = 7
    """Share of the looks in which the application had too little to send."""


class Told(NamedTuple):
    """The numbers of n paths, each of shape (n, numbers), in the order of `Number`; NaN if not observed."""

    value: Floats
    """The mean of the last looks that told the number, in its unit."""
    error: Floats
    """Standard error, in the number's unit; NaN where a single look has told the number."""
    age_s: Floats
    """Time since the last look that told the number."""


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


@dataclass(frozen=True, slots=True)
class Draw:
    """A `Decision` of a chooser without expectations."""

    arms: ArmIds
    reward: Floats
    exploring: Bools


class Chooser(ABC):
    """Chooses an arm for every flow of a step. A flow is a slot from `open` to `close`.

    A chooser has to know flows, pool and arms. All else is the usual case, until it says otherwise.
    """

    needed_step_s: float = 0.0
    """The longest step that serves the chooser; with 0 steps are as short as the settings say."""
    reasons: Sequence[str] = ("it had no reason",)
    """Reasons for an arm: parts of sentences in the past tense, in which `{value}` is `Reasons.value`."""
    keeps_arms: bool = False
    """Whether a flow keeps its arm unless the chooser probes; see `free`."""
    learns_from_teams: bool = False
    """Whether `step` is told which arms flows run for team selection."""
    encoder: str = ""
    """The digest of the encoder by which the chooser decides; empty where it asks none."""

    @abstractmethod
    def open(self, slots: Slots, prefixes: Sequence[str]) -> None:
        """Take in new flows, each with the destination prefix over which knowledge is shared."""

    @abstractmethod
    def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Decision:
        """Decide: `records[i]` (`RECORD_DTYPE`) is the step of slot `slots[i]`; slots are distinct.

        `given`: the arms that flows run for team selection, shape (n,), 0 where a flow runs none.
        """

    @property
    @abstractmethod
    def pool(self) -> tuple[int, ...]:
        """The arms chosen among for a new flow."""

    @abstractmethod
    def set_pool(self, arms: Sequence[int], slots: Slots | None = None) -> None:
        """Choose among these arms from now on: for these flows, or for all flows and new ones."""

    def close(self, slots: Slots) -> None:  # noqa: B027 - most choosers have nothing to do
        """Forget flows that ended. Their slots may come again, and are opened anew then."""

    def starts(self) -> dict[str, int]:
        """The arms that new flows should begin with, by prefix: those that were learned since the last call.

        0 stands for no arm of their own.
        """
        return {}

    def reason(self, slots: Slots) -> Reasons:
        """Why open flows have the arms of their latest decisions."""
        return Reasons(np.zeros(slots.shape, np.intp), np.full(slots.shape, np.nan))

    def estimates(self, slot: int) -> Sequence[Estimate]:
        """The expectations of the arms for an open flow, where the chooser has any."""
        return ()

    def path(self, slots: Slots) -> Told | None:
        """The knowledge of open flows' paths; None where the chooser has no model of them."""
        return None

    def state(self) -> dict[str, np.ndarray]:
        """The learned state, as arrays that the caller may keep."""
        return {}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:  # noqa: B027 - as for `close`
        """Take over the result of `state`. Raises `ArtifactError` where it does not fit."""

    def together(self, slots: Slots) -> Indices | None:
        """Equal numbers for siblings, which share a bottleneck, shape (n,); None where no flow has any."""
        return None

    def free(self, slots: Slots) -> Bools:
        """True where the chooser neither probes nor tests, so that another arm may run, shape (n,)."""
        return np.ones(slots.shape, np.bool_)

    def asks(self, slots: Slots) -> Bools | None:
        """True for flows whose path the last step wants the module to ask for more, shape (n,).

        None says that there is no such flow.
        """
        return None

    def drains(self, slots: Slots, records: RecordArray) -> Bools | None:
        """True where a learned arm's window is to be small in the coming step, shape (n,).

        None says that there is no such flow.
        """
        return None

    def starved(self, slots: Slots) -> Bools | None:
        """True where an arm was found since the last call to earn less than others have shown.

        Shape (n,). None says that there is no such flow.
        """
        return None

    def begins_anew(self, slots: Slots) -> Bools | None:
        """True where a learned arm is to forget the flow, by word since the last call, shape (n,).

        None says that there is no such flow.
        """
        return None
