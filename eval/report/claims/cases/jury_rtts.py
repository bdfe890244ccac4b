# SPDX-License-Identifier: Apache-2.0
"""Fairness of Jury flows of different RTTs (Jury §5.1.2, Fig. 8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ltp_switcher.eval.report.claims.claim import Claim, Results
from ltp_switcher.eval.report.claims.measures import jain, jain_by_second
from ltp_switcher.eval.report.claims.scenarios import bundled
from ltp_switcher.figures import Figure, Target

# The paper does not define the period of its index; 1 is "equal bandwidth immediately".
_MEASURES: Final = {"Jain while all are open": jain, "Jain by second": jain_by_second}
_LEAST: Final = Target(low=0.93)


def _judge(results: Results) -> Iterator[Figure]:
    for scheme in results.schemes:
        for what, measure in _MEASURES.items():
            value = results.mean(measure, "five-rtts", scheme)
            yield Figure(scheme, what, value, _LEAST if scheme == "jury" else None)


CLAIM: Final = Claim(
    name="jury-rtts",
    text="Jury, five flows of 70 to 210 ms RTT",
    schemes=("jury",),
    paths=lambda quick: {"five-rtts": bundled("five-rtts", duration_s=120.0 if quick else None)},
    judge=_judge,
    quick="one seed, 120 s, flows 15 s apart",
    every_flow=True,
)
