# SPDX-License-Identifier: Apache-2.0
"""Reward that a scheme loses to the best arm in hindsight, by cause and over time.

Every bin of a flow belongs to one cause, the first of `CAUSES` that fits. A cause's loss is the difference
between the best arm's reward and the scheme's in its bins, as a share of the best arm's reward on the whole
path. So the losses of a path sum up to 1 minus the scheme's share. A loss below 0 is a gain. The regret is
the reward that was lost so far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Indices
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.run.series import BIN_S, FlowSeries
from ltp_switcher.eval.suite.over_time import SETTLE_RTTS, SETTLE_S, START_S, rewards
from ltp_switcher.eval.suite.single import SinglePath

CAUSES: Final = ("start", "change", "probe", "aftermath", "wrong arm", "same arm")
"""Causes of loss. A bin belongs to the first one that fits.

`start` has the flow's first seconds. `change` has the time that an arm may take after a change of the path.
`probe` has stays on an arm that end soon. `aftermath` has the time after a switch. `wrong arm` has stays on
an arm that is not the path's best, and `same arm` stays on the best arm itself.
"""
PROBE_S: Final = 3.0
"""A stay of a flow on an arm, between two stays on other arms, counts as a probe if it lasts no longer than
this time in seconds.
"""
AFTERMATH_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Losses:
    """The losses of a scheme on a path with one flow, over all seeds."""

    path: str
    best_arm: str
    by_cause: Mapping[str, float]
    """Loss by cause, in the order of `CAUSES`."""
    regret_s: Floats
    """Reward lost from the start to the end of each bin, divided by the best arm's mean reward: seconds,
    shape (bins,).
    """


def losses(paths: Mapping[str, SinglePath]) -> dict[str, list[Losses]]:
    """Return the losses of every scheme, including single arms, by scheme."""
    found: dict[str, list[Losses]] = {}
    for name, path in paths.items():
        arms = path.arms
        if not any(rewards(one).any() for runs in arms.values() for one in runs):
            # No arm earned anything, so nothing could be lost.
            continue
        for scheme, runs in path.series.items():
            found.setdefault(scheme, []).append(losses_of(name, path.scenario, runs, arms))
    return found


def losses_of(
    path: str, scenario: Scenario, runs: Sequence[FlowSeries], arms: Mapping[str, Sequence[FlowSeries]]
) -> Losses:
    """Return a scheme's losses compared with the arm of the largest mean reward.

    Args:
        path: name of the path.
        scenario: scenario of all runs.
        runs: runs of the scheme, one for each seed.
        arms: series of the arms alone, by arm, one for each seed.
    """
    bins = min(len(one.t_s) for of in (runs, *arms.values()) for one in of)
    earned = {arm: np.mean([rewards(one)[:bins] for one in of], axis=0) for arm, of in arms.items()}
    best_arm = max(earned, key=lambda arm: float(earned[arm].mean()))
    best = earned[best_arm]
    whole = max(float(best.sum()), 1e-12)
    shares = np.zeros(len(CAUSES))
    lost = np.zeros(bins)
    for one in runs:
        missing = (best - rewards(one)[:bins]) / len(runs)
        lost += missing
        shares += np.bincount(causes(scenario, one, best_arm)[:bins], missing, len(CAUSES)) / whole
    by_cause = dict(zip(CAUSES, shares.tolist(), strict=True))
    return Losses(path, best_arm, by_cause, np.cumsum(lost) * BIN_S / (whole / bins))


def causes(scenario: Scenario, series: FlowSeries, best_arm: str) -> Indices:
    """Return the cause to which a loss in each bin belongs, as an index into `CAUSES`, shape (bins,)."""
    t_s = series.t_s - scenario.flows[0].start_s
    arm = np.array(series.arm)
    begins = np.flatnonzero(np.append(True, arm[1:] != arm[:-1]))
    ends = np.append(begins[1:], arm.size)
    probe, aftermath = np.zeros((2, arm.size), np.bool_)
    for begin, end in zip(begins[1:].tolist(), ends[1:].tolist(), strict=True):
        probe[begin:end] = end < arm.size and (end - begin) * BIN_S <= PROBE_S
        aftermath[begin : begin + round(AFTERMATH_S / BIN_S)] = True
    conditions = (
        t_s < START_S, _changing(scenario, series), probe, aftermath, arm != best_arm,
    )  # fmt: skip
    return np.select(conditions, range(len(conditions)), len(conditions))


def _changing(scenario: Scenario, series: FlowSeries) -> Bools:
    """True where an arm may still settle after a change of the path, shape (bins,)."""
    found = np.zeros(series.t_s.shape, np.bool_)
    for state in list(scenario.link.states())[1:]:
        allowed_s = max(SETTLE_S, SETTLE_RTTS * state.rtt_ms / 1e3)
        found |= series.life(state.at_s, state.at_s + allowed_s)
    return found


def mean_by_cause(of: Sequence[Losses]) -> dict[str, float]:
    """Return the mean of each cause's loss over the paths."""
    return {cause: float(np.mean([one.by_cause[cause] for one in of])) for cause in CAUSES}


def mean_regret_s(of: Sequence[Losses]) -> Floats:
    """Return the mean over the paths of `Losses.regret_s`, in seconds, cut to the length of the shortest
    path, shape (bins,).
    """
    bins = min(one.regret_s.size for one in of)
    mean: Floats = np.mean([one.regret_s[:bins] for one in of], axis=0)
    return mean
