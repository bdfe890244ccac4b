# SPDX-License-Identifier: Apache-2.0
"""Rewards over time: after the start alone, after a change of the path, and under the best arm
of each time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats
from ltp_switcher.eval.run import metrics
from ltp_switcher.eval.run.results import RunResult
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.run.series import BIN_S, FlowSeries
from ltp_switcher.eval.run.summary import Summary
from ltp_switcher.eval.suite.single import SinglePath
from ltp_switcher.measures import loss_rate

START_S: Final = 3.0
"""Length in seconds of a flow's start, which some rewards leave out."""
SETTLE_S: Final = 2.0
SETTLE_RTTS: Final = 20.0
"""Number of RTTs that an arm gets to settle after a change of the path, but at least `SETTLE_S` seconds."""
WINDOW_S: Final = 1.0
"""Length in seconds of a window. A flow has recovered when its mean reward over a window is high enough."""
ENOUGH: Final = 0.9
"""Share of the settled best arm's mean reward that a flow has to reach to count as recovered."""
SEGMENT_S: Final = 10.0
"""Least time in seconds for which the oracle, which knows all rewards in advance, keeps an arm."""


@dataclass(frozen=True, slots=True)
class Recovery:
    """A change of a path at `at_s`, and the time `took_s` until the flow had recovered. If it never
    recovered, `took_s` is the time to the next change or the end. `allowed_s` is the time that an arm gets to
    settle.
    """

    path: str
    at_s: float
    took_s: float
    allowed_s: float


def rewards(series: FlowSeries) -> Floats:
    """Return the reward of each bin by Mutant's Eq. 1, shape (bins,)."""
    return metrics.rewards(
        series.goodput_mbps, series.rtt_ms, loss_rate(series.lost_pkts, series.delivered_pkts)
    )


def without_start(result: RunResult, start_s: float = START_S) -> Summary:
    """Return the run's summary, with rewards that leave out each flow's first `start_s` seconds."""
    flows = []
    for flow, seen, series in zip(
        result.job.scenario.flows, result.summary.flows, result.series, strict=True
    ):
        life = series.life(flow.start_s + start_s, flow.stop_s)
        flows.append(replace(seen, reward=float(rewards(series)[life].mean()) if life.any() else 0.0))
    return replace(result.summary, flows=tuple(flows))


def recoveries(
    path: str, scenario: Scenario, scheme: FlowSeries, arms: Mapping[str, Sequence[FlowSeries]]
) -> list[Recovery]:
    """Return how soon a flow recovered after each change of its path. Changes that leave an arm no time to
    settle are skipped.

    Args:
        path: name of the path.
        scenario: scenario with the changes.
        scheme: series of the flow that is judged.
        arms: series of the arms alone on the same path, by arm, one for each seed.
    """
    states = list(scenario.link.states())
    ends_s = [state.at_s for state in states[1:]] + [scenario.duration_s]
    earned = rewards(scheme)
    found = []
    for state, end_s in list(zip(states, ends_s, strict=True))[1:]:
        allowed_s = max(SETTLE_S, SETTLE_RTTS * state.rtt_ms / 1e3)
        if end_s - state.at_s < allowed_s + WINDOW_S:
            continue
        settled = [_mean(one, state.at_s + allowed_s, end_s) for one in arms.values()]
        best = max(settled)
        width = round(WINDOW_S / BIN_S)
        at = np.flatnonzero(scheme.life(state.at_s, end_s - WINDOW_S))
        good = [i for i in at.tolist() if earned[i : i + width].mean() >= ENOUGH * best]
        took_s = scheme.t_s[good[0]] - state.at_s if good else end_s - state.at_s
        found.append(Recovery(path, state.at_s, round(float(took_s), 1), round(allowed_s, 1)))
    return found


def recovered(paths: Mapping[str, SinglePath]) -> dict[str, list[Recovery]]:
    """Return the recoveries of each scheme that is no single arm, on the paths with steps or handovers, by
    scheme.
    """
    found: dict[str, list[Recovery]] = {}
    for name, path in paths.items():
        if not (path.scenario.link.steps or path.scenario.link.road.handovers):
            continue
        arms = path.arms
        for scheme in (scheme for scheme in path.series if scheme not in arms):
            for one in path.series[scheme]:
                if seen := recoveries(name, path.scenario, one, arms):
                    found.setdefault(scheme, []).extend(seen)
    return found


def oracles(paths: Mapping[str, SinglePath]) -> dict[str, float]:
    """Return the rewards of an oracle relative to the best arm's, by path.

    The oracle knows in advance which arm earns the most in each segment of `SEGMENT_S`, and pays nothing for
    a switch. The reward of a segment comes from a run of its arm alone, so the segment starts with the window
    and the queue of this arm. A policy that switches as rarely cannot expect more.
    """
    found = {
        name: segment_oracle([[rewards(one) for one in runs] for runs in path.arms.values()])
        for name, path in paths.items()
        if path.arms
    }
    return {name: share for name, share in found.items() if share is not None}


def segment_oracle(arms: Sequence[Sequence[Floats]]) -> float | None:
    """Return the ratio of the oracle's reward on a path to the best arm's; None if no arm earned anything.

    Args:
        arms: for each arm, the rewards of each seed's run by bin, shape (bins,).
    """
    bins = min(one.size for runs in arms for one in runs)
    means = np.array([np.mean([one[:bins] for one in runs], axis=0) for runs in arms])
    width = round(SEGMENT_S / BIN_S)
    starts = np.arange(0, bins, width)
    best = np.add.reduceat(means, starts, axis=1).max(axis=0).sum()
    whole = means.sum(axis=1).max()
    return float(best / whole) if whole > 0 else None


def _mean(runs: Sequence[FlowSeries], from_s: float, to_s: float) -> float:
    means = [rewards(run)[life].mean() for run in runs if (life := run.life(from_s, to_s)).any()]
    return float(np.mean(means)) if means else 0.0
