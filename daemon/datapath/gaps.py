# SPDX-License-Identifier: Apache-2.0
"""Quantiles of the gap between two ACKs of a flow, from the counts by range in the module's records.

The quantiles are weighted by time: half of the time passed in gaps of at most the median. The ACKs of a Wi-Fi
client come in bursts, so most ACKs closely follow the one before. But most of the time passes between the
bursts, and a quantile by count would hide that.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from ltp_switcher.daemon.datapath.protocol import ACK_GAP_US, ACK_GAPS

_EDGES_US: Final = (0.0, *(float(ACK_GAP_US << index) for index in range(ACK_GAPS - 1)))
"""The beginning of each range, in µs."""
_MIDDLES_US: Final = (*((low + high) / 2 for low, high in pairwise(_EDGES_US)), 1.5 * _EDGES_US[-1])
"""The gap in µs as which every gap of a range counts: the middle of the range. The last range has no end, so
it counts as if it ended at twice its beginning.
"""


def gap_quantile_us(counts: Sequence[float], q: float) -> float | None:
    """Return the gap in µs up to which gaps make up the share `q` of the time between ACKs; None without a
    gap.

    Within a range the time counts as spread evenly. A quantile in the last range, which has no end, is the
    beginning of that range.

    Args:
        counts: number of gaps in each range, shape (16,), in the order of the field `ack_gaps`.
        q: the share, 0 to 1.
    """
    times_us = [count * middle for count, middle in zip(counts, _MIDDLES_US, strict=True)]
    left_us = q * sum(times_us)
    if left_us <= 0:
        return None
    for index, (low, high) in enumerate(pairwise(_EDGES_US)):
        if left_us <= times_us[index]:
            return low + (high - low) * left_us / times_us[index]
        left_us -= times_us[index]
    return _EDGES_US[-1]
