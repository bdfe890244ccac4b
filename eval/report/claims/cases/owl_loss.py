# SPDX-License-Identifier: Apache-2.0
"""Senders of Owl-Loss settle at the rates that theory predicts (Owl, Section V, Eq. 9, and Section VII-D,
Fig. 9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final

from ltp_switcher.eval.report.claims.claim import Claim, Paths, Results
from ltp_switcher.eval.report.claims.measures import sending_mbps
from ltp_switcher.eval.report.claims.scenarios import bundled
from ltp_switcher.eval.run.results import RunResult
from ltp_switcher.figures import Figure, Target
from ltp_switcher.policies.owl.reward import OWL_LOSS, equilibrium

_SENDERS: Final = (2, 3)
_WITHIN: Final = Target(0.9, 1.1)


def _paths(quick: bool) -> Paths:
    base = bundled("owl-loss", duration_s=30.0 if quick else None)
    return {f"senders {n}": replace(base, flows=base.flows[:1] * n) for n in _SENDERS}


def _over_theory(outcome: RunResult, pick: Callable[[list[float]], float]) -> float:
    """The rate of the sender that `pick` takes, over the rate of Eq. 9."""
    rates_mbps = sending_mbps(outcome)
    deltas = [OWL_LOSS.delta] * len(rates_mbps)
    return pick(rates_mbps) / float(equilibrium(outcome.job.scenario.link.rate_mbps or 0.0, deltas)[0])


def _judge(results: Results) -> Iterator[Figure]:
    for scheme in results.schemes:
        for path in results.paths:
            for what, pick in (("slowest", min), ("fastest", max)):
                ratio = pick([_over_theory(outcome, pick) for outcome in results.outcomes(path, scheme)])
                target = _WITHIN if scheme == "owl-loss" else None
                yield Figure(scheme, f"{what} sender / Eq. 9 ({path})", ratio, target)


CLAIM: Final = Claim(
    name="owl-loss",
    text="Owl-Loss, 2 and 3 flows, δ = 0.7, 100 Mbit/s: rates within 10 % of Eq. 9",
    schemes=("owl-loss",),
    paths=_paths,
    judge=_judge,
    quick="one seed, 30 s",
    every_flow=True,
)
