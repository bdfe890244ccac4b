# SPDX-License-Identifier: Apache-2.0
"""The simulated paths: E independent links, and up to F flows on each.

Arrays are indexed [flow, environment], or [environment] if they belong to a link. Environments are innermost,
so that a sum over a link's flows adds contiguous rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Ints
from ltp_switcher.errors import InvalidValueError

PACKET_BYTES: Final = 1500
"""Size in bytes of a packet on the wire. It converts rates in Mbit/s (10^6 bit/s) to packets a second."""
PPS_PER_MBPS: Final = 1e6 / 8 / PACKET_BYTES
"""Packets a second at 1 Mbit/s."""
NEVER: Final = np.inf


@dataclass(frozen=True)
class Steps:
    """Changes of the links. Every array has the shape (S, E), for up to S changes of each of E links. At
    `at_s`, the values that are not NaN take effect.

    A link with fewer than S changes has an infinite `at_s` in the remaining rows. For each link, `at_s`
    ascends.
    """

    at_s: Floats
    rate_mbps: Floats
    rtt_ms: Floats
    loss: Floats


@dataclass(frozen=True)
class Paths:
    """The bottleneck links. Every array has the shape (E,).

    A link has a constant `rate_mbps`, or repeats the mahimahi trace `traces[trace]` from `trace_start_ms` on
    (`trace` is -1 without a trace). A trace has the sorted times in ms at which the link can send one packet.
    The last of these times is its period.

    `loss` is the probability, 0 to 1, that a data packet is lost at random ahead of the queue. `jitter_ms` is
    the jitter j: every 10 ms the delay of each flow is shifted by a value drawn uniformly from ±j, without
    reordering.

    Raises:
        InvalidValueError: a value is out of range, or shapes differ.
    """

    rate_mbps: Floats
    rtt_ms: Floats
    buffer_pkts: Floats
    loss: Floats
    jitter_ms: Floats
    trace: Ints
    trace_start_ms: Ints
    traces: Sequence[Ints] = ()
    steps: Steps | None = None

    def __post_init__(self) -> None:
        n = len(self.rate_mbps)
        _check("rate_mbps", self.rate_mbps, n, 0.01, 1e5)
        _check("rtt_ms", self.rtt_ms, n, 0.5, 1e4)
        _check("buffer_pkts", self.buffer_pkts, n, 1, 1e7)
        _check("loss", self.loss, n, 0, 0.99)
        _check("jitter_ms", self.jitter_ms, n, 0, 1e3)
        _check("trace", self.trace, n, -1, len(self.traces) - 1)
        _check("trace_start_ms", self.trace_start_ms, n, 0, 1e9)

    @property
    def count(self) -> int:
        """E, the number of links."""
        return len(self.rate_mbps)

    @classmethod
    def uniform(
        cls,
        count: int,
        *,
        rate_mbps: float = 100.0,
        rtt_ms: float = 30.0,
        buffer_bdp: float = 1.0,
        loss: float = 0.0,
        jitter_ms: float = 0.0,
    ) -> Paths:
        """Return `count` equal links. A buffer is given in bandwidth-delay products and holds at least one
        packet.
        """
        bdp_pkts = rate_mbps * PPS_PER_MBPS * rtt_ms / 1e3
        return cls(
            rate_mbps=np.full(count, rate_mbps),
            rtt_ms=np.full(count, rtt_ms),
            buffer_pkts=np.full(count, max(1.0, buffer_bdp * bdp_pkts)),
            loss=np.full(count, loss),
            jitter_ms=np.full(count, jitter_ms),
            trace=np.full(count, -1),
            trace_start_ms=np.zeros(count, np.int64),
        )


@dataclass(frozen=True)
class Flows:
    """The flows of all links. Every array has the shape (F, E). A slot whose `start_s` is infinite stays
    empty.

    `rtt_ms` is a flow's base RTT; if it is NaN, the flow has the link's. Only fixed-rate flows use
    `rate_mbps`.

    Raises:
        InvalidValueError: a value is out of range, or shapes differ.
    """

    start_s: Floats
    stop_s: Floats
    rtt_ms: Floats
    rate_mbps: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def __post_init__(self) -> None:
        if not self.rate_mbps.size:
            object.__setattr__(self, "rate_mbps", np.full(self.start_s.shape, np.nan))
        for name in ("start_s", "stop_s", "rtt_ms", "rate_mbps"):
            value = getattr(self, name)
            if value.ndim != 2 or value.shape != self.start_s.shape:
                raise InvalidValueError(name, value.shape, f"an array of shape {self.start_s.shape}")
        if np.isnan(self.start_s).any() or (self.start_s < 0).any():
            raise InvalidValueError(
                "start_s", float(np.min(self.start_s)), "0 or more, inf for an empty slot"
            )

    @classmethod
    def forever(cls, flows: int, environments: int) -> Flows:
        """Return flows that send in all slots from the start to the end. Their base RTT is the link's."""
        shape = (flows, environments)
        return cls(np.zeros(shape), np.full(shape, NEVER), np.full(shape, np.nan))


def _check(name: str, value: Floats | Ints, n: int, low: float, high: float) -> None:
    if value.shape != (n,):
        raise InvalidValueError(name, value.shape, f"an array of shape ({n},)")
    # NaN compares false with everything, so it fails here too.
    ok = (value >= low) & (value <= high)
    if not ok.all():
        raise InvalidValueError(name, value[np.argmin(ok)].item(), f"{low:g} to {high:g}")
