# SPDX-License-Identifier: Apache-2.0
"""LTP on a simulated link that changes once: the share of the new link that the flow gets, and its RTT."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from ltp_switcher.policies.ltp.pulses import PulsedSignals
from ltp_switcher.policies.ltp.signals import LtpSignals
from ltp_switcher.policies.runtime.arm import Arm, WindowArm
from ltp_switcher.policies.runtime.export import load
from ltp_switcher.policies.simulator.directed import directed
from ltp_switcher.policies.simulator.paths import PPS_PER_MBPS, Flows, Paths, Steps
from ltp_switcher.policies.simulator.simulator import Roster, Simulator
from ltp_switcher.policies.simulator.totals import Totals

RATE_MBPS: Final = 36.0
RTT_MS: Final = 40.0
CHANGED_S: Final = 20.0
JUDGED_S: Final = (32.0, 40.0)


@dataclass(frozen=True)
class Change:
    """A change of the link, given by the new rate and RTT. The old values are `RATE_MBPS` and `RTT_MS`."""

    rate_mbps: float = RATE_MBPS
    rtt_ms: float = RTT_MS

    @property
    def name(self) -> str:
        """Name of the change, made from the new rate and RTT."""
        return f"{self.rate_mbps:g} Mbit/s, {self.rtt_ms:g} ms"


CHANGES: Final[Sequence[Change]] = (
    Change(),
    *(Change(rtt_ms=RTT_MS + more_ms) for more_ms in (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0)),
    *(Change(rate_mbps=rate_mbps) for rate_mbps in (18.0, 12.0, 6.0)),
    *(Change(rate_mbps=rate_mbps, rtt_ms=RTT_MS + 3.0) for rate_mbps in (72.0, 12.0)),
)


@dataclass(frozen=True)
class Kept:
    """Measures of a flow in the time that is judged after the change, as means over the seeds."""

    share: float
    """Throughput of the flow over the link's rate."""
    rtt_ratio: float
    """Mean RTT of the flow's packets over the link's base RTT."""


def arm(weights: Path, *, pulses: bool) -> Arm:
    """Load the policy from a file of weights, with pulses or without. Raises `ArtifactError` if the file is
    missing or corrupt.
    """
    return WindowArm(PulsedSignals() if pulses else LtpSignals(), load(weights)[0]["actor"])


def run(
    policy: Arm,
    changes: Sequence[Change],
    *,
    seeds: int,
    judged_s: tuple[float, float] = JUDGED_S,
    on_step: Callable[[], None] = lambda: None,
) -> list[Kept]:
    """Run one flow alone on each changing link, all links at once, and return the means over the seeds by
    link. The links change at `CHANGED_S`, and the means are over the time `judged_s`, both in seconds.
    """
    n = len(changes)
    rate_mbps, rtt_ms = (
        np.array([[getattr(one, name) for one in changes]]) for name in ("rate_mbps", "rtt_ms")
    )
    paths = replace(
        Paths.uniform(n, rate_mbps=RATE_MBPS, rtt_ms=RTT_MS),
        steps=Steps(np.full((1, n), CHANGED_S), rate_mbps, rtt_ms, np.full((1, n), np.nan)),
    )
    own_s = rtt_ms[0] / 1e3 + 1.0 / (rate_mbps[0] * PPS_PER_MBPS)
    kept = np.zeros((2, n))
    for seed in range(seeds):
        simulator = Simulator(
            paths, Flows.forever(1, n), Roster(window=1), seed=seed + 1, interval_s=policy.interval_s
        )
        seen = directed(simulator, policy, duration_s=judged_s[1], before=lambda _: on_step())
        totals = Totals.of((interval for interval, _ in seen), 1, n, after_s=judged_s[0])
        kept += np.stack((totals.utilisation[0], totals.rtt_s[0] / own_s)) / seeds
    return [Kept(*one) for one in kept.T.tolist()]
