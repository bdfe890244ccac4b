# SPDX-License-Identifier: Apache-2.0
"""The four roles of arms in the rule, and the arm (congestion control) of each role. By default the probing
arm is BBR, the steady arm is LTP, the careful arm is Vegas, and the filling arm is Cubic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ltp_switcher.arrays import ArmIds
from ltp_switcher.daemon.datapath.protocol import ArmId

PROBING, STEADY, CAREFUL, FILLING = range(4)
ROLE_COUNT: Final = 4
ROLES: Final = (ArmId.BBR, ArmId.LTP, ArmId.VEGAS)
"""The arms of the first three roles, in the order probing, steady, careful: BBR, LTP, Vegas."""
FILLS: Final = ArmId.CUBIC
"""The arm of the fourth role: it grows until packets are lost, whatever the RTT and the rate are."""
_SUBSTITUTES: Final = (ArmId.BBR, ArmId.LTP, ArmId.VEGAS, ArmId.CUBIC)
"""Substitutes for a role's own arm, if the pool lacks it. The first of these that the pool has takes the
role. If the pool has none of them, its first arm takes the role.
"""


def roles_of(pool: Sequence[int]) -> ArmIds:
    """Return the arm that each role gets from a pool, shape (4,), in the order probing, steady, careful,
    filling. The filling role has no substitute, and keeps its arm.
    """
    order = [int(arm) for arm in _SUBSTITUTES if arm in pool] or list(pool)
    return np.array([*(arm if arm in pool else order[0] for arm in ROLES), FILLS], np.uint8)
