# SPDX-License-Identifier: Apache-2.0
"""The types of arrays that the whole package uses."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Float32s = NDArray[np.float32]
Ints = NDArray[np.int64]
UInt64s = NDArray[np.uint64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.intp]
"""Positions in another array."""
Slots = NDArray[np.int64]
"""Numbers of flows; see `slots`."""
ArmIds = NDArray[np.uint8]
"""The kernel's numbers of arms, 1 and up; 0 is none."""

_Scalar = TypeVar("_Scalar", bound=np.generic)


def resized(array: NDArray[_Scalar], slots: int) -> NDArray[_Scalar]:
    """Return the first `slots` rows of an array (old slots, ...), and zeros for those that it lacks."""
    rows: NDArray[_Scalar] = np.zeros((slots, *array.shape[1:]), array.dtype)
    kept = array[:slots]
    rows[: len(kept)] = kept
    return rows
