# SPDX-License-Identifier: Apache-2.0
"""The counters that the daemon keeps about its own work."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np

from ltp_switcher.arrays import Floats
from ltp_switcher.daemon.datapath import ResumeCounts
from ltp_switcher.daemon.step.histogram import STEP_S, Histogram

DURATIONS_KEPT = 1024


@dataclass(slots=True)
class Statistics:
    """Counts of the daemon's work since its start. In each step, the daemon reads a record of measurements
    from every flow with new acknowledgements. Then it decides which arm (congestion control) each of these
    flows should run. All times are in seconds.
    """

    steps: int = 0
    missed_steps: int = 0
    """Number of steps that were due while an earlier step still ran."""
    records: int = 0
    decisions: int = 0
    """Number of decisions. A step makes one for each record, unless the daemon is in mode off."""
    changes: int = 0
    """Number of decisions for an arm other than the one that the flow had."""
    explored: int = 0
    commands_applied: int = 0
    commands_unknown: int = 0
    commands_refused: int = 0
    controls_applied: int = 0
    controls_clamped: int = 0
    """Number of applied controls (the actions of learned arms) whose congestion window the kernel moved
    nearer to the flow's own one.
    """
    controls_unknown: int = 0
    controls_refused: int = 0
    flows_opened: int = 0
    flows_closed: int = 0
    flows_max: int = 0
    """Largest number of flows that the kernel module can handle at a time."""
    flows_refused: int = 0
    """Number of connections that the kernel module left alone, because it had no room for another flow."""
    resume: ResumeCounts = field(default_factory=lambda: ResumeCounts(0, 0, 0, 0, 0))
    """The kernel module's counts of Careful Resume (RFC 9959), by which a flow begins with a part of a saved
    window.
    """
    fallbacks: int = 0
    events_lost: int = 0
    """Number of times that the kernel dropped events about flows. After each time, the daemon lists all flows
    again.
    """
    saves: int = 0
    """Number of times that the learned state was saved."""
    save_failures: int = 0
    """Number of times that the learned state could not be saved."""
    step_s: Histogram = field(default_factory=lambda: Histogram(STEP_S))
    """Histogram of the durations, in seconds, of the steps in which a flow had moved data."""
    last_step_s: float = field(default_factory=time.monotonic)
    """Time at which the last step ended, with or without data (`time.monotonic`). Before the first step it is
    the time of the daemon's start.
    """
    _step_s: Floats = field(default_factory=lambda: np.zeros(DURATIONS_KEPT))

    def took(self, duration_s: float) -> None:
        """Count a step in which a flow had moved data, with its duration."""
        self._step_s[self.steps % DURATIONS_KEPT] = duration_s
        self.steps += 1
        self.step_s.add(duration_s)

    def step_quantile_s(self, q: float) -> float:
        """The quantile `q` (0 to 1) of the durations of the latest steps that `took` counted, in seconds; 0
        before the first of these steps.
        """
        kept = self._step_s[: min(self.steps, DURATIONS_KEPT)]
        return float(np.quantile(kept, q)) if kept.size else 0.0
