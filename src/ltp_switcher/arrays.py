# SPDX-License-Identifier: Apache-2.0
"""The array types of the whole package."""

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
"""Slots of flows. A slot is the number of a flow's row in the program's arrays; see the module `slots`."""
ArmIds = NDArray[np.uint8]
"""Numbers of arms, the congestion controls that a flow can run, as the kernel module has them. They count
from 1; 0 means no arm.
"""
PulseKinds = NDArray[np.uint8]
"""Kinds of the pulses that flows should get (`PulseKind`). A pulse is a short rise of a flow's window."""
