# SPDX-License-Identifier: Apache-2.0
"""Histograms with fixed bounds. Histograms of several machines or times can be added; quantiles cannot."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Indices, Ints
from ltp_switcher.daemon.datapath.protocol import ARMS_MAX
from ltp_switcher.daemon.step.flow_table import FlowTable

STEP_S: Final = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5)
RTT_S: Final = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0)
GOODPUT_BPS: Final = (1e3, 1e4, 1e5, 1e6, 3e6, 1e7, 3e7, 1e8, 1e9)


class Histogram:
    """Counts of values by bucket. `bounds[i]` is the upper end of bucket i; the last bucket
    has no upper end.
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self.counts: list[int] = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


class ArmHistograms:
    """A histogram for each arm, by id. `counts` has the shape (ARMS_MAX + 1, bounds + 1), and `sums`, the
    sums of the values, has the shape (ARMS_MAX + 1,).
    """

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(bounds)
        self._edges = np.array(bounds)
        self.counts: Ints = np.zeros((ARMS_MAX + 1, len(bounds) + 1), np.int64)
        self.sums: Floats = np.zeros(ARMS_MAX + 1)

    def add(self, arms: Indices, values: Floats) -> None:
        """Count the values of n flows under their arms. Both arrays have the shape (n,)."""
        np.add.at(self.counts, (arms, np.searchsorted(self._edges, values)), 1)
        np.add.at(self.sums, arms, values)


class Distributions:
    """Histograms by arm of the RTT in seconds and of the goodput in bytes/s. Once a second, each flow that
    moves data counts in both.
    """

    def __init__(self) -> None:
        self.rtt_s = ArmHistograms(RTT_S)
        self.goodput_Bps = ArmHistograms(GOODPUT_BPS)

    def look(self, table: FlowTable) -> None:
        """Count every flow that moved data between the last two marks of the flow table. Call this after each
        mark.
        """
        slots = np.array(table.slots(), np.int64)
        slots = slots[table.goodput_Bps[slots] > 0]
        arms = table.record["arm"][slots].astype(np.intp)
        self.goodput_Bps.add(arms, table.goodput_Bps[slots])
        self.rtt_s.add(arms, table.record["srtt_us"][slots] * 1e-6)
