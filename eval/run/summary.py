# SPDX-License-Identifier: Apache-2.0
"""The summary of one run, `summary.json`, computed from the lab's raw results.

All of it except `wall_s` is a pure function of (scenario, scheme, seed, kernel).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Ints
from ltp_switcher.errors import ArtifactError
from ltp_switcher.eval.run import metrics
from ltp_switcher.eval.run.completion_times import RequestSummary
from ltp_switcher.eval.run.scenario import Flow, Scenario
from ltp_switcher.eval.run.series import BIN_S, FlowSeries
from ltp_switcher.measures import BYTES_TO_MBIT, jain_index, loss_rate

DECIMALS: Final = 6


@dataclass(frozen=True, slots=True)
class FlowTotals:
    """One flow's counts over its whole life, from `flows.json`.

    `rtt_edges_ms` and `rtt_counts` are a histogram of RTT samples: each bin's upper edge and count.
    """

    bytes_received: int
    retransmits: int
    lost_pkts: int
    delivered_pkts: int
    switches: int
    rtt_edges_ms: tuple[float, ...]
    rtt_counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class FlowSummary:
    """One flow of a run. Means are over the flow's life; units are in the names. An RTT is NaN without a
    sample.

    `loss` is a share 0..1. `reward` is the mean of `metrics.rewards` over the 100 ms bins. `arm_share` has,
    for each protocol, the fraction of the bins in which the flow ran it.
    """

    scheme: str
    throughput_mbps: float
    rtt_mean_ms: float
    rtt_p95_ms: float
    base_rtt_ms: float
    loss: float
    retransmits: int
    reward: float
    switches: int
    arm_share: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of one run.

    `utilisation` is defined in `metrics`, and `jain` in `jain_index`. `wall_s` is the host's time for the
    run.

    With requests, `flows` is empty and `jain` is 1. The flows beside the requests are then in `requests`.
    """

    scenario: str
    scheme: str
    seed: int
    kernel: str
    duration_s: float
    utilisation: float
    jain: float
    wall_s: float
    flows: tuple[FlowSummary, ...]
    requests: RequestSummary | None = None

    def to_json(self) -> str:
        """Return the text of `summary.json`: fixed order of keys, 6 decimals, `null` for no value."""
        values = asdict(self)
        del values["flows" if self.requests else "requests"]
        if self.requests and self.requests.video is None:
            del values["requests"]["video"]
        return json.dumps(rounded(values), indent=2) + "\n"


def read_totals(text: str) -> list[FlowTotals]:
    """Parse `flows.json`, in order of the flows.

    Raises:
        ArtifactError: the file does not have this version's form.
    """
    try:
        return [
            FlowTotals(
                bytes_received=int(flow["bytes_received"]),
                retransmits=int(flow["retransmits"]),
                lost_pkts=int(flow["lost_pkts"]),
                delivered_pkts=int(flow["delivered_pkts"]),
                switches=int(flow["switches"]),
                rtt_edges_ms=tuple(map(float, flow["rtt_histogram"]["upper_ms"])),
                rtt_counts=tuple(map(int, flow["rtt_histogram"]["count"])),
            )
            for flow in json.loads(text)["flows"]
        ]
    except (ValueError, TypeError, KeyError) as error:
        raise ArtifactError(f"flows.json: {error!r}") from error


def summarise(
    scenario: Scenario,
    series: Sequence[FlowSeries],
    totals: Sequence[FlowTotals],
    *,
    seed: int,
    kernel: str,
    wall_s: float,
) -> Summary:
    """Fold a run's raw results into its summary.

    Raises:
        ArtifactError: the number of flows in the results differs from the scenario's.
    """
    if not len(series) == len(totals) == len(scenario.flows):
        raise ArtifactError(
            f"{scenario.name}: {len(scenario.flows)} flows, "
            f"but {len(series)} in timeseries.csv and {len(totals)} in flows.json"
        )
    flows = tuple(
        _flow(scenario, flow, bins, total)
        for flow, bins, total in zip(scenario.flows, series, totals, strict=True)
    )
    return Summary(
        scenario=scenario.name,
        scheme=scenario.flows[0].scheme,
        seed=seed,
        kernel=kernel,
        duration_s=scenario.duration_s,
        utilisation=_utilisation(scenario, series),
        jain=_jain(scenario, series, flows),
        wall_s=wall_s,
        flows=flows,
    )


def _flow(scenario: Scenario, flow: Flow, bins: FlowSeries, total: FlowTotals) -> FlowSummary:
    life = bins.life(flow.start_s, flow.stop_s)
    loss = loss_rate(bins.lost_pkts[life], bins.delivered_pkts[life])
    rewards = metrics.rewards(bins.goodput_mbps[life], bins.rtt_ms[life], loss)
    rtt_ms = bins.rtt_ms[life & ~np.isnan(bins.rtt_ms)]
    arms = [arm for arm, alive in zip(bins.arm, life, strict=True) if alive and arm]
    return FlowSummary(
        scheme=flow.scheme,
        throughput_mbps=total.bytes_received * BYTES_TO_MBIT / (flow.stop_s - flow.start_s),
        rtt_mean_ms=float(rtt_ms.mean()) if rtt_ms.size else math.nan,
        rtt_p95_ms=metrics.histogram_quantile(total.rtt_edges_ms, total.rtt_counts, 0.95),
        base_rtt_ms=scenario.base_rtt_ms(flow),
        loss=float(loss_rate(total.lost_pkts, total.delivered_pkts)),
        retransmits=total.retransmits,
        reward=float(rewards.mean()) if rewards.size else 0.0,
        switches=total.switches,
        arm_share=metrics.arm_share(arms),
    )


def _lives(scenario: Scenario, series: Sequence[FlowSeries]) -> list[Bools]:
    return [bins.life(flow.start_s, flow.stop_s) for flow, bins in zip(scenario.flows, series, strict=True)]


def _utilisation(scenario: Scenario, series: Sequence[FlowSeries]) -> float:
    """Utilisation, over the bins of each path in which at least one of its flows was open."""
    capacity_of: dict[tuple[int, int], float] = {}
    goodput_mbps = 0.0
    for flow, bins, life in zip(scenario.flows, series, _lives(scenario, series), strict=True):
        goodput_mbps += float(np.nansum(bins.goodput_mbps[life]))
        at = [(flow.path, index) for index in _bin_index(bins.t_s[life]).tolist()]
        capacity_of.update(zip(at, bins.capacity_mbps[life].tolist(), strict=True))
    return metrics.utilisation([goodput_mbps], [sum(capacity_of.values())])


def _jain(scenario: Scenario, series: Sequence[FlowSeries], flows: Sequence[FlowSummary]) -> float:
    """Jain's index over the time in which all flows were open; without such a time, over their lives."""
    start_s = max(flow.start_s for flow in scenario.flows)
    stop_s = min(flow.stop_s for flow in scenario.flows)
    if start_s >= stop_s:
        return float(jain_index([flow.throughput_mbps for flow in flows]))
    goodputs_mbps = [float(np.nansum(bins.goodput_mbps[bins.life(start_s, stop_s)])) for bins in series]
    return float(jain_index(goodputs_mbps))


def _bin_index(t_s: Floats) -> Ints:
    return np.rint(t_s / BIN_S).astype(np.int64)


def rounded(value: object) -> object:
    """Return the value with all its floats rounded to `DECIMALS`, and None for NaN and infinity."""
    if isinstance(value, float):
        return round(value, DECIMALS) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: rounded(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item) for item in value]
    return value
