# SPDX-License-Identifier: Apache-2.0
"""The arms of the rule's three roles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ltp_switcher.arrays import ArmIds
from ltp_switcher.daemon.datapath.protocol import ArmId

PROBING, STEADY, CAREFUL = range(3)
ROLES: Final = (ArmId.BBR, ArmId.LTP, ArmId.VEGAS)
"""The arms of the probing, the steady and the careful role, in this order."""
_SUBSTITUTES: Final = (ArmId.BBR, ArmId.LTP, ArmId.VEGAS, ArmId.CUBIC)
"""The arms that take a role whose own arm the pool lacks: the first of these that the pool has."""


def roles_of(pool: Sequence[int]) -> ArmIds:
    """The arm of each role among those of the pool, shape (3,)."""
    order = [int(arm) for arm in _SUBSTITUTES if arm in pool] or list(pool)
    return np.array([arm if arm in pool else order[0] for arm in ROLES], np.uint8)
