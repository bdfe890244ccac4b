# SPDX-License-Identifier: Apache-2.0
"""The arm of every flow in a step, and the cause of each arm.

A choice passes through stages: the policy, team selection, the lots of visits, the operator's policies and
pins, the experiment. Each stage may replace arms, together with their causes. So the log, the journal and the
answers know the cause, and need not guess it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ltp_switcher.arrays import ArmIds, Bools

Causes = npt.NDArray[np.uint8]
"""An array of `Cause` values."""


class Cause(IntEnum):
    """The one who gave a flow its arm."""

    NONE = 0
    """Nobody has chosen yet. The flow has moved no data since it was first seen, or since the operator's
    policies changed.
    """
    POLICY = 1
    TEAM_SELECTION = 2
    OPERATOR = 3
    """An operator pinned the flow."""
    FALLBACK = 4
    MODE = 5
    ELSEWHERE = 6
    HELD = 7
    """An operator's policy names the arm."""
    EXPERIMENT = 8
    """The experiment has the flow in the control group."""
    EXCLUDED = 9
    """An operator's policy leaves the flow alone."""
    EXPLORATION = 10
    """Exploration drew the arm at random, because of gain.explore."""
    VISIT = 11
    """The flow's visit to its destination prefix drew the arm."""


class Choice(NamedTuple):
    """The arms of n flows and their causes, each with the shape (n,). The arrays are never changed in
    place.
    """

    arms: ArmIds
    causes: Causes

    def but(self, where: Bools, arms: ArmIds | np.uint8, cause: Cause) -> Choice:
        """Return a choice with other arms and another cause where `where` is true, shape (n,)."""
        return Choice(np.where(where, arms, self.arms), np.where(where, _AS_UINT8[cause], self.causes))


def of_policy(arms: ArmIds) -> Choice:
    """Make a choice from the policy's arms."""
    causes = np.empty(arms.shape, np.uint8)
    causes.fill(Cause.POLICY)
    return Choice(arms, causes)


_AS_UINT8: Final = tuple(np.uint8(number) for number in range(len(Cause)))
"""The causes as numpy scalars, because plain numbers would make the result wider."""
