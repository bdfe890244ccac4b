# SPDX-License-Identifier: Apache-2.0
"""The three roles of arms in the rule, and the arm (congestion control) of each role. By default the probing
arm is BBR, the steady arm is LTP, and the careful arm is Vegas.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ltp_switcher.arrays import ArmIds
from ltp_switcher.daemon.datapath.protocol import ArmId

PROBING, STEADY, CAREFUL = range(3)
ROLES: Final = (ArmId.BBR, ArmId.LTP, ArmId.VEGAS)
"""The arms of the three roles, in the order probing, steady, careful: BBR, LTP, Vegas."""
_SUBSTITUTES: Final = (ArmId.BBR, ArmId.LTP, ArmId.VEGAS, ArmId.CUBIC)
"""Substitutes for a role's own arm, if the pool lacks it. The first of these that the pool has takes the
role. If the pool has none of them, its first arm takes the role.
"""


def roles_of(pool: Sequence[int]) -> ArmIds:
    """Return the arm that each role gets from a pool, shape (3,), in the order probing, steady, careful."""
    order = [int(arm) for arm in _SUBSTITUTES if arm in pool] or list(pool)
    return np.array([arm if arm in pool else order[0] for arm in ROLES], np.uint8)
