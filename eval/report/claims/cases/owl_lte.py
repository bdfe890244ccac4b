# SPDX-License-Identifier: Apache-2.0
"""Owl on recorded LTE links, with and without the network's signals (Owl §VII-B, Fig. 4)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator
from typing import Final

from ltp_switcher.eval.report.claims.claim import Claim, Paths, Results
from ltp_switcher.eval.report.claims.measures import over, power
from ltp_switcher.eval.report.claims.scenarios import bundled
from ltp_switcher.eval.run.scenario import MODEL_TRACE
from ltp_switcher.eval.run.trace_files import locate_trace
from ltp_switcher.figures import Figure, Target

TRACES: Final = ("lte-tmobile", "lte-verizon")


def _paths(quick: bool) -> Paths:
    return {trace: bundled(trace, duration_s=30.0 if quick else None) for trace in TRACES}


def _trace(path: str) -> str:
    """The trace of a path. Without recorded traces the LTE-like model replaces it."""
    return bundled(path).link.trace or MODEL_TRACE


def _relative(results: Results, scheme: str, to: str) -> float:
    """Return a scheme's power over the power of the scheme `to`, as the geometric mean over the traces. It is
    NaN if a ratio is not above 0.
    """
    ratios = [
        over(results.mean(power, path, scheme), results.mean(power, path, to)) for path in results.paths
    ]
    return statistics.geometric_mean(ratios) if all(ratio > 0.0 for ratio in ratios) else math.nan


def _judge(results: Results) -> Iterator[Figure]:
    judged = "owl-network"
    where = "" if all(locate_trace(_trace(path)) for path in results.paths) else ", LTE-like model"
    for scheme in results.schemes:
        target = Target(low=1.5) if scheme == judged else None
        yield Figure(scheme, f"power / cubic's{where}", _relative(results, scheme, "cubic"), target)
    if {"owl", judged} <= set(results.schemes):
        hidden = _relative(results, "owl", judged)
        yield Figure("owl", f"power, signals hidden, / Owl's own{where}", hidden, Target(low=0.95))


CLAIM: Final = Claim(
    name="owl-lte",
    text="Owl on the LTE traces, power = throughput / delay",
    schemes=("owl-network", "owl"),
    paths=_paths,
    judge=_judge,
    against=("cubic",),
    quick="one seed, 30 s",
)
