# SPDX-License-Identifier: Apache-2.0
"""The rule by which HyStart ends slow start: the RTT above which slow start has met a queue
(Ha & Rhee 2011).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats

SHARE: Final = 1 / 8
"""Least queuing delay that ends slow start, as a share of the least RTT. `LIMITS_S` bound this delay."""
LIMITS_S: Final = (0.004, 0.016)
"""Least and largest queuing delay that `SHARE` may give, in seconds. Both numbers are from Linux' Cubic."""


def queue_threshold_s(rtt_min_s: Floats) -> Floats:
    """Return the RTT above which a queue stands, given each flow's least RTT. Both are in seconds and have
    the same shape.
    """
    threshold_s: Floats = rtt_min_s + np.clip(SHARE * rtt_min_s, *LIMITS_S)
    return threshold_s
