# SPDX-License-Identifier: Apache-2.0
"""Traffic of a server: flows that come at random to several paths at once, in sizes that were published.

    [requests]
    kind = "traffic"
    scheme = "switcher"
    flows = 60                # to each [[path]]
    load = 0.25               # optional, default 0.25: mean share of a path's rate that they ask for

Each flow is a download over a connection of its own. Flows come to a path as a Poisson process. Their sizes
follow web search in M. Alizadeh et al., Data Center TCP (DCTCP), SIGCOMM 2010, Fig. 4. The points of this
distribution came with the simulator of Y. Li et al., HPCC, SIGCOMM 2019 (`WebSearch_distribution.txt`).
Between the points it is a straight line, and the largest size is 30 MB. It is the traffic of a data center.
Servers of the Internet have fewer large flows. Here each class of sizes gets a share of the flows. The flows
to a path below `SLOW_MBPS` come from the part of the distribution up to `SLOW_BYTES`.

A path's draws depend on the run's seed and the path's place alone. So every scheme meets the same flows, and
a shorter list of flows is the beginning of a longer one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ltp_switcher.arrays import Floats

WEB_SEARCH: Final = (
    (0, 0.0), (10_000, 0.15), (20_000, 0.2), (30_000, 0.3), (50_000, 0.4), (80_000, 0.53), (200_000, 0.6),
    (1_000_000, 0.7), (2_000_000, 0.8), (5_000_000, 0.9), (10_000_000, 0.97), (30_000_000, 1.0),
)  # fmt: skip
"""Points of the distribution: a size in bytes, and the share of the flows that have this size or a smaller
one.
"""
LARGEST_BYTES: Final = WEB_SEARCH[-1][0]
SLOW_MBPS: Final = 3.0
SLOW_BYTES: Final = 100_000
_STREAM: Final = 3
"""Number of the random stream for these flows. It keeps their draws apart from all others of a seed."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """The traffic of a scenario. The module's text describes the fields."""

    flows: int
    load: float


@dataclass(frozen=True, slots=True)
class Arrival:
    """A flow: its start time, the number of its path, and its size."""

    at_us: int
    path: int
    size_bytes: int


def sizes_bytes(shares: ArrayLike, most_bytes: int = LARGEST_BYTES) -> Floats:
    """Return quantiles of the flows' sizes, in bytes: the sizes that these shares of the flows, 0 to 1, do
    not exceed. The distribution ends at `most_bytes`. The result has the shape of `shares`.
    """
    points_bytes, points = np.array(WEB_SEARCH).T
    below = np.interp(most_bytes, points_bytes, points)
    found: Floats = np.interp(np.asarray(shares) * below, points, points_bytes)
    return found


def mean_bytes(most_bytes: int = LARGEST_BYTES) -> float:
    """Return the mean size of flows, in bytes, for the distribution up to `most_bytes`."""
    points_bytes, points = np.array(WEB_SEARCH).T
    below = np.interp(most_bytes, points_bytes, points)
    edges = np.append(points_bytes[points_bytes < most_bytes], most_bytes)
    shares = np.append(points[points_bytes < most_bytes], below)
    return float((np.diff(shares) * (edges[:-1] + edges[1:]) / 2).sum() / below)


def most_bytes(rate_mbps: float) -> int:
    """Return the size in bytes of the largest flow to a path of this rate."""
    return SLOW_BYTES if rate_mbps < SLOW_MBPS else LARGEST_BYTES


def draw_traffic(traffic: Traffic, rates_mbps: Sequence[float], seed: int) -> list[Arrival]:
    """Draw the flows of a run of this seed to paths of these rates, in order of time."""
    drawn: list[Arrival] = []
    for path, rate_mbps in enumerate(rates_mbps):
        rng = np.random.default_rng((seed, _STREAM, path))
        most = most_bytes(rate_mbps)
        gap_s = mean_bytes(most) * 8 / (traffic.load * rate_mbps * 1e6)
        # Each flow has a row, so that a longer list of flows begins with the same flows.
        uniform = rng.random((traffic.flows, 2))
        at_us = np.rint(np.cumsum(-np.log1p(-uniform[:, 0]) * gap_s) * 1e6).astype(np.int64)
        sizes = np.maximum(np.rint(sizes_bytes(uniform[:, 1], most)), 1).astype(np.int64)
        drawn += [Arrival(at, path, size) for at, size in zip(at_us.tolist(), sizes.tolist(), strict=True)]
    return sorted(drawn, key=lambda one: (one.at_us, one.path))
