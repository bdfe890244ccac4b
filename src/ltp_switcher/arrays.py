# SPDX-License-Identifier: Apache-2.0
"""The types of arrays that the whole package uses."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Float32s = NDArray[np.float32]
Ints = NDArray[np.int64]
Int32s = NDArray[np.int32]
UInt32s = NDArray[np.uint32]
UInt64s = NDArray[np.uint64]
Bools = NDArray[np.bool_]
Indices = NDArray[np.intp]
"""Integer indices into another array."""
Slots = NDArray[np.int64]
"""Slot numbers of flows; `slots` describes them."""
ArmIds = NDArray[np.uint8]
"""Arm numbers as the kernel module uses them, from 1 up; 0 means no arm."""
