# SPDX-License-Identifier: Apache-2.0
"""Paths of one flow drawn from wide ranges, in any number. Their runs show which arm suits which path.

The families of `paths` are narrow, and few. Here every path differs: 1 to 150 Mbit/s, 2 to 300 ms, 0.1 to 20
bandwidth-delay products of buffer. A path may be static, lossy, policed, behind fq_codel or before a client
whose ACKs wait. In other paths the rate, the RTT or the losses change, or a recorded trace gives the rate.
The first n paths of a seed are the same, however many paths are drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.eval.run.scenario import PACKET_BYTES
from ltp_switcher.eval.suite.paths import DURATION_S, TRACES, Lines, file_text, flows, steps

RATE_MBPS: Final = (1.0, 150.0)
RTT_MS: Final = (2.0, 300.0)
BUFFER_BDP: Final = (0.1, 20.0)
LOSS: Final = (0.0005, 0.03)
JITTER_MS: Final = (2.0, 40.0)
STEP_FACTOR: Final = (1.5, 5.0)
"""Range of the factor by which rate or RTT changes, up or down."""
BUFFER_PKTS: Final = (5, 4000)
"""Least and largest buffer in packets. A shorter buffer would not hold the packets that a sender sends at
once, and no router has a longer one.
"""
TRACE_S: Final = 130.0
"""Upper bound of the offsets into a trace, in seconds. A trace repeats at its end."""


@dataclass(frozen=True, slots=True)
class _Draw:
    rng: np.random.Generator

    def log(self, low: float, high: float, digits: int = 1) -> float:
        return round(float(np.exp(self.rng.uniform(np.log(low), np.log(high)))), digits)

    def rate_mbps(self) -> float:
        return self.log(*RATE_MBPS)

    def rtt_ms(self) -> float:
        return self.log(*RTT_MS)

    def loss(self) -> float:
        return self.log(*LOSS, digits=4)

    def changed(self, value: float, low: float, high: float) -> float:
        """Return `value` times or divided by a factor from `STEP_FACTOR`, so that it stays between `low` and
        `high`.
        """
        factor = self.log(*STEP_FACTOR, digits=3)
        up = value * factor <= high and (value / factor < low or bool(self.rng.integers(2)))
        return round(value * factor if up else value / factor, 1)

    def times_s(self) -> list[float]:
        """Draw the times of one to four changes."""
        count = int(self.rng.integers(1, 5))
        share = DURATION_S / (count + 1)
        return [round((n + 1 + float(self.rng.uniform(-0.2, 0.2))) * share, 1) for n in range(count)]


def _link(d: _Draw, *more: str, rate_mbps: float = 0.0, rtt_ms: float = 0.0) -> Lines:
    rate_mbps, rtt_ms = rate_mbps or d.rate_mbps(), rtt_ms or d.rtt_ms()
    bdp_pkts = rate_mbps * 1e6 / 8 * rtt_ms / 1e3 / PACKET_BYTES
    pkts = int(np.clip(round(d.log(*BUFFER_BDP, digits=3) * bdp_pkts), *BUFFER_PKTS))
    return [f"rate_mbps = {rate_mbps}", f"rtt_ms = {rtt_ms}", f"buffer_pkts = {pkts}", *more]


def _steps(d: _Draw, key: str, low: float, high: float) -> Lines:
    """Draw a link whose rate or RTT, as `key` says, changes between `low` and `high`."""
    first = value = d.log(low, high)
    changes: list[tuple[float, str, float]] = []
    for at_s in d.times_s():
        value = d.changed(value, low, high)
        changes.append((at_s, key, value))
    return [*_link(d, **{key: first}), *steps(*changes)]


def _loss_steps(d: _Draw) -> Lines:
    changes = [(at_s, "loss", d.loss() if n % 2 == 0 else 0.0) for n, at_s in enumerate(d.times_s())]
    return [*_link(d), *steps(*changes)]


def _policed(d: _Draw) -> Lines:
    rate_mbps = d.rate_mbps()
    police_mbps = max(0.5, round(rate_mbps / d.log(1.5, 8.0, digits=3), 1))
    burst_pkts = int(d.log(30, 500, digits=0))
    return _link(d, f"police_mbps = {police_mbps}", f"police_burst_pkts = {burst_pkts}", rate_mbps=rate_mbps)


def _trace(d: _Draw) -> Lines:
    return [
        f'trace = "{TRACES[int(d.rng.integers(len(TRACES)))]}"',
        f"offset_s = {round(float(d.rng.uniform(0.0, TRACE_S)), 1)}",
        f"rtt_ms = {d.log(10.0, 150.0)}",
        f"buffer_pkts = {int(d.log(60, 2000, digits=0))}",
    ]


KINDS: Final[Mapping[str, tuple[float, Callable[[_Draw], Lines]]]] = {
    "static": (0.25, _link),
    "lossy": (0.17, lambda d: _link(d, f"loss = {d.loss()}")),
    "policed": (0.05, _policed),
    "fq-codel": (0.05, lambda d: _link(d, 'queue = "fq_codel"')),
    "rate-steps": (0.14, lambda d: _steps(d, "rate_mbps", *RATE_MBPS)),
    "rtt-steps": (0.10, lambda d: _steps(d, "rtt_ms", *RTT_MS)),
    "loss-steps": (0.06, _loss_steps),
    "trace": (0.12, _trace),
    "jitter": (0.06, lambda d: _link(d, f"jitter_ms = {d.log(*JITTER_MS)}")),
}
"""Kinds of path, each with its share and the function that draws a path."""


def draw_wide(seed: int, count: int) -> dict[str, str]:
    """Return the files of `count` paths of this seed: TOML by path's name, the same at every call."""
    shares = np.array([share for share, _ in KINDS.values()])
    drawn: dict[str, str] = {}
    for n in range(1, count + 1):
        d = _Draw(np.random.default_rng((seed, n)))
        kind = tuple(KINDS)[int(d.rng.choice(shares.size, p=shares))]
        name = f"{kind}-{n:03d}"
        drawn[name] = file_text(name, [*KINDS[kind][1](d), *flows("switcher")])
    return drawn
