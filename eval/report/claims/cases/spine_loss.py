# SPDX-License-Identifier: Apache-2.0
"""Spine on a lossy link (Spine §7.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ltp_switcher.eval.report.claims.claim import Claim, Results
from ltp_switcher.eval.report.claims.measures import utilisation
from ltp_switcher.eval.report.claims.scenarios import bundled, with_link
from ltp_switcher.figures import Figure, Target


def _judge(results: Results) -> Iterator[Figure]:
    for scheme in results.schemes:
        value = results.mean(utilisation, "loss 0.01", scheme)
        yield Figure(scheme, "utilisation", value, Target(low=0.64) if scheme == "spine" else None)


CLAIM: Final = Claim(
    name="spine-loss",
    text="Spine at 1 % loss",
    schemes=("spine",),
    paths=lambda quick: {"loss 0.01": with_link(bundled("one-flow"), loss=0.01)},
    judge=_judge,
)
