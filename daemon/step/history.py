# SPDX-License-Identifier: Apache-2.0
"""The last five minutes of each flow, with one point for each second.

A point costs one write for each flow, and a step without a point costs nothing. `FLOWS_MAX` flows take 16 MB.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Ints, Slots
from ltp_switcher.daemon.datapath.protocol import ARMS_MAX
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.measures import loss_rate
from ltp_switcher.slots import SlotArrays, column

POINTS: Final = 300
FLOWS_MAX: Final = 4096
"""Number of slots that have a history. A flow in a slot beyond has none."""


@dataclass(frozen=True, slots=True)
class Past:
    """The points of one flow, oldest first; each array has the shape (points,).

    Attributes:
        time_ns: time of the point, CLOCK_MONOTONIC.
        goodput_Bps: mean goodput since the previous point, in bytes/s.
        srtt_us: smoothed RTT at the point; 0 if unknown.
        loss: loss rate since the previous point.
        arm: id of the arm at the point.
    """

    time_ns: Ints
    goodput_Bps: Floats  # noqa: N815 - B is bytes
    srtt_us: Floats
    loss: Floats
    arm: Ints


@dataclass(frozen=True, slots=True)
class Totals:
    """The points of all flows together, oldest first, by arm.

    Attributes:
        time_ns: time of the point, CLOCK_MONOTONIC, shape (points,).
        goodput_Bps: mean goodput since the previous point, in bytes/s, shape (points, ARMS_MAX + 1).
        flows: number of flows, shape (points, ARMS_MAX + 1).
    """

    time_ns: Ints
    goodput_Bps: Floats  # noqa: N815
    flows: Ints


class History(SlotArrays):
    """The last `POINTS` points of each flow, in rings. The points of one time lie at the same place in all
    rings.
    """

    _goodput_Bps = column(np.float32, POINTS)  # noqa: N815
    _srtt_us = column(np.float32, POINTS)
    _loss = column(np.float32, POINTS)
    _arm = column(np.uint8, POINTS)
    _begin = column(np.int64)
    """Number of the flow's first point."""
    _mark = column(np.uint64, 2)
    """The flow's counts of packets lost and delivered, as they were at the last point."""

    def __init__(self) -> None:
        super().__init__()
        self._time_ns: Ints = np.zeros(POINTS, np.int64)
        self._total_Bps: Floats = np.zeros((POINTS, ARMS_MAX + 1))
        self._flows: Ints = np.zeros((POINTS, ARMS_MAX + 1), np.int64)
        self._count = 0

    def open(self, slots: Slots, table: FlowTable) -> None:
        """Begin the histories of flows; flows beyond `FLOWS_MAX` get none."""
        slots = slots[slots < FLOWS_MAX]
        self.grow(min(int(slots.max(initial=-1)) + 1, FLOWS_MAX))
        self._begin[slots] = self._count
        self._mark[slots] = _counts(table, slots)

    def mark(self, table: FlowTable, now_ns: int) -> None:
        """Add a point for every flow. Call this after the flow table's own `mark`."""
        slots = np.array(table.slots(), np.int64)
        place = self._count % POINTS
        self._time_ns[place] = now_ns
        self._count += 1
        arms = table.record["arm"][slots]
        self._flows[place] = np.bincount(arms, minlength=ARMS_MAX + 1)
        self._total_Bps[place] = np.bincount(arms, table.goodput_Bps[slots], minlength=ARMS_MAX + 1)
        slots = slots[slots < min(FLOWS_MAX, self.capacity)]
        if not slots.size:
            return
        counts = _counts(table, slots)
        lost, delivered = (counts - self._mark[slots]).T
        self._mark[slots] = counts
        self._goodput_Bps[slots, place] = table.goodput_Bps[slots]
        self._srtt_us[slots, place] = table.record["srtt_us"][slots]
        self._loss[slots, place] = loss_rate(lost, delivered)
        self._arm[slots, place] = table.record["arm"][slots]

    def totals(self) -> Totals:
        """The points of all flows together, by arm."""
        at = np.arange(max(self._count - POINTS, 0), self._count) % POINTS
        return Totals(self._time_ns[at], self._total_Bps[at], self._flows[at])

    def of(self, slot: int, points: int = POINTS) -> Past | None:
        """Return the latest points of an open flow, at most `points`; None if the flow has no history."""
        if slot >= min(FLOWS_MAX, self.capacity):
            return None
        numbers = np.arange(max(int(self._begin[slot]), self._count - min(points, POINTS)), self._count)
        at = numbers % POINTS
        return Past(
            self._time_ns[at],
            self._goodput_Bps[slot, at].astype(np.float64),
            self._srtt_us[slot, at].astype(np.float64),
            self._loss[slot, at].astype(np.float64),
            self._arm[slot, at].astype(np.int64),
        )


def _counts(table: FlowTable, slots: Slots) -> np.ndarray:
    record = table.record
    return np.stack((record["total_lost"][slots], record["total_delivered"][slots]), axis=1)
