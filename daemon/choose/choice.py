# SPDX-License-Identifier: Apache-2.0
"""The arm of every flow in a step, and the cause of each arm.

A choice passes through stages: the policy, team selection (trials of arms), the arms drawn for visits (groups
of flows), the operator's policies and pins, the experiment. Each stage may replace arms, together with their
causes. So logs and API answers can tell the cause, and need not guess it.
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
    """The stage or person that gave a flow its arm."""

    NONE = 0
    """Nobody has chosen yet. The flow has moved no data since it was first seen, or since the operator's
    policies changed.
    """
    POLICY = 1
    TEAM_SELECTION = 2
    OPERATOR = 3
    """An operator pinned the flow to the arm."""
    FALLBACK = 4
    """The kernel module moved the flow to its fallback arm."""
    MODE = 5
    """The daemon is not in the mode active, so it moved the flow from a learned arm to the fallback arm."""
    ELSEWHERE = 6
    """The application or another program chose the arm."""
    HELD = 7
    """An operator's policy names the arm."""
    EXPERIMENT = 8
    """The flow is in the control group of an experiment."""
    EXCLUDED = 9
    """An operator's policy keeps the daemon from choosing for the flow."""
    EXPLORATION = 10
    """The arm was drawn at random, as the setting gain.explore asks."""
    VISIT = 11
    """The arm was drawn for the flow's visit. A visit is a group of flows to a destination prefix that share
    an arm.
    """


class Choice(NamedTuple):
    """The arms of n flows and their causes, each with the shape (n,). The arrays are never changed in
    place.
    """

    arms: ArmIds
    causes: Causes

    def but(self, where: Bools, arms: ArmIds | np.uint8, cause: Cause) -> Choice:
        """Return a choice in which `arms` and `cause` replace the present ones where `where` is true, shape
        (n,).
        """
        return Choice(np.where(where, arms, self.arms), np.where(where, _AS_UINT8[cause], self.causes))


def of_policy(arms: ArmIds) -> Choice:
    """Make a choice from the arms of the policy. The cause of each is `Cause.POLICY`."""
    causes = np.empty(arms.shape, np.uint8)
    causes.fill(Cause.POLICY)
    return Choice(arms, causes)


_AS_UINT8: Final = tuple(np.uint8(number) for number in range(len(Cause)))
"""The causes as numpy's uint8. With plain integers, `np.where` would return a wider type."""
