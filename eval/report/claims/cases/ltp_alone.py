# SPDX-License-Identifier: Apache-2.0
"""LTP as the only flow (LTP §7.3.1, Fig. 8), on a reference link and on links that differ from it in one
property each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ltp_switcher.eval.report.claims.claim import Claim, Paths, Results
from ltp_switcher.eval.report.claims.measures import over, rtt_over_base, utilisation
from ltp_switcher.eval.report.claims.scenarios import bundled, swept
from ltp_switcher.figures import Figure, Target

FACTORS: Final = {
    "rate_mbps": (10.0, 20.0, 50.0, 100.0, 200.0),
    "rtt_ms": (15.0, 30.0, 60.0, 120.0),
    "loss": (0.0, 0.001, 0.003, 0.01),
    "buffer_bdp": (0.2, 0.5, 1.0, 1.5, 2.2),
}
LEAST: Final = Target(low=0.85)
LOSSY: Final = "loss 0.01"
_TARGETS: Final = (
    ("utilisation", utilisation, Target(low=0.92)),
    ("mean RTT / base", rtt_over_base, Target(high=1.25)),
)


def _judge(results: Results) -> Iterator[Figure]:
    for scheme in results.schemes:
        for what, measure, target in _TARGETS:
            value = results.mean(measure, "one-flow", scheme)
            yield Figure(scheme, what, value, target if scheme == "ltp" else None)


def _sweeps(quick: bool) -> Paths:
    # If the policy fails, it fails at the ends of each factor's range.
    factors = {factor: (values[0], values[-1]) if quick else values for factor, values in FACTORS.items()}
    return swept(bundled("one-flow", duration_s=15.0 if quick else None), factors)


def _judge_sweeps(results: Results) -> Iterator[Figure]:
    for scheme in results.schemes:
        used = results.over_paths(utilisation, scheme)
        worst = min(used, key=used.__getitem__)
        judged = scheme == "ltp"
        yield Figure(scheme, f"least utilisation ({worst})", used[worst], LEAST if judged else None)
        if scheme != "cubic":
            ratio = over(used[LOSSY], results.mean(utilisation, LOSSY, "cubic"))
            yield Figure(
                scheme, "utilisation / cubic's at 1 % loss", ratio, Target(low=5.0) if judged else None
            )


CLAIM: Final = Claim(
    name="ltp-one-flow",
    text="LTP, one flow, 100 Mbit/s, 30 ms, 1 BDP",
    schemes=("ltp",),
    paths=lambda quick: {"one-flow": bundled("one-flow")},
    judge=_judge,
)

SWEEPS: Final = Claim(
    name="ltp-sweeps",
    text="LTP, one property of the link at a time",
    schemes=("ltp",),
    paths=_sweeps,
    judge=_judge_sweeps,
    against=("cubic",),
    quick="one seed, 15 s, the ends of each range",
    sweep=("utilisation", utilisation),
    band=LEAST,
)
