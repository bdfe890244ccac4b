# SPDX-License-Identifier: Apache-2.0
"""The second dozen of held-out kinds, in the set `held-out-2`. The file `kinds.toml` tells of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ltp_switcher.eval.suite import link_parts as parts
from ltp_switcher.eval.suite.paths import Draw, Lines, flows


def _leo_bursts(d: Draw) -> Lines:
    link = parts.satellites(d, (10, 70), (25, 70), d.between(60, 150, 1))
    return [*link, *parts.bursts(d, (20, 80), (0.3, 0.5), (0.002, 0.01))]


def _far_hops(d: Draw) -> Lines:
    low_mbps = d.mbps(6, 15)
    rate = (low_mbps, 4 * low_mbps)
    return [*parts.link(d, rate, (250, 450), (0.5, 1.5)), *parts.rate_hops(d, rate, 3.0, 8.0)]


def _visits(d: Draw) -> Lines:
    link = parts.link(d, (20, 60), (15, 60), (1, 4))
    spans_s = parts.spans_s(d, (8.5, 10.5), (3.0, 8.0))
    return [*link, *flows("switcher"), *parts.others(spans_s, lambda: "cubic")]


def _storms(d: Draw) -> Lines:
    """Draw a path whose queue is short enough that the other flow's connection opens within its life."""
    rate_mbps = d.mbps(15, 50)
    link = parts.queued(rate_mbps, d.rtt_ms(15, 40), d.bdp(1, 3))
    spans_s = parts.spans_s(d, (2.0, 5.0), (0.2, 0.6))
    others = parts.others(spans_s, lambda: f"fixed:{round(rate_mbps * d.between(0.8, 1.0, 0.01), 1)}")
    return [*link, *flows("switcher"), *others]


def _route_flap(d: Draw) -> Lines:
    low_ms = d.rtt_ms(20, 60)
    high_ms = d.rtt_ms(1.5 * low_ms, 3.0 * low_ms)
    link = parts.queued(d.mbps(10, 50), low_ms, d.bdp(1, 4))
    return [*link, *parts.turns("rtt_ms", parts.times_s(d, 2.0, 5.0), high_ms, low_ms)]


DRAWN: Final[Mapping[str, Callable[[Draw], Lines]]] = {
    "deep-uplink": lambda d: parts.back(d, (0.2, 0.6), pkts=(200, 800)),
    "tunnels": lambda d: [
        *parts.link(d, (15, 60), (25, 70), (1, 4)),
        *parts.silences(d, parts.times_s(d, 10.0, 16.0, rest_s=6.0), 1000.0, 4000.0),
    ],
    "boost": lambda d: [
        *parts.link(d, (40, 80), (20, 60), (1, 3)), *parts.policed(d, (8, 16), (8000, 20_000))
    ],
    "acks-walk": lambda d: [
        *parts.link(d, (10, 50), (20, 60), (1, 3)),
        *parts.acks_lost(d, (0.1, 0.3)),
        *parts.walk(d, 0.3, (4, 10), (30, 60)),
    ],
    "leo-bursts": _leo_bursts,
    "far-hops": _far_hops,
    "codel-steps": lambda d: [
        *parts.managed(d, "codel"), *parts.rate_hops(d, (6, 60), 5.0, 12.0)
    ],
    "visits": _visits,
    "storms": _storms,
    "route-flap": _route_flap,
    "radio-sleep": lambda d: [
        *parts.link(d, (10, 60), (20, 60), (1, 4)),
        *parts.silences(d, parts.times_s(d, 0.5, 1.5), 30.0, 60.0),
    ],
    "receding": lambda d: parts.exponential(d, (40, 80), (2, 6), (15, 50), (1, 3)),
}  # fmt: skip
"""Functions that draw one path, by kind."""
