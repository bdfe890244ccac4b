# SPDX-License-Identifier: Apache-2.0
"""The interface of everything that chooses arms for flows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from ltp_switcher.arrays import ArmIds, Bools, Floats, Indices, PulseKinds, Slots
from ltp_switcher.daemon.datapath import RecordArray


class Reasons(NamedTuple):
    """The reasons why n flows have their arms; each array has the shape (n,)."""

    code: Indices
    """Index of each flow's reason in `Chooser.reasons`."""
    value: Floats
    """The number that the reason's sentence contains; NaN if it contains none."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """The expected reward of one arm for one flow, normalised to 0..1, with its bounds."""

    arm: int
    mean: float
    lower: float
    upper: float


class Verdict(IntEnum):
    """The news about a flow's path that end a preference, the arm that won a tournament on the path."""

    NONE = 0
    OTHER_PATH = 1
    """The path has changed, or an arm has fallen on it, so earlier comparisons of arms say nothing."""
    EARNED_LESS = 2
    """The preferred arm has earned less than the arm before it had."""


Verdicts = npt.NDArray[np.uint8]
"""An array of `Verdict` values."""


class Number(IntEnum):
    """The numbers that describe the path of a player, with their units. `path/model.py` measures them.

    A player is the flows that share a bottleneck. A look is the time over which measurements are summed up:
    0.25 s and two round trips at least.
    """

    RATE = 0
    """The rate that the path delivered while the application had enough to send, in bytes/s."""
    VARIATION = 1
    """The change of the rate from look to look: the absolute logarithm of the ratio of both rates."""
    PROPAGATION = 2
    """The RTT without a queue, in µs."""
    ACK_GAP = 3
    """The mean time between ACKs that carried an RTT sample, in µs. The kernel module reports no quantiles of
    this time.
    """
    BUFFER = 4
    """The length of the player's queue when losses began, in packets."""
    QUIET_LOSS = 5
    """The share of the packets that were lost while there was no queue."""
    OTHERS_QUEUE = 6
    """The queue that remained while the player's own queue was empty, as a delay in µs."""
    APPLICATION = 7
    """The share of the looks in which the application had too little to send."""


class Told(NamedTuple):
    """The measured numbers of n paths; each array has the shape (n, numbers), in the order of `Number`. An
    entry is NaN if no look has observed the number. A look is a time over which measurements are summed up.
    """

    value: Floats
    """The mean of each number over the last looks that observed it, in the number's unit."""
    error: Floats
    """The standard error of each number, in its unit; NaN if only one look has observed the number."""
    age_s: Floats
    """The time since the last look that observed the number, in seconds."""


class Decision(Protocol):
    """A chooser's decision for n flows; each array has the shape (n,)."""

    @property
    def arms(self) -> ArmIds:
        """The arm of the coming step, by id."""
        ...

    @property
    def reward(self) -> Floats:
        """The normalised reward of the past step; NaN where unknown."""
        ...

    @property
    def exploring(self) -> Bools:
        """True where the arm was not chosen for its expected reward, but for example to learn about it."""
        ...


@dataclass(frozen=True, slots=True)
class Draw:
    """A `Decision` of plain arrays, for choosers that do not estimate rewards of arms."""

    arms: ArmIds
    reward: Floats
    exploring: Bools


