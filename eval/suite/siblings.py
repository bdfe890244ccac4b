# SPDX-License-Identifier: Apache-2.0
"""Several flows under one scheme, judged together as one player.

The mean of the flows' own rewards is larger the less fair they are, because the exponent κ = 2 of Mutant's
Eq. 1 is convex. So the player's reward of a second is Eq. 1 of the summed goodput, the mean RTT and the
common loss, times Jain's index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np

from ltp_switcher.eval.report.claims.measures import jain_by_second
from ltp_switcher.eval.run.results import RunResult
from ltp_switcher.eval.run.series import BIN_S, FlowSeries
from ltp_switcher.eval.suite.plan import Run
from ltp_switcher.measures import jain_index, loss_rate, reward

ZETA: Final = 5.0
KAPPA: Final = 2.0
TABLE_HEAD: Final = ("path", "scheme", "player's reward", "of the best", "Jain by second")
_PER_SECOND: Final = round(1.0 / BIN_S)


@dataclass(frozen=True, slots=True)
class Player:
    """Measures of all flows of a scheme on a path together (a player), over all seeds."""

    path: str
    scheme: str
    reward: float
    """Mean reward over seconds and seeds, Mbit/s squared per ms."""
    share: float
    """Ratio of the player's reward to the largest reward of any scheme's player on the path."""
    jain: float
    """Mean of Jain's index over the seconds with two open flows or more, and over seeds."""


def players(made: Sequence[tuple[Run, RunResult]]) -> list[Player]:
    """Return the players of all runs in which several flows run the scheme, and no flow runs another one.

    A path on which no player earned anything is left out.
    """
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    for run, outcome in made:
        flows = outcome.job.scenario.flows
        if len(flows) > 1 and {flow.scheme for flow in flows} == {run.scheme}:
            of = found.setdefault((run.path, run.scheme), [])
            of.append((player_reward(outcome.series), jain_by_second(outcome)))
    best: dict[str, float] = {}
    for (path, _), of in found.items():
        best[path] = max(best.get(path, 0.0), fmean(one for one, _ in of))
    return [
        Player(path, scheme, reward, reward / best[path], fmean(j for _, j in of))
        for (path, scheme), of in found.items()
        for reward in [fmean(one for one, _ in of)]
        if best[path] > 0
    ]


def player_reward(series: Sequence[FlowSeries]) -> float:
    """Return the mean over the seconds of the reward that the flows earn as one player, in Mbit/s squared per
    ms. Seconds without an RTT are left out. A flow counts in a second if it is open throughout.
    """
    seconds = int(max(float(one.t_s[-1]) for one in series) + BIN_S + BIN_S / 2)
    shape = (len(series), seconds * _PER_SECOND)
    goodput_mbps, rtt_ms = np.zeros(shape), np.full(shape, np.nan)
    lost_pkts, delivered_pkts, is_open = np.zeros(shape), np.zeros(shape), np.zeros(shape, np.bool_)
    for row, one in enumerate(series):
        at = np.rint(one.t_s / BIN_S).astype(np.int64)
        inside = at < shape[1]
        at = at[inside]
        is_open[row, at] = True
        goodput_mbps[row, at] = np.nan_to_num(one.goodput_mbps[inside])
        rtt_ms[row, at] = one.rtt_ms[inside]
        lost_pkts[row, at] = np.nan_to_num(one.lost_pkts[inside])
        delivered_pkts[row, at] = np.nan_to_num(one.delivered_pkts[inside])
    rewards = []
    for second in range(seconds):
        bins = slice(second * _PER_SECOND, (second + 1) * _PER_SECOND)
        there = is_open[:, bins].all(axis=1)
        rtts_ms = rtt_ms[there, bins]
        if not np.isfinite(rtts_ms).any():
            continue
        got_mbps = goodput_mbps[there, bins].mean(axis=1)
        loss = loss_rate(lost_pkts[there, bins].sum(), delivered_pkts[there, bins].sum())
        value = reward(got_mbps.sum(), loss, np.nanmean(rtts_ms), zeta=ZETA, kappa=KAPPA)
        rewards.append(float(value * jain_index(got_mbps)))
    return fmean(rewards) if rewards else 0.0


def table_rows(found: Sequence[Player]) -> list[tuple[str, ...]]:
    """Return the rows of a table under `TABLE_HEAD`, one for each player."""
    return [
        (one.path, one.scheme, f"{one.reward:.2f}", f"{one.share:.3f}", f"{one.jain:.3f}") for one in found
    ]
