# SPDX-License-Identifier: Apache-2.0
"""Spine or Spine-Cubic on given links of the simulator, alone or beside Cubic, from slow start on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats
from ltp_switcher.policies.runtime.arm import Arm, Law
from ltp_switcher.policies.simulator.directed import directed
from ltp_switcher.policies.simulator.paths import NEVER, PPS_PER_MBPS, Flows, Paths, Steps
from ltp_switcher.policies.simulator.simulator import Roster, Simulator
from ltp_switcher.policies.simulator.totals import Totals

DURATION_S: Final = 40.0
WARM_UP_S: Final = 2.0
"""Time at the start that is left out of the figures, in seconds. In this time flows are in slow start, which
is the same at every monitor interval.
"""
ROSTERS: Final = {
    Law.AIMD: Roster(aimd=1, cubic=1),
    Law.CUBIC: Roster(cubic=2, learned_cubic=1),
}


@dataclass(frozen=True)
class SpineRun:
    """A run on E links with two flows each: the judged flow is row 0, and a Cubic flow is row 1.

    Attributes:
        totals: sums over the run without the warm-up.
        generated: number of runs of the judged flow's policy generator, warm-up included, shape (E,).
    """

    totals: Totals
    generated: Floats


def constant(rate_mbps: Floats, rtt_ms: Floats) -> Paths:
    """Make links of constant rate with buffers of one bandwidth-delay product. The arguments have the shape
    (E,).
    """
    return replace(
        Paths.uniform(len(rtt_ms)),
        rate_mbps=rate_mbps,
        rtt_ms=rtt_ms,
        buffer_pkts=rate_mbps * PPS_PER_MBPS * rtt_ms / 1e3,
    )


def square_wave(paths: Paths, changing: Bools, *, period_s: float, changes: int) -> Paths:
    """Make links of which some change their rate. The links marked by `changing`, shape (E,), halve and
    double their rate in turn, `changes` times, every `period_s` seconds.
    """
    numbers = np.arange(changes)[:, None]
    at_s = np.where(changing, period_s * (numbers + 1.0), np.inf)
    rate_mbps = np.where(numbers % 2, 1.0, 0.5) * paths.rate_mbps
    unchanged = np.full(at_s.shape, np.nan)
    return replace(paths, steps=Steps(at_s, rate_mbps, unchanged, unchanged))


def play(
    arm: Arm | None,
    law: Law,
    interval_s: float,
    paths: Paths,
    beside_cubic: Bools,
    *,
    duration_s: float = DURATION_S,
    tick_s: float = 0.001,
) -> SpineRun:
    """Run all links at once. A Cubic flow sends beside the judged flow on the links marked by `beside_cubic`,
    shape (E,).

    Without an arm the judged flow is Cubic, too, and `law` must be `Law.CUBIC`.
    """
    start_s = np.stack((np.zeros(paths.count), np.where(beside_cubic, 0.0, NEVER)))
    flows = Flows(start_s, np.full(start_s.shape, NEVER), np.full(start_s.shape, np.nan))
    simulator = Simulator(paths, flows, ROSTERS[law], seed=7, interval_s=interval_s, tick_s=tick_s)
    totals = Totals.none(len(start_s), paths.count)
    generated = np.zeros(paths.count)
    for interval, parameters in directed(simulator, arm, duration_s=duration_s):
        if arm is not None:
            generated += ~np.isnan(parameters[:, 0])
        if interval.end_s > WARM_UP_S:
            totals.add(interval)
    return SpineRun(totals, generated)
