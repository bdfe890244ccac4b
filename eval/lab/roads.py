# SPDX-License-Identifier: Apache-2.0
"""The input of the link module `link/labpaths.c`, and results by path. This module emulates several paths at
once, and things that real paths do: an RTT that walks, handovers, and a way back that thins ACKs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final

from ltp_switcher.errors import ConfigError, LabError
from ltp_switcher.eval.lab.measurements import timeseries
from ltp_switcher.eval.lab.schedule import capacity_mbps, encode, link_trace
from ltp_switcher.eval.run.road import PLAIN, BurstLoss
from ltp_switcher.eval.run.scenario import PATHS_MBPS, Link, Scenario
from ltp_switcher.policies.simulator.delivery_traces import mean_rate_mbps

# The structures of link/labpaths.h.
_MAGIC: Final = 0x6874706C
_HEADER: Final = struct.Struct("=II")
_PATH: Final = struct.Struct("=QQQQQQQQII")
_CERTAIN: Final = 2**32
SEEDS_APART: Final = 7919
"""Difference between the seeds of two neighbouring paths."""
IDLE_MIN: Final = 0.3
"""Least share of its time that a guest with several paths must be idle. In a busier guest the paths would
delay each other, so the run is refused.
"""


def on_roads(scenario: Scenario) -> bool:
    """Tell whether a scenario needs the link module `labpaths`."""
    return bool(scenario.paths) or scenario.link.road != PLAIN


def each_path(scenario: Scenario) -> Iterator[Scenario]:
    """Yield one scenario for each path of a scenario. It has the link of this path alone. Steps of the RTT
    and of the rate replace the link's walks and handovers.
    """
    for link in scenario.links:
        yield replace(scenario, link=link.in_steps(scenario.duration_s), paths=())


def encode_roads(scenario: Scenario, seed: int) -> bytes:
    """Return the bytes that the link module `labpaths` takes through /dev/lablink.

    Raises:
        ConfigError: a trace is missing, or the rates of several paths sum to more than `PATHS_MBPS`.
    """
    parts = [_HEADER.pack(_MAGIC, len(scenario.links))]
    sum_mbps = 0.0
    for number, path in enumerate(each_path(scenario)):
        trace = link_trace(path)
        sum_mbps += max(state.rate_mbps or 0.0 for state in path.link.states())
        sum_mbps += 0.0 if trace is None else mean_rate_mbps(trace)
        schedule = encode(path, trace, seed + SEEDS_APART * number)
        parts += [_path(path.link, len(schedule)), schedule, bytes(-len(schedule) % 8)]
    if scenario.paths and sum_mbps > PATHS_MBPS:
        allowed = f"paths whose rates sum to {PATHS_MBPS:g} Mbit/s at most, a trace by its mean"
        raise ConfigError("path", round(sum_mbps, 1), allowed)
    return b"".join(parts)


def _path(link: Link, schedule_bytes: int) -> bytes:
    burst, back = link.road.burst_loss or BurstLoss(0.0, 1.0, 0.0), link.road.back
    chances = (burst.to_bad, burst.to_good, burst.loss_bad, burst.loss_good)
    return _PATH.pack(
        schedule_bytes,
        round(link.jitter_ms * 1e6),
        *(round(chance * _CERTAIN) for chance in chances),
        round(back.rate_mbps * 1e6) if back else 0,
        round(back.loss * _CERTAIN) if back else 0,
        # The packet in service is not part of the buffer.
        back.buffer_pkts + 1 if back else 0,
        int(back.thin) if back else 0,
    )


def timeseries_of_paths(scenario: Scenario, rows: list[dict[str, str]]) -> bytes:
    """Return the content of `timeseries.csv` for a run with several paths. The column of the capacity has the
    capacity of the flow's own path.
    """
    tables = [
        timeseries(scenario, rows, capacity_mbps(path, link_trace(path)).tolist()).splitlines(keepends=True)
        for path in each_path(scenario)
    ]
    header, *lines = zip(*tables, strict=True)
    # The tables differ in the capacity alone. Their second column is the flow.
    chosen = (line[scenario.flows[int(line[0].split(b",")[1])].path] for line in lines)
    return b"".join([header[0], *chosen])


def check_idle(scenario: Scenario, totals: dict[str, Any]) -> None:
    """Check that a guest with several paths was idle for `IDLE_MIN` of its time. `totals` are the traffic
    program's.

    Raises:
        LabError: the guest was busier, so its paths may have delayed each other.
    """
    idle = totals["idle_ns"] / (totals["idle_ns"] + totals["busy_ns"])
    if scenario.paths and idle < IDLE_MIN:
        raise LabError(
            f"{scenario.name}: the run is invalid: the guest was idle for {100 * idle:.0f} % of the time, "
            f"and several paths need {100 * IDLE_MIN:.0f} %; lower their rates, or use fewer flows"
        )