class Chooser(ABC):
    """Chooses an arm for every flow of a step. An arm is one of the congestion controls that the kernel
    module offers.

    A step is one round of the daemon. Each open flow has a slot, its row in all arrays, from `open` to
    `close`. The pool is the arms among which a chooser may choose. Team selection (`teams/`) tries arms on
    live flows, and finds a smaller pool for a path. A learned arm is a congestion control that a neural
    network in the daemon steers.

    A chooser must define `open`, `step`, `pool` and `set_pool`. All other methods have defaults that suit
    most choosers.
    """

    needed_step_s: float = 0.0
    """The longest step that serves the chooser, in seconds. If it is 0, the settings decide the step."""
    reasons: Sequence[str] = ("it had no reason",)
    """Texts of the reasons for an arm, as parts of sentences in the past tense. `{value}` stands for
    `Reasons.value`.
    """
    keeps_arms: bool = False
    """Whether flows keep their arms for long, except while the chooser probes (`free` is false then)."""
    learns_from_teams: bool = False
    """Whether `step` is told the arms that flows try for team selection."""
    encoder: str = ""
    """The digest of the encoder that the chooser uses; empty if it uses none."""

    @abstractmethod
    def open(self, slots: Slots, prefixes: Sequence[str]) -> None:
        """Take in new flows, each with its destination prefix. Flows to one prefix may share knowledge."""

    @abstractmethod
    def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Decision:
        """Decide for the flows of a step.

        Args:
            slots: slots of the flows, shape (n,), each at most once.
            records: `RECORD_DTYPE`, shape (n,), one for each slot.
            given: the arms that flows try for team selection, shape (n,); 0 where a flow tries none.
        """

    @property
    @abstractmethod
    def pool(self) -> tuple[int, ...]:
        """The arms among which the chooser chooses for a new flow."""

    @abstractmethod
    def set_pool(self, arms: Sequence[int], slots: Slots | None = None) -> None:
        """Choose among these arms from now on, for the flows `slots`. If `slots` is None, the pool is for all
        open and future flows.
        """

    def set_default_arm(self, arm: int) -> None:  # noqa: B027 - as for `close`
        """Take note that the module begins new flows on another arm from now on; `arm` is its id."""

    def close(self, slots: Slots) -> None:  # noqa: B027 - most choosers have nothing to do
        """Forget flows that have ended. Later flows may be opened in the same slots."""

    def starts(self) -> dict[str, int]:
        """Return the arms on which new flows should begin, by destination prefix, as learned since the last
        call.

        The arm 0 withdraws the starting arm of a prefix.
        """
        return {}

    def reason(self, slots: Slots) -> Reasons:
        """The reasons why open flows have the arms of their latest decisions."""
        return Reasons(np.zeros(slots.shape, np.intp), np.full(slots.shape, np.nan))

    def estimates(self, slot: int) -> Sequence[Estimate]:
        """The expected rewards of the arms for an open flow; empty if the chooser has none."""
        return ()

    def path(self, slots: Slots) -> Told | None:
        """The numbers that describe open flows' paths; None if the chooser has no model of paths."""
        return None

    def state(self) -> dict[str, np.ndarray]:
        """The learned state, as arrays that the caller may keep."""
        return {}

    def restore(self, arrays: Mapping[str, np.ndarray]) -> None:  # noqa: B027 - as for `close`
        """Take over the result of `state`. Raises `ArtifactError` if it does not fit."""

    def together(self, slots: Slots) -> Indices | None:
        """The player of each flow, shape (n,); None if no two flows share a bottleneck.

        Flows that share a bottleneck have the same player.
        """
        return None

    def free(self, slots: Slots) -> Bools:
        """True where the chooser neither probes nor tests the path, so that another arm may run,
        shape (n,).
        """
        return np.ones(slots.shape, np.bool_)

    def asks(self, slots: Slots) -> PulseKinds | None:
        """The pulses, short rises of the window, that flows should get after the last step, shape (n,). A
        pulse shows whether a path has more rate.

        None means that no flow should get one.
        """
        return None

    def whole(self, slots: Slots) -> Bools | None:
        """True for flows that take their whole windows to other arms, whatever the RTT says, shape (n,).

        None means that there is no such flow.
        """
        return None

    def preferable(self, arms: Sequence[int]) -> tuple[int, ...]:
        """Return which of these arms flows could prefer; empty if the chooser takes no preferences."""
        return ()

    def prefer(self, slots: Slots, arm: int) -> None:  # noqa: B027 - as for `close`
        """Let flows run this arm while nothing speaks against it, because it has won a tournament on their
        path. `set_pool` withdraws the preference.
        """

    def verdicts(self, slots: Slots) -> Verdicts | None:
        """The news since the last call that end a preference, shape (n,); None if there are none."""
        return None

    def drains(self, slots: Slots, records: RecordArray) -> Bools | None:
        """True where a learned arm's window has to be small in the coming step, shape (n,).

        None means that there is no such flow.
        """
        return None

    def starved(self, slots: Slots) -> Bools | None:
        """True where the chooser has found since the last call that an arm earns less than other arms have
        shown, shape (n,).

        None means that there is no such flow.
        """
        return None

    def begins_anew(self, slots: Slots) -> Bools | None:
        """True where, since the last call, the chooser has asked the learned arm to forget the flow, shape
        (n,).

        None means that there is no such flow.
        """
        return None
