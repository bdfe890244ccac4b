# SPDX-License-Identifier: Apache-2.0
"""Breaches: the time for which a scheme stays where it starves.

A flow starves where another arm earns more than twice as much on the same path at the same time. The other
arm's reward comes from its twin, a run of that arm alone on this path. A scheme needs some time to find out,
and some more for a probe. Only the time beyond both is a breach.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.run.series import BIN_S, FlowSeries
from ltp_switcher.eval.suite.over_time import SETTLE_RTTS, SETTLE_S, WINDOW_S, rewards
from ltp_switcher.eval.suite.plan import is_arm
from ltp_switcher.eval.suite.single import SinglePath

STARVES: Final = 0.5
"""Share of another arm's reward below which a flow starves."""
PROBE_S: Final = 1.0
PROBE_RTTS: Final = 16.0
"""Number of RTTs that a probe may take, but at least `PROBE_S` seconds."""

TABLE_HEAD: Final = ("scheme", "paths", "breaches, % of flow time", "most on a path", "of any arm, %")


@dataclass(frozen=True, slots=True)
class Breaches:
    """The breaches of a scheme on a path with one flow: shares of the flow's time, means over the seeds."""

    path: str
    shown: float
    """The flow stayed below half of an arm that it had run before."""
    any_arm: float
    """The flow stayed below half of some arm, even if the flow had never run it."""


def breaches(paths: Mapping[str, SinglePath]) -> dict[str, list[Breaches]]:
    """Return the breaches of each scheme that is no single arm, by scheme."""
    found: dict[str, list[Breaches]] = {}
    for name, path in paths.items():
        arms = path.arms
        if not arms:
            continue
        for scheme, runs in path.series.items():
            if is_arm(scheme):
                continue
            shares = [of_flow(path.scenario, run, arms) for run in runs]
            found.setdefault(scheme, []).append(
                Breaches(name, fmean(shown for shown, _ in shares), fmean(of_any for _, of_any in shares))
            )
    return found


def of_flow(
    scenario: Scenario, flow: FlowSeries, arms: Mapping[str, Sequence[FlowSeries]]
) -> tuple[float, float]:
    """Return the share of a flow's time in breach, of arms that it had run before and of any arm.

    Args:
        scenario: the path, with one flow.
        flow: series of the flow that is judged.
        arms: series of the arms alone on the same path, by arm, one for each seed.
    """
    start_s, stop_s = scenario.flows[0].start_s, scenario.flows[0].stop_s
    life = flow.life(start_s, stop_s)
    twins = {arm: [rewards(run)[run.life(start_s, stop_s)] for run in runs] for arm, runs in arms.items()}
    bins = min(int(life.sum()), *(one.size for of in twins.values() for one in of))
    if not bins:
        return 0.0, 0.0
    own = _smooth(rewards(flow)[life][:bins])
    ran = np.array(flow.arm)[life][:bins]
    rtt_s = max(state.rtt_ms for state in scenario.link.states()) / 1e3
    allowed_s = max(SETTLE_S, SETTLE_RTTS * rtt_s) + max(PROBE_S, PROBE_RTTS * rtt_s)
    of_any: Bools = np.zeros(bins, np.bool_)
    of_shown: Bools = np.zeros(bins, np.bool_)
    for arm, of in twins.items():
        twin = np.mean([_smooth(one[:bins]) for one in of], axis=0)
        below = own < STARVES * twin
        of_any |= below
        of_shown |= below & np.maximum.accumulate(ran == arm)
    return _beyond(of_shown, allowed_s), _beyond(of_any, allowed_s)


def _smooth(earned: Floats) -> Floats:
    """Return the mean reward over the `WINDOW_S` seconds up to each bin's end, shape (bins,)."""
    width = round(WINDOW_S / BIN_S)
    sums = np.cumsum(np.concatenate([np.zeros(1), earned]))
    ends = np.arange(1, earned.size + 1)
    starts = np.maximum(ends - width, 0)
    smooth: Floats = (sums[ends] - sums[starts]) / (ends - starts)
    return smooth


def _beyond(starving: Bools, allowed_s: float) -> float:
    """Return the share of bins that follow more than `allowed_s` seconds of starving without a pause."""
    places = np.arange(starving.size)
    since = places - np.maximum.accumulate(np.where(starving, -1, places))
    return float((since * BIN_S > allowed_s + BIN_S / 2).mean())


def table_rows(found: Mapping[str, Sequence[Breaches]]) -> list[tuple[str, ...]]:
    """Return the rows of a table under `TABLE_HEAD`, one for each scheme."""
    return [
        (
            scheme, str(len(of)), f"{100 * fmean(one.shown for one in of):.2f}", _worst(of),
            f"{100 * fmean(one.any_arm for one in of):.2f}",
        )
        for scheme, of in found.items()
    ]  # fmt: skip


def _worst(of: Sequence[Breaches]) -> str:
    most = max(of, key=lambda one: one.shown)
    return f"{100 * most.shown:.1f} {most.path}" if most.shown else "none"


def to_dict(found: Mapping[str, Sequence[Breaches]]) -> dict[str, object]:
    """Return plain values for JSON."""
    return {
        scheme: {
            "shown": fmean(one.shown for one in of),
            "any_arm": fmean(one.any_arm for one in of),
            "paths": [asdict(one) for one in of],
        }
        for scheme, of in found.items()
    }  # fmt: skip
