# SPDX-License-Identifier: Apache-2.0
"""LTP's estimator on pairs of flows of one protocol, against CCmatic's (LTP §7.1).

Two estimators are judged alike: the paper's particle filter, and `balance.py`, which is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats
from ltp_switcher.eval.report.claims.claim import Claim, Paths, Results
from ltp_switcher.eval.report.claims.scenarios import bundled
from ltp_switcher.eval.run.results import RunResult
from ltp_switcher.eval.run.series import BIN_S
from ltp_switcher.figures import Figure, Target
from ltp_switcher.policies.ltp.balance import BalanceFilter
from ltp_switcher.policies.ltp.ccmatic import BeliefSets
from ltp_switcher.policies.ltp.estimation import Estimator, Judgement, judge, least_width
from ltp_switcher.policies.ltp.estimator_traces import Trace, from_counters
from ltp_switcher.policies.ltp.particles import ParticleFilter
from ltp_switcher.policies.simulator.paths import PPS_PER_MBPS

COVERAGE: Final = 0.9
RATES: Final = {"x/c": "rate", "x_o/c": "others"}
QUANTITIES: Final = {**RATES, "d": "delay_s"}
"""Names of the fields of a `Trace` and a `Judgement` that hold a quantity, keyed by the quantity's name in
the paper.
"""
ESTIMATORS: Final[Mapping[str, Callable[[], Estimator]]] = {
    "": lambda: BalanceFilter(BIN_S, seed=1),
    " by the paper's filter": lambda: ParticleFilter(BIN_S, seed=1),
}
"""Functions that make the estimators to judge. The names of an estimator's figures end with its key."""
KNOWN_OVER_S: Final = (1.0, 3.0)
"""Times in seconds over which an ideal estimator would know a rate's mean. Its intervals still have the width
of the rate's swings.
"""


def trace(outcome: RunResult) -> Trace:
    """Return a run's counters at the bottleneck and the senders as input for an estimator. The lab's bins of
    0.1 s are the paper's interval.
    """
    series = outcome.series
    bins = max(len(flow.t_s) for flow in series)

    def column(name: str, before: float = 0.0) -> Floats:
        """Return a column of all flows, shape (bins, flows). A flow that starts later has `before` until
        then.
        """
        columns = [getattr(flow, name) for flow in series]
        padded = [np.pad(one, (bins - len(one), 0), constant_values=before) for one in columns]
        stacked: Floats = np.stack(padded, axis=1)
        return np.where(np.isnan(stacked), before, stacked)

    whole = max(series, key=lambda flow: len(flow.t_s))
    base_rtt_ms = np.array([flow.base_rtt_ms for flow in outcome.summary.flows])
    return from_counters(
        column("delivered_pkts"),
        column("lost_pkts"),
        column("rtt_ms", np.nan) / 1e3,
        base_rtt_ms / 1e3,
        np.nan_to_num(whole.queue_pkts),
        whole.capacity_mbps * PPS_PER_MBPS,
        BIN_S,
    )


def _judge(results: Results) -> Iterator[Figure]:
    for scheme in results.schemes:
        for path in results.paths:
            traces = [trace(outcome) for outcome in results.outcomes(path, scheme)]
            theirs = _mean([judge(BeliefSets(BIN_S), one) for one in traces])
            for ending, make in ESTIMATORS.items():
                ours = _mean([judge(make(), one) for one in traces])
                for name, (coverage, width) in ours.items():
                    other, other_width = theirs[name]
                    least = Target(low=max(COVERAGE, other))
                    yield Figure(scheme, f"coverage of {name}{ending}", coverage, least)
                    yield Figure(scheme, f"width of {name}{ending}", width, Target(high=other_width))
            for name, (coverage, _) in theirs.items():
                yield Figure(scheme, f"CCmatic's coverage of {name}", coverage)
            for name, field in RATES.items():
                truths = [_judged(one, field) for one in traces]
                for over_s in KNOWN_OVER_S:
                    bins = round(over_s / BIN_S)
                    widths = [least_width(truth, bins, COVERAGE) for truth in truths]
                    what = f"least width of {name} with its mean over {over_s:g} s known"
                    yield Figure(scheme, what, float(np.mean(widths)))


def _judged(trace: Trace, field: str) -> Floats:
    """A true rate, shape (bins, flows); NaN before a flow's first packet."""
    truth: Floats = getattr(trace, field)
    return np.where(np.maximum.accumulate(trace.rate > 0.0), truth, np.nan)


def _mean(judgements: list[Judgement]) -> dict[str, tuple[float, float]]:
    """Coverage and width by quantity."""
    return {
        name: (
            float(np.mean([getattr(one, field).coverage for one in judgements])),
            float(np.mean([getattr(one, field).width for one in judgements])),
        )
        for name, field in QUANTITIES.items()
    }


def _paths(quick: bool) -> Paths:
    return {"pair": bundled("pair", duration_s=20.0 if quick else None)}


CLAIM: Final = Claim(
    name="ltp-estimator",
    text="LTP's estimator on pairs: coverage at least 0.9 and CCmatic's, and no wider",
    schemes=("ltp", "cubic", "vegas", "bbr"),
    paths=_paths,
    judge=_judge,
    quick="one seed, 20 s",
    every_flow=True,
    baselines=(),
)
