# SPDX-License-Identifier: Apache-2.0
"""HyStart's delay increase: the RTT at which slow start has met a queue (Ha & Rhee 2011)."""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats

SHARE: Final = 1 / 8
"""Least queuing delay that ends slow start, as a share of the least RTT, within `LIMITS_S`."""
LIMITS_S: Final = (0.004, 0.016)
"""Limits of the queuing delay that `SHARE` gives, in seconds. Both numbers are from Linux' Cubic."""


def queue_threshold_s(rtt_min_s: Floats) -> Floats:
    """Return the RTT above which a queue stands, from each flow's least RTT, both in seconds and of the same
    shape.
    """
    threshold_s: Floats = rtt_min_s + np.clip(SHARE * rtt_min_s, *LIMITS_S)
    return threshold_s
