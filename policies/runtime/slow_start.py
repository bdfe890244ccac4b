# SPDX-License-Identifier: Apache-2.0
"""HyStart's delay increase: the RTT at which slow start has met a queue (Ha & Rhee 2011)."""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats

SHARE: Final = 1 / 8
"""Share of the least RTT that a queue must add to it, within `LIMITS_S`."""
LIMITS_S: Final = (0.004, 0.016)
"""Limits of the queue of `SHARE`; Linux' Cubic has both numbers."""


def queue_threshold_s(rtt_min_s: Floats) -> Floats:
    """The RTT above which a queue stands, from the least RTT of each flow, of the same shape."""
    threshold_s: Floats = rtt_min_s + np.clip(SHARE * rtt_min_s, *LIMITS_S)
    return threshold_s
