# SPDX-License-Identifier: Apache-2.0
"""Training regions: the ranges from which the papers draw their links, and the function that draws links from
them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Ints
from ltp_switcher.errors import InvalidValueError
from ltp_switcher.policies.simulator.paths import NEVER, PPS_PER_MBPS, Flows, Paths
from ltp_switcher.policies.simulator.simulator import Roster

Range = tuple[float, float]


@dataclass(frozen=True)
class Region:
    """Ranges of a link's properties. Except for rate and buffer in packets, a property is drawn uniformly
    from its range.

    - `rate_mbps` and `buffer_pkts` are drawn log-uniformly. If `buffer_pkts` is given, `buffer_bdp` does not
      count.
    - `rtt_ms` is the base round trip. Each flow's own base RTT is the link's times 1 to 1 + `rtt_spread`.
    - `flows` counts all flows of a link. The first flow starts at once, and the others start within the share
      `start_within` of the episode.
    - `cubic_share` is the probability that a flow other than the first runs Cubic. (LTP, Section 6:
      "controlled by either Cubic or LTP".)
    - `trace_share` is the share of the links that play one of `traces`, from a random position on.
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
    buffer_pkts: Range | None = None
    traces: tuple[Ints, ...] = ()
    trace_share: float = 0.0


LTP_SMALL: Final = Region((10, 100), (10, 60), (0.8, 1.0), (0.0, 0.001))
"""Training region "small" of LTP, Table 3. The table's base delay is one way, in accordance with the sweep of
LTP, Section 7.3.1.
"""
LTP_MEDIUM: Final = Region((10, 300), (10, 120), (0.8, 1.5), (0.0, 0.005))
LTP_LARGE: Final = Region((10, 600), (10, 240), (0.8, 2.0), (0.0, 0.01))
JURY: Final = Region((20, 100), (10, 60), (0.8, 1.5), (0.0, 0.001))
"""Training region of Jury, Table 1."""
SPINE: Final = Region((40, 200), (20, 200), (0.5, 2.0), (0.0, 0.01))
"""Training region of Spine, Table 3. The table's delay is one way."""
OWL: Final = Region((6, 100), (1, 40), (1.0, 1.0), (0.0, 0.0), flows=(1, 3), buffer_pkts=(3, 2000))
"""Training region of Owl, Table II, which has no random loss. Owl's training adds cellular traces."""


def draw(
    region: Region, roster: Roster, environments: int, duration_s: float, rng: np.random.Generator
) -> tuple[Paths, Flows]:
    """Draw the links and flows of one episode.

    A link has at least one flow of the policy (the roster's first `agents` rows). Slots beyond the drawn
    number of flows stay empty. If the roster has too few slots for the drawn Cubic flows or for the policy's,
    slots of the other kind take over.

    Raises:
        InvalidValueError: the roster has no slot for the policy, or too few slots for `region.flows`.
    """
    learned = roster.agents
    others = roster.cubic - roster.learned_cubic
    slots = learned + others
    low, high = region.flows
    if not learned >= 1:
        raise InvalidValueError("roster", roster, "at least one slot of the policy")
    if not 1 <= low <= high <= slots:
        raise InvalidValueError("region.flows", region.flows, f"1 to {slots}, the slots of the roster")

    def uniform(bounds: Range) -> Floats:
        return rng.uniform(*bounds, environments)

    def log_uniform(bounds: Range) -> Floats:
        return np.exp(uniform((np.log(bounds[0]), np.log(bounds[1]))))

    # Bandwidths span decades, so their logarithm is uniform: each decade is met equally often.
    rate_mbps = log_uniform(region.rate_mbps)
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
    if region.buffer_pkts is not None:
        paths = replace(paths, buffer_pkts=log_uniform(region.buffer_pkts))
    if region.trace_share > 0.0:
        paths = _with_traces(region, paths, rng)
    count = rng.integers(low, high + 1, environments)
    cubics = rng.binomial(count - 1, region.cubic_share)
    cubics = np.clip(cubics, count - learned, others)
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


def draw_mixed(
    regions: Sequence[Region],
    roster: Roster,
    environments: int,
    duration_s: float,
    rng: np.random.Generator,
) -> tuple[Paths, Flows]:
    """Draw equally many links from each region, in the order of the regions; otherwise like `draw`.

    Raises:
        InvalidValueError: the roster does not fit, as for `draw`, or the number of links is no multiple of
            the number of regions.
    """
    if len(regions) == 1:
        return draw(regions[0], roster, environments, duration_s, rng)
    if environments % len(regions):
        raise InvalidValueError("environments", environments, f"a multiple of {len(regions)}, the regions")
    drawn = [draw(region, roster, environments // len(regions), duration_s, rng) for region in regions]
    links, flows = (list(part) for part in zip(*drawn, strict=True))

    def joined(parts: Sequence[object], name: str) -> Floats:
        whole: Floats = np.concatenate([getattr(part, name) for part in parts], axis=-1)
        return whole

    # The number of each link's trace counts within its own region.
    before = np.cumsum([0, *(len(part.traces) for part in links)])
    trace = [
        np.where(part.trace < 0, -1, part.trace + first) for part, first in zip(links, before, strict=False)
    ]
    paths = Paths(
        rate_mbps=joined(links, "rate_mbps"),
        rtt_ms=joined(links, "rtt_ms"),
        buffer_pkts=joined(links, "buffer_pkts"),
        loss=joined(links, "loss"),
        jitter_ms=joined(links, "jitter_ms"),
        trace=np.concatenate(trace),
        trace_start_ms=np.concatenate([part.trace_start_ms for part in links]),
        traces=tuple(chain.from_iterable(part.traces for part in links)),
    )
    return paths, Flows(joined(flows, "start_s"), joined(flows, "stop_s"), joined(flows, "rtt_ms"))


def _with_traces(region: Region, paths: Paths, rng: np.random.Generator) -> Paths:
    """Let some of the links play traces; their `rate_mbps` is the trace's mean then."""
    traced = rng.random(paths.count) < region.trace_share
    which = np.where(traced, rng.integers(0, len(region.traces), paths.count), -1)
    period_ms = np.array([trace[-1] for trace in region.traces])
    mean_mbps = np.array([len(trace) * 1e3 / trace[-1] for trace in region.traces]) / PPS_PER_MBPS
    return replace(
        paths,
        rate_mbps=np.where(traced, mean_mbps[which], paths.rate_mbps),
        trace=which,
        trace_start_ms=(rng.random(paths.count) * period_ms[which]).astype(np.int64) * traced,
        traces=region.traces,
    )
