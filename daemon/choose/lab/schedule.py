# SPDX-License-Identifier: Apache-2.0
"""A chooser for experiments. It follows a schedule of arms, each with the second of a flow's life at which it
begins.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

import numpy as np

from ltp_switcher.arrays import ArmIds, Slots
from ltp_switcher.daemon.choose.chooser import Chooser, Draw
from ltp_switcher.daemon.datapath import ArmInfo, RecordArray
from ltp_switcher.daemon.datapath.commands import PINNED
from ltp_switcher.errors import ConfigError
from ltp_switcher.slots import SlotArrays, column

EXAMPLE = "entries such as bbr@0, vegas@2.5 in the order of their times, the first at 0"


def parse_schedule(field: str, entries: Sequence[str]) -> list[tuple[str, float]]:
    """Parse entries such as `vegas@2.5` into arms and the seconds at which they begin.

    Raises:
        ConfigError: an entry is not an arm with a time, or the times do not rise from 0. The error names
            `field`.
    """
    parsed: list[tuple[str, float]] = []
    for entry in entries:
        name, _, text = entry.partition("@")
        try:
            at_s = float(text)
        except ValueError:
            raise ConfigError(field, entry, EXAMPLE) from None
        if not name or not isfinite(at_s) or (at_s <= parsed[-1][1] if parsed else at_s != 0):
            raise ConfigError(field, entry, EXAMPLE)
        parsed.append((name, at_s))
    if not parsed:
        raise ConfigError(field, list(entries), EXAMPLE)
    return parsed


class ScheduleChooser(Chooser, SlotArrays):
    """Runs the arms of a schedule on every flow. Each arm begins at its time after the start of the flow.

    Args:
        entries: the schedule, in the form that `parse_schedule` takes.
        arms: the kernel's arms.

    Raises:
        ConfigError: the schedule cannot be read, or names an arm that the kernel does not have.
    """

    needed_step_s = 0.05
    reasons = ("the schedule had it at that time",)

    _began_ns = column(np.int64)
    """Start of the flow; 0 before its first record."""

    def __init__(self, entries: Sequence[str], arms: Sequence[ArmInfo]) -> None:
        super().__init__()
        known = {arm.name: arm.id for arm in arms if arm.available}
        schedule = parse_schedule("daemon.schedule", entries)
        for name, _ in schedule:
            if name not in known:
                raise ConfigError("daemon.schedule", name, f"one of {', '.join(known)}")
        self._arms = np.array([known[name] for name, _ in schedule], np.uint8)
        self._at_ns = np.array([at_s * 1e9 for _, at_s in schedule], np.int64)

    def open(self, slots: Slots, prefixes: Sequence[str]) -> None:
        """Take in new flows. A flow's life begins with the interval of its first record."""
        self.reset(slots)

    def step(self, slots: Slots, records: RecordArray, given: ArmIds | None = None) -> Draw:
        """The arms that the schedule has for the flows at the times of their records."""
        now_ns = records["time_ns"].astype(np.int64)
        began_ns = self._began_ns[slots]
        began_ns = np.where(began_ns == 0, now_ns - records["interval_ns"].astype(np.int64), began_ns)
        self._began_ns[slots] = began_ns
        entry = np.searchsorted(self._at_ns, now_ns - began_ns, side="right") - 1
        # The arm of a pinned flow is not ours to choose.
        arms = np.where(records["flags"] & PINNED, records["want_arm"], self._arms[np.maximum(entry, 0)])
        return Draw(arms, np.full(slots.shape, np.nan), np.zeros(slots.shape, np.bool_))

    def set_pool(self, arms: Sequence[int], slots: Slots | None = None) -> None:
        """Ignore the pool, because the schedule chooses."""

    @property
    def pool(self) -> tuple[int, ...]:
        """The arms of the schedule."""
        return tuple(sorted(set(self._arms.tolist())))
