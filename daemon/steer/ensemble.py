# SPDX-License-Identifier: Apache-2.0
"""Siblings under a learned arm share one window evenly, and each knows the lowest RTT that any of them saw.

Siblings are the flows that share a bottleneck. Flows through one queue with equal windows get equal rates. So
the policy decides on the sum of the siblings' windows, and each sibling gets an equal part of the sum in
every interval. RFC 3124 and RFC 9040 also let flows to one destination share their state. A flow that began
behind a standing queue has not seen the path's lowest RTT, but a sibling may have seen it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Indices, Slots
from ltp_switcher.policies.runtime.measurements import Interval

Together = Callable[[Slots], Indices | None]
"""A function from the slots of flows, shape (n,), to the numbers of their players, shape (n,). A player is a
group of siblings, which share a bottleneck. The function returns None if no flow has a sibling.
"""
ALONE: Final[Together] = lambda _: None  # noqa: E731


def numbers(players: Indices) -> Floats:
    """Return the number of flows in each flow's player, shape (n,). A player is a group of siblings, the
    flows that share a bottleneck.
    """
    _, at, counts = np.unique(players, return_inverse=True, return_counts=True)
    found: Floats = counts[at].astype(np.float64)
    return found


def with_lowest_rtt(players: Indices, interval: Interval) -> Interval:
    """Return the interval with each flow's lowest RTT replaced by the lowest RTT that any of its siblings
    saw.

    `players` has the number of each flow's player, shape (n,). A player is a group of siblings.
    """
    _, at = np.unique(players, return_inverse=True)
    least_s = np.full(len(players), np.inf)
    np.minimum.at(least_s, at, interval.rtt_min_s)
    return replace(interval, rtt_min_s=least_s[at])


def shared(players: Indices, window_pkts: Floats, unused: Bools) -> Floats:
    """Make the windows of siblings (flows that share a bottleneck) equal, and keep the sum of these windows.

    Args:
        players: number of each flow's player, shape (n,). Siblings have equal numbers.
        window_pkts: window of each flow in packets, shape (n,). A window that is not finite stays as it is.
        unused: flows that fill too little of their windows, shape (n,). Such a flow keeps its own window.

    Returns:
        Windows in packets, shape (n,).
    """
    window_pkts = window_pkts.copy()
    taking = np.flatnonzero(~unused & np.isfinite(window_pkts))
    _, at = np.unique(players[taking], return_inverse=True)
    sums, counts = np.bincount(at, window_pkts[taking]), np.bincount(at)
    window_pkts[taking] = (sums / counts)[at]
    return window_pkts
