# SPDX-License-Identifier: Apache-2.0
"""Objects that remember flows by slot, ready for use."""

from __future__ import annotations

from typing import TypeVar

import numpy as np

from ltp_switcher.slots import SlotArrays

Made = TypeVar("Made", bound=SlotArrays)


def begun(made: Made, n: int = 1) -> Made:
    """The object itself, with flows in the slots 0 to n - 1 of which nothing is known yet."""
    made.reset(np.arange(n))
    return made
