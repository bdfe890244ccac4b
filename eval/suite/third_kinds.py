# SPDX-License-Identifier: Apache-2.0
"""The third dozen of held-out kinds, in the set `held-out-3`. The file `kinds.toml` tells of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ltp_switcher.eval.suite import link_parts as parts
from ltp_switcher.eval.suite.paths import Draw, Lines, flows, steps


def _drift(d: Draw) -> Lines:
    near_ms, factor = d.rtt_ms(15, 40), d.between(1.02, 1.04, 0.001)
    changes = [
        (float(at_s), "rtt_ms", round(near_ms * factor**at_s, 1)) for at_s in range(1, int(parts.DURATION_S))
    ]
    return [*parts.queued(d.mbps(10, 50), near_ms, d.bdp(2, 5)), *steps(*changes)]


def _bbr_visits(d: Draw) -> Lines:
    link = parts.link(d, (20, 60), (15, 60), (1, 4))
    spans_s = parts.spans_s(d, (9.0, 11.0), (4.0, 8.0))
    return [*link, *flows("switcher"), *parts.others(spans_s, lambda: "bbr")]


def _codel_visits(d: Draw) -> Lines:
    spans_s = parts.spans_s(d, (9.0, 11.0), (4.0, 8.0))
    return [*parts.managed(d, "codel"), *flows("switcher"), *parts.others(spans_s, lambda: "cubic")]


def _shallow_hops(d: Draw) -> Lines:
    rate = (10.0, 40.0)
    link = [f"rate_mbps = {d.mbps(*rate)}", f"rtt_ms = {d.rtt_ms(20, 60)}"]
    return [*link, f"buffer_pkts = {int(d.between(10, 25, 1))}", *parts.rate_hops(d, rate, 4.0, 9.0)]


def _turns_hops(d: Draw) -> Lines:
    rate, rtt_ms = (10.0, 50.0), d.rtt_ms(6, 15)
    link = parts.queued(d.mbps(*rate), rtt_ms, d.bdp(4, 12))
    return [*link, f"jitter_ms = {d.between(10, 30, 0.1)}", *parts.rate_hops(d, rate, 4.0, 9.0)]


DRAWN: Final[Mapping[str, Callable[[Draw], Lines]]] = {
    "growing": lambda d: parts.exponential(d, (2, 6), (40, 80), (15, 50), (4, 12)),
    "bbr-visits": _bbr_visits,
    "slow-satellite": lambda d: parts.link(d, (1.5, 5), (450, 700), (0.5, 2)),
    "turns-hops": _turns_hops,
    "lossy-walk": lambda d: [
        *parts.link(d, (10, 50), (20, 60), (1, 3)),
        f"loss = {d.loss(0.002, 0.01)}",
        *parts.walk(d, 0.3, (4, 10), (15, 45)),
    ],
    "shallow-hops": _shallow_hops,
    "codel-visits": _codel_visits,
    "burst-hops": lambda d: [
        *parts.link(d, (10, 50), (20, 60), (1, 3)),
        *parts.bursts(d, (10, 40), (0.3, 0.6), (0.002, 0.008)),
        *parts.rate_hops(d, (10, 50), 4.0, 9.0),
    ],
    "uplink-hops": lambda d: [
        *parts.back(d, (0.3, 0.8), pkts=(30, 90)), *parts.rate_hops(d, (15, 60), 5.0, 10.0)
    ],
    "drift": _drift,
    "turns-bursts": lambda d: [
        *parts.link(d, (15, 60), (10, 30), (2, 6)),
        f"jitter_ms = {d.between(3, 9, 0.1)}",
        *parts.bursts(d, (10, 40), (0.3, 0.6), (0.002, 0.008)),
    ],
    "satellites-acks": lambda d: [
        *parts.satellites(d, (10, 70), (25, 70), d.between(60, 150, 1)), *parts.acks_lost(d, (0.1, 0.3))
    ],
}  # fmt: skip
"""Functions that draw one path, by kind."""
