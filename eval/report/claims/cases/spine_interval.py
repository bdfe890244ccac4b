# SPDX-License-Identifier: Apache-2.0
"""Spine's performance does not depend on the monitor interval (Spine §7.1), and Spine rarely decides
(§7.5.1).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ltp_switcher.eval.report.claims.claim import Claim, Paths, Results
from ltp_switcher.eval.report.claims.measures import over, utilisation
from ltp_switcher.eval.report.claims.scenarios import bundled
from ltp_switcher.eval.run.results import RunResult
from ltp_switcher.figures import Figure, Target

INTERVALS_MS: Final = (20.0, 50.0, 100.0, 200.0, 300.0)
_JUDGED_AT: Final = "interval_ms 200"


def generator_interval_s(outcome: RunResult) -> float:
    """Return the mean time in seconds between two controls that Spine's policy generator sends."""
    return over(outcome.job.scenario.duration_s, int(outcome.guest()["learned"]["spine"]["controls"]))


def _paths(quick: bool) -> Paths:
    intervals_ms = (INTERVALS_MS[0], 200.0, INTERVALS_MS[-1]) if quick else INTERVALS_MS
    scenario = bundled("square-wave")
    return {
        f"interval_ms {interval_ms:g}": scenario.with_settings((("learned.spine_interval_ms", interval_ms),))
        for interval_ms in intervals_ms
    }


def _judge(results: Results) -> Iterator[Figure]:
    over = results.over_paths(utilisation, "spine")
    points = 100.0 * (max(over.values()) - min(over.values()))
    yield Figure("spine", "utilisation changes by, points", points, Target(high=3.0))
    seconds = results.mean(generator_interval_s, _JUDGED_AT, "spine")
    yield Figure("spine", "policy generator runs every, s", seconds, Target(low=1.2))


CLAIM: Final = Claim(
    name="spine-interval",
    text="Spine, monitor interval from 20 to 300 ms",
    schemes=("spine",),
    paths=_paths,
    judge=_judge,
    # The other schemes have no such interval.
    baselines=(),
    quick="one seed, three intervals",
    sweep=("utilisation", utilisation),
)
