# SPDX-License-Identifier: Apache-2.0
"""Cubic with its constants tuned by Spine, against Cubic (Spine §7.5.2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ltp_switcher.eval.report.claims.claim import Claim, Results
from ltp_switcher.eval.report.claims.measures import goodput_mbps, rtt_ms
from ltp_switcher.eval.report.claims.scenarios import bundled
from ltp_switcher.figures import Figure, Target


def _judge(results: Results) -> Iterator[Figure]:
    for what, measure, target in (
        ("mean RTT / cubic's", rtt_ms, Target(below=1.0)),
        ("goodput / cubic's", goodput_mbps, Target(low=0.97)),
    ):
        cubic = results.mean(measure, "one-flow", "cubic")
        for scheme in results.schemes:
            value = results.mean(measure, "one-flow", scheme) / cubic
            yield Figure(scheme, what, value, target if scheme == "spine-cubic" else None)


CLAIM: Final = Claim(
    name="spine-cubic",
    text="Spine-Cubic against Cubic, 100 Mbit/s, 30 ms, 1 BDP",
    schemes=("spine-cubic",),
    paths=lambda quick: {"one-flow": bundled("one-flow")},
    judge=_judge,
    against=("cubic",),
)
