# SPDX-License-Identifier: Apache-2.0
"""The claims about one flow over a satellite link: its throughput and its queue (Jury §5.2.2, LTP appendix
C).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ltp_switcher.eval.report.claims.claim import Claim, Results
from ltp_switcher.eval.report.claims.measures import queueing_over_one_way, rtt_over_base, utilisation
from ltp_switcher.eval.report.claims.scenarios import bundled
from ltp_switcher.figures import Figure, Target

_TARGETS: Final = (
    ("utilisation", utilisation, Target(low=0.75)),
    ("queueing delay / base one-way delay", queueing_over_one_way, Target(high=0.05)),
    ("mean RTT / base", rtt_over_base, Target(high=1.05)),
)
_SCHEMES: Final = ("jury", "ltp")


def _judge(results: Results) -> Iterator[Figure]:
    for scheme in results.schemes:
        for what, measure, target in _TARGETS:
            value = results.mean(measure, "satellite", scheme)
            yield Figure(scheme, what, value, target if scheme in _SCHEMES else None)


CLAIM: Final = Claim(
    name="satellite",
    text="Jury and LTP, satellite: 42 Mbit/s, 800 ms, 0.74 % loss",
    schemes=_SCHEMES,
    paths=lambda quick: {"satellite": bundled("satellite")},
    judge=_judge,
)
