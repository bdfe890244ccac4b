# SPDX-License-Identifier: Apache-2.0
"""All claims, in the order in which the table prints them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.report.claims.cases import (
    cpu,
    friendliness,
    jury_fairness,
    ltp_alone,
    ltp_estimator,
    owl_loss,
    owl_lte,
    satellite,
    spine_cubic,
    spine_interval,
    spine_loss,
)
from ltp_switcher.eval.report.claims.claim import Claim

CLAIMS: Final[tuple[Claim, ...]] = (
    ltp_estimator.CLAIM, ltp_alone.CLAIM, ltp_alone.SWEEPS, jury_fairness.CLAIM, jury_fairness.RTTS,
    satellite.CLAIM, spine_interval.CLAIM, spine_loss.CLAIM, spine_cubic.CLAIM, owl_lte.CLAIM, owl_loss.CLAIM,
    friendliness.CLAIM, friendliness.OWN_LINK, cpu.CLAIM,
)  # fmt: skip


def find_claims(names: Sequence[str], schemes: Sequence[str] = ()) -> list[Claim]:
    """Return the claims with these names, or all claims without names. With `schemes`, return only those that
    judge one of these schemes.

    Raises:
        ConfigError: no claim has such a name, or none of the claims judges such a scheme.
    """
    by_name = {claim.name: claim for claim in CLAIMS}
    for name in names:
        if name not in by_name:
            raise ConfigError("claim", name, ", ".join(by_name))
    claims = [by_name[name] for name in dict.fromkeys(names)] if names else list(CLAIMS)
    if not schemes:
        return claims
    judged = {scheme: None for claim in claims for scheme in claim.schemes}
    for scheme in schemes:
        if scheme not in judged:
            raise ConfigError("--schemes", scheme, f"one that these claims judge: {', '.join(judged)}")
    kept = [tuple(scheme for scheme in claim.schemes if scheme in schemes) for claim in claims]
    return [replace(claim, schemes=some) for claim, some in zip(claims, kept, strict=True) if some]
