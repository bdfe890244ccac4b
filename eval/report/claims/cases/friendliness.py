# SPDX-License-Identifier: Apache-2.0
"""Learned arms beside one Cubic flow (LTP §7.3.2, Jury §5.1.4, Spine §7.4, Owl §VII-D)."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence
from typing import Final

from ltp_switcher.eval.report.claims.claim import Claim, Paths, Results
from ltp_switcher.eval.report.claims.measures import goodput_ratio
from ltp_switcher.eval.report.claims.scenarios import bundled, swept
from ltp_switcher.eval.run.results import RunResult
from ltp_switcher.eval.run.schemes import LEARNED_ARMS
from ltp_switcher.figures import Figure, Target

RTTS_MS: Final = (30.0, 60.0, 120.0)
TARGET: Final = Target(0.5, 2.0)


def _paths(quick: bool, factor: str, values: tuple[float, ...]) -> Paths:
    return swept(bundled("beside-cubic", duration_s=30.0 if quick else None), {factor: values})


def _mean_ratio(outcomes: Sequence[RunResult]) -> float:
    """Mean over runs of the first flow's goodput over the second's; NaN if a ratio is not above 0. The mean
    is geometric, because half is as far from 1 as twice.
    """
    ratios = [goodput_ratio(outcome) for outcome in outcomes]
    return statistics.geometric_mean(ratios) if all(ratio > 0.0 for ratio in ratios) else math.nan


def _judge(results: Results, judged: Sequence[str] = LEARNED_ARMS) -> Iterator[Figure]:
    for scheme in results.schemes:
        target = TARGET if scheme in judged else None
        for path in results.paths:
            value = _mean_ratio(results.outcomes(path, scheme))
            yield Figure(scheme, f"goodput / cubic's ({path})", value, target)


CLAIM: Final = Claim(
    name="friendliness",
    text="Each learned arm beside one Cubic flow at 30, 60 and 120 ms",
    schemes=LEARNED_ARMS,
    paths=lambda quick: _paths(quick, "rtt_ms", RTTS_MS),
    judge=_judge,
    quick="one seed, 30 s",
    sweep=("goodput / cubic's", goodput_ratio),
    band=TARGET,
)

OWN_LINK: Final = Claim(
    name="owl-friendliness",
    text="Owl beside one Cubic flow, 50 Mbit/s, 30 ms",
    schemes=("owl",),
    paths=lambda quick: _paths(quick, "rate_mbps", (50.0,)),
    judge=lambda results: _judge(results, ("owl",)),
    quick="one seed, 30 s",
)
"""The claim about Owl on the link of Owl's paper."""
