# SPDX-License-Identifier: Apache-2.0
"""An arm on the links of LTP, Section 7.3, in the simulator: one factor varied at a time.

The simulation takes half a minute; the lab would take hours. But the simulation proves nothing: claims are
measured on the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

import numpy as np

from ltp_switcher.measures import loss_rate
from ltp_switcher.policies.runtime.arm import Arm
from ltp_switcher.policies.simulator.directed import directed
from ltp_switcher.policies.simulator.paths import NEVER, PPS_PER_MBPS, Flows, Paths
from ltp_switcher.policies.simulator.simulator import Roster, Simulator
from ltp_switcher.policies.simulator.totals import Totals


@dataclass(frozen=True)
class Link:
    """A link, and the number of Cubic flows beside the judged flow."""

    name: str
    rate_mbps: float = 100.0
    rtt_ms: float = 30.0
    loss: float = 0.0
    buffer_bdp: float = 1.0
    cubics: int = 0


LINKS: Final[Sequence[Link]] = (
    Link("reference"),
    *(Link(f"rate {rate:g} Mbit/s", rate_mbps=rate) for rate in (10.0, 20.0, 50.0, 200.0)),
    *(Link(f"RTT {rtt:g} ms", rtt_ms=rtt) for rtt in (15.0, 60.0, 90.0, 120.0)),
    *(Link(f"loss {100 * loss:g} %", loss=loss) for loss in (0.001, 0.0025, 0.005, 0.01)),
    *(Link(f"buffer {bdp:g} BDP", buffer_bdp=bdp) for bdp in (0.2, 0.5, 1.5, 2.2)),
    *(Link(f"beside Cubic, {rtt:g} ms", rtt_ms=rtt, cubics=1) for rtt in (30.0, 60.0, 120.0)),
)
SATELLITE: Final = Link("satellite", rate_mbps=42.0, rtt_ms=800.0, loss=0.0074)
RUNS: Final[Sequence[tuple[Sequence[Link], float]]] = ((LINKS, 30.0), ((SATELLITE,), 100.0))
"""Groups of links that are simulated at once, each with its duration in seconds. A satellite's link takes 13
s to fill.
"""
REPEATS: Final = 8
"""Number of runs of each link, with independent random numbers. Beside Cubic, a single run of 30 s is too
noisy.
"""


@dataclass(frozen=True)
class LinkSummary:
    """Measures of the judged flow over the whole run, including its start."""

    utilisation: float
    rtt_ratio: float
    """Mean RTT over the link's base RTT."""
    loss: float
    ratio_to_cubic: float | None
    """Throughput of the judged flow over the first Cubic flow's throughput; None without a Cubic flow."""

    @classmethod
    def mean(cls, repeats: Sequence[LinkSummary]) -> LinkSummary:
        """Return the mean summary of several runs of one link."""
        ratios = [one.ratio_to_cubic for one in repeats if one.ratio_to_cubic is not None]
        return cls(
            utilisation=fmean(one.utilisation for one in repeats),
            rtt_ratio=fmean(one.rtt_ratio for one in repeats),
            loss=fmean(one.loss for one in repeats),
            ratio_to_cubic=fmean(ratios) if ratios else None,
        )


def run(
    arm: Arm,
    links: Sequence[Link] = LINKS,
    *,
    seed: int,
    duration_s: float,
    on_step: Callable[[], None] = lambda: None,
) -> list[LinkSummary]:
    """Run the arm on all links at once, and return a summary for each link, in the same order."""
    rates, rtts, losses, buffers = (
        np.array([getattr(link, name) for link in links])
        for name in ("rate_mbps", "rtt_ms", "loss", "buffer_bdp")
    )
    n = len(links)
    paths = Paths(
        rate_mbps=rates,
        rtt_ms=rtts,
        buffer_pkts=np.maximum(2.0, buffers * rates * PPS_PER_MBPS * rtts / 1e3),
        loss=losses,
        jitter_ms=np.zeros(n),
        trace=np.full(n, -1),
        trace_start_ms=np.zeros(n, np.int64),
    )
    roster = Roster(window=1, cubic=max(link.cubics for link in links))
    rows = np.arange(roster.count)[:, None]
    start_s = np.where(rows <= [link.cubics for link in links], 0.0, NEVER)
    flows = Flows(start_s, np.full(start_s.shape, NEVER), np.full(start_s.shape, np.nan))
    simulator = Simulator(paths, flows, roster, seed=seed, interval_s=arm.interval_s)
    totals = Totals.none(roster.count, n)
    for seen, _ in directed(simulator, arm, duration_s=duration_s):
        totals.add(seen)
        on_step()
    acked, loss = totals.acked_pkts, loss_rate(totals.lost_pkts, totals.acked_pkts)
    return [
        LinkSummary(
            utilisation=float(totals.utilisation[0, k]),
            rtt_ratio=float(totals.rtt_s[0, k] / (link.rtt_ms / 1e3)),
            loss=float(loss[0, k]),
            ratio_to_cubic=float(acked[0, k] / acked[1, k]) if link.cubics else None,
        )
        for k, link in enumerate(links)
    ]
