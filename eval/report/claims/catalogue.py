# SPDX-License-Identifier: Apache-2.0
"""All claims, in the order of the table that they are printed as."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.report.claims import (
    cpu,
    estimator,
    five_rtts,
    friendliness,
    one_flow,
    owl_loss,
    owl_lte,
    satellite,
    spine_cubic,
    spine_interval,
    spine_loss,
    sweeps,
    three_flows,
)
from ltp_switcher.eval.report.claims.claim import Claim

CLAIMS: Final[tuple[Claim, ...]] = tuple(
    module.CLAIM
    for module in (
        estimator, one_flow, sweeps, three_flows, five_rtts, satellite, spine_interval, spine_loss,
        spine_cubic, owl_lte, owl_loss, friendliness, cpu,
    )
)  # fmt: skip


def find_claims(names: Sequence[str], schemes: Sequence[str] = ()) -> list[Claim]:
    """Return the claims of these names, or all; where schemes are given, what is claimed of these alone.

    Raises:
        ConfigError: there is no claim of a name, or none that judges a scheme.
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
            raise ConfigError("--schemes", scheme, f"what these claims judge: {', '.join(judged)}")
    kept = [tuple(scheme for scheme in claim.schemes if scheme in schemes) for claim in claims]
    return [replace(claim, schemes=some) for claim, some in zip(claims, kept, strict=True) if some]
