# SPDX-License-Identifier: Apache-2.0
"""Owl beside one Cubic flow on the paper's own link (Owl §VII-D): 50 Mbit/s, 30 ms."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ltp_switcher.eval.report.claims.cases.friendliness import TARGET, mean_ratio
from ltp_switcher.eval.report.claims.claim import Claim, Paths, Results
from ltp_switcher.eval.report.claims.scenarios import bundled, swept
from ltp_switcher.figures import Figure


def _paths(quick: bool) -> Paths:
    return swept(bundled("beside-cubic", duration_s=30.0 if quick else None), {"rate_mbps": (50.0,)})


def _judge(results: Results) -> Iterator[Figure]:
    for scheme in results.schemes:
        for path in results.paths:
            value = mean_ratio(results.outcomes(path, scheme))
            yield Figure(scheme, f"goodput / cubic's ({path})", value, TARGET if scheme == "owl" else None)


CLAIM: Final = Claim(
    name="owl-friendliness",
    text="Owl beside one Cubic flow, 50 Mbit/s, 30 ms",
    schemes=("owl",),
    paths=_paths,
    judge=_judge,
    quick="one seed, 30 s",
)
