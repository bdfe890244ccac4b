# SPDX-License-Identifier: Apache-2.0
"""LTP alone on the middle link (LTP §7.3.1)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ltp_switcher.eval.report.claims.claim import Claim, Results
from ltp_switcher.eval.report.claims.measures import rtt_over_base, utilisation
from ltp_switcher.eval.report.claims.scenarios import bundled
from ltp_switcher.figures import Figure, Target

_TARGETS: Final = (
    ("utilisation", utilisation, Target(low=0.92)),
    ("mean RTT / base", rtt_over_base, Target(high=1.25)),
)


def _judge(results: Results) -> Iterator[Figure]:
    for scheme in results.schemes:
        for what, measure, target in _TARGETS:
            value = results.mean(measure, "one-flow", scheme)
            yield Figure(scheme, what, value, target if scheme == "ltp" else None)


CLAIM: Final = Claim(
    name="ltp-one-flow",
    text="LTP, one flow, 100 Mbit/s, 30 ms, 1 BDP",
    schemes=("ltp",),
    paths=lambda quick: {"one-flow": bundled("one-flow")},
    judge=_judge,
)
