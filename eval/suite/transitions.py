# SPDX-License-Identifier: Apache-2.0
"""The cost of a switch: a flow that switches to an arm, compared with a flow that runs the arm from its
start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.eval.run.series import BIN_S, FlowSeries
from ltp_switcher.eval.suite.over_time import rewards
from ltp_switcher.eval.suite.single import SinglePath
from ltp_switcher.eval.suite.studies import SWITCH_S, TRANSITIONS

WINDOW_S: Final = 10.0
"""Time in seconds after the switch over which the cost is counted."""
LEAST: Final = 0.05
"""Least ratio of the second arm's reward to the first arm's with which a switch counts. No flow would switch
to an arm that earns less.
"""
TABLE_HEAD: Final = ("switch", "paths", "cost, s", "quartiles, s", "worst path", "its cost, s")


@dataclass(frozen=True, slots=True)
class Transition:
    """The costs of a switch of arms on several paths: the lost reward, in seconds of the second arm's reward.

    `cost_s` is by path. A cost below 0 is a gain: the first arm left the flow in a better state.
    """

    name: str
    cost_s: Mapping[str, float]

    @property
    def quartiles_s(self) -> tuple[float, float, float]:
        """The first quartile, the median and the third quartile."""
        low, median, high = np.quantile(list(self.cost_s.values()), [0.25, 0.5, 0.75]).tolist()
        return low, median, high


def transitions(paths: Mapping[str, SinglePath]) -> list[Transition]:
    """Return the costs of every switch that ran, on the paths on which both arms also ran alone."""
    found = []
    for name, (before, after) in TRANSITIONS.items():
        schemes = (name, before, after)
        costs = {
            path: cost_s(*(single.series[scheme][0] for scheme in schemes))
            for path, single in paths.items()
            if single.series.keys() >= set(schemes)
        }
        known = {path: cost for path, cost in costs.items() if cost is not None}
        if known:
            found.append(Transition(name, known))
    return found


def cost_s(switched: FlowSeries, before: FlowSeries, after: FlowSeries) -> float | None:
    """Return the cost of a switch in seconds of the second arm's reward. It is None if this arm earns next to
    nothing even without a switch.

    Args:
        switched: series of the flow that changes its arm at `SWITCH_S`.
        before: series of its first arm alone.
        after: series of its second arm alone.
    """
    window = slice(round(SWITCH_S / BIN_S), round((SWITCH_S + WINDOW_S) / BIN_S))
    earned, of_first, alone = (rewards(one)[window] for one in (switched, before, after))
    if not alone.mean() > LEAST * of_first.mean():
        return None
    return float((1.0 - earned.mean() / alone.mean()) * alone.size * BIN_S)


def table_rows(found: Sequence[Transition]) -> list[tuple[str, ...]]:
    """Return the rows of a table under `TABLE_HEAD`, one for each switch."""
    rows: list[tuple[str, ...]] = []
    for one in found:
        low, median, high = one.quartiles_s
        worst = max(one.cost_s, key=one.cost_s.__getitem__)
        rows.append(
            (
                one.name, str(len(one.cost_s)), f"{median:+.2f}", f"{low:+.2f} to {high:+.2f}", worst,
                f"{one.cost_s[worst]:+.2f}",
            )
        )  # fmt: skip
    return rows
