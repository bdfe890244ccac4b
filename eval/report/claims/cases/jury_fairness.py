# SPDX-License-Identifier: Apache-2.0
"""Fairness of Jury flows: three over many links (Jury §5.1.1, Fig. 6), and five RTTs (§5.1.2, Fig. 8)."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

import numpy as np

from ltp_switcher.eval.report.claims.claim import Claim, Paths, Results, Spread
from ltp_switcher.eval.report.claims.measures import jain, jain_by_second
from ltp_switcher.eval.report.claims.scenarios import bundled, with_link
from ltp_switcher.figures import Figure, Target

LINKS: Final = 60
QUICK_LINKS: Final = 6
QUICK_S: Final = 100.0
RATE_MBPS: Final = (20.0, 100.0)
ONE_WAY_MS: Final = (10.0, 75.0)
LOSS: Final = (0.0, 0.003)
_SEED: Final = 60
MEAN: Final = Target(low=0.94)
FIFTH: Final = Target(low=0.82)
# The paper does not define the period of its index; 1 is "equal bandwidth immediately".
_MEASURES: Final = {"Jain while all are open": jain, "Jain by second": jain_by_second}
SPREAD: Final = Spread(_MEASURES, MEAN, {0.05: FIFTH})
OF_RTTS: Final = Target(low=0.93)


def _paths(quick: bool) -> Paths:
    rng = random.Random(_SEED)  # noqa: S311 # an experiment's seed, not a secret
    base = bundled("three-flows", duration_s=QUICK_S if quick else None)
    # All links are drawn, so that the quick ones are among them.
    links = [
        {
            "rate_mbps": round(rng.uniform(*RATE_MBPS), 1),
            "rtt_ms": round(2.0 * rng.uniform(*ONE_WAY_MS), 1),
            "loss": round(rng.uniform(*LOSS), 5),
        }
        for _ in range(LINKS)
    ]
    return {
        f"link {i}": with_link(base, **link)
        for i, link in enumerate(links[: QUICK_LINKS if quick else LINKS])
    }


def _judge(results: Results) -> Iterator[Figure]:
    for scheme in results.schemes:
        is_judged = scheme == "jury"
        for caption, measure in SPREAD.measures.items():
            values = list(results.over_paths(measure, scheme).values())
            mean = float(np.mean(values))
            yield Figure(scheme, SPREAD.mean_of(caption), mean, SPREAD.mean if is_judged else None)
            for share, target in SPREAD.quantiles.items():
                value = float(np.quantile(values, share))
                yield Figure(scheme, SPREAD.quantile_of(caption, share), value, target if is_judged else None)


def _judge_rtts(results: Results) -> Iterator[Figure]:
    for scheme in results.schemes:
        for what, measure in _MEASURES.items():
            value = results.mean(measure, "five-rtts", scheme)
            yield Figure(scheme, what, value, OF_RTTS if scheme == "jury" else None)


CLAIM: Final = Claim(
    name="jury-fairness",
    text="Jury, 3 flows 60 s apart, 60 links of 20-100 Mbit/s, 10-75 ms one way, 0-0.3 % loss",
    schemes=("jury",),
    paths=_paths,
    judge=_judge,
    every_flow=True,
    against=("cubic",),
    seeds=(1,),
    quick=f"{QUICK_LINKS} links, {QUICK_S:g} s, {QUICK_S / 5:g} s apart",
    spread=SPREAD,
)

RTTS: Final = Claim(
    name="jury-rtts",
    text="Jury, five flows of 70 to 210 ms RTT",
    schemes=("jury",),
    paths=lambda quick: {"five-rtts": bundled("five-rtts", duration_s=120.0 if quick else None)},
    judge=_judge_rtts,
    quick="one seed, 120 s, flows 15 s apart",
    every_flow=True,
)
