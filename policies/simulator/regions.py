# SPDX-License-Identifier: Apache-2.0
"""Training regions: the ranges from which the papers draw their links, and how a batch is drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.errors import InvalidValueError
from ltp_switcher.policies.arrays import Floats
from ltp_switcher.policies.simulator.paths import NEVER, PPS_PER_MBPS, Flows, Paths
from ltp_switcher.policies.simulator.simulator import Roster

Range = tuple[float, float]


@dataclass(frozen=True)
class Region:
    """Ranges of a link's properties; each is drawn uniformly.

    `rtt_ms` is the base round trip. `flows` counts all flows of a link, `cubic_share` of the links' other
    flows run Cubic (the papers: "controlled by either Cubic or LTP"). Each flow's own base RTT is the link's
    times 1 to 1 + `rtt_spread`. The first flow starts at once, the others within `start_within` of
    the episode.
    """

    rate_mbps: Range
    rtt_ms: Range
    buffer_bdp: Range
    loss: Range
    jitter_ms: Range = (0.0, 2.0)
    flows: tuple[int, int] = (2, 10)
    cubic_share: float = 0.5
    rtt_spread: float = 0.5
    start_within: float = 0.5


LTP_SMALL: Final = Region((10, 100), (10, 60), (0.8, 1.0), (0.0, 0.001))
"""LTP Table 3, whose base delay is one way, as the sweep of §7.3.1 reads it."""
LTP_MEDIUM: Final = Region((10, 300), (10, 120), (0.8, 1.5), (0.0, 0.005))
LTP_LARGE: Final = Region((10, 600), (10, 240), (0.8, 2.0), (0.0, 0.01))
JURY: Final = Region((20, 100), (10, 60), (0.8, 1.5), (0.0, 0.001))
"""Jury Table 1."""
SPINE: Final = Region((40, 200), (20, 200), (0.5, 2.0), (0.0, 0.01))
"""Spine Table 3, whose delay is one way."""


def draw(
    region: Region, roster: Roster, environments: int, duration_s: float, rng: np.random.Generator
) -> tuple[Paths, Flows]:
    """Draw links and flows of one episode.

    A link has at least one flow of the policy (rows `window` or `aimd` of the roster); slots beyond the
    drawn number of flows stay empty, and where the roster has too few slots of a kind, the other takes over.

    Raises:
        InvalidValueError: the roster has no slot for the policy, or too few slots for `region.flows`.
    """
    learned = roster.window + roster.aimd
    slots = learned + roster.cubic
    low, high = region.flows
    if not learned >= 1:
        raise InvalidValueError("roster", roster, "at least one window or aimd slot")
    if not 1 <= low <= high <= slots:
        raise InvalidValueError("region.flows", region.flows, f"1 to {slots}, the slots of the roster")

    def uniform(bounds: Range) -> Floats:
        return rng.uniform(*bounds, environments)

    # Bandwidths span decades, so their logarithm is uniform: each decade is met equally often.
    rate_mbps = np.exp(uniform((np.log(region.rate_mbps[0]), np.log(region.rate_mbps[1]))))
    rtt_ms = uniform(region.rtt_ms)
    bdp_pkts = rate_mbps * PPS_PER_MBPS * rtt_ms / 1e3
    paths = Paths(
        rate_mbps=rate_mbps,
        rtt_ms=rtt_ms,
        buffer_pkts=np.maximum(2.0, uniform(region.buffer_bdp) * bdp_pkts),
        loss=uniform(region.loss),
        jitter_ms=np.minimum(uniform(region.jitter_ms), rtt_ms / 4.0),
        trace=np.full(environments, -1),
        trace_start_ms=np.zeros(environments, np.int64),
    )
    count = rng.integers(low, high + 1, environments)
    cubics = rng.binomial(count - 1, region.cubic_share)
    cubics = np.clip(cubics, count - learned, roster.cubic)
    present = np.zeros((roster.count, environments), np.bool_)
    rows = np.arange(roster.count)[:, None]
    present |= rows < count - cubics
    present |= (rows >= learned) & (rows < learned + cubics)
    start_s = rng.uniform(0.0, region.start_within * duration_s, present.shape)
    start_s[0] = 0.0
    flows = Flows(
        start_s=np.where(present, start_s, NEVER),
        stop_s=np.full(present.shape, NEVER),
        rtt_ms=rtt_ms * rng.uniform(1.0, 1.0 + region.rtt_spread, present.shape),
    )
    return paths, flows
