# SPDX-License-Identifier: Apache-2.0
"""The cost of a learned arm (LTP §7.4, Spine §7.1): guest instructions, which the lab counts exactly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ltp_switcher.eval.report.claims.claim import Claim, Results
from ltp_switcher.eval.report.claims.measures import instructions_per_s
from ltp_switcher.eval.report.claims.scenarios import bundled
from ltp_switcher.figures import Figure, Target

_MOST: Final = {"spine": Target(high=1.3), "ltp": Target(high=1.6), "jury": Target(high=1.6)}


def _judge(results: Results) -> Iterator[Figure]:
    cubic = results.mean(instructions_per_s, "one-flow", "cubic")
    for scheme in results.schemes:
        value = results.mean(instructions_per_s, "one-flow", scheme) / cubic
        yield Figure(scheme, "instructions a second / cubic's", value, _MOST.get(scheme))


CLAIM: Final = Claim(
    name="cpu",
    text="Guest instructions a second of one 100 Mbit/s flow, daemon included",
    schemes=("ltp", "jury", "spine", "owl"),
    paths=lambda quick: {"one-flow": bundled("one-flow")},
    judge=_judge,
    against=("cubic",),
)
