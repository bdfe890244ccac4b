# SPDX-License-Identifier: Apache-2.0
"""The arm of every flow of a step, and who chose it.

A choice passes through stages: the policy, team selection, the lots of visits, the operator's policies and
pins, the experiment. Each one puts its arms and its cause in the places of others. So log, journal and
answers tell the cause, and nobody guesses it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ltp_switcher.arrays import ArmIds, Bools

Causes = npt.NDArray[np.uint8]
"""Values of `Cause`."""


class Cause(IntEnum):
    """Who gave a flow its arm."""

    NONE = 0
    """Nobody yet: the flow has moved no data since it is known, or since the operator's policies changed."""
    POLICY = 1
    TEAM_SELECTION = 2
    OPERATOR = 3
    """A pin."""
    FALLBACK = 4
    MODE = 5
    ELSEWHERE = 6
    HELD = 7
    """A policy of the operator that names an arm."""
    EXPERIMENT = 8
    """The flow is in the control group."""
    EXCLUDED = 9
    """A policy of the operator that leaves the flow alone."""
    EXPLORATION = 10
    """Chance, because of gain.explore."""
    VISIT = 11
    """The lot that the flow's visit to its destination prefix drew."""


class Choice(NamedTuple):
    """The arms of n flows with their causes, each of shape (n,). Nobody changes them in place."""

    arms: ArmIds
    causes: Causes

    def but(self, where: Bools, arms: ArmIds | np.uint8, cause: Cause) -> Choice:
        """Other arms with their cause where `where` holds, shape (n,)."""
        return Choice(np.where(where, arms, self.arms), np.where(where, _AS_UINT8[cause], self.causes))


def of_policy(arms: ArmIds) -> Choice:
    """The policy's choice."""
    causes = np.empty(arms.shape, np.uint8)
    causes.fill(Cause.POLICY)
    return Choice(arms, causes)


_AS_UINT8: Final = tuple(np.uint8(number) for number in range(len(Cause)))
"""The causes as numpy scalars: a plain number would make the result wider."""
