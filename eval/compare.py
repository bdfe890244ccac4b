# SPDX-License-Identifier: Apache-2.0
"""Schemes against each other: runs over seeds, folded to a mean and a spread."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

from ltp_switcher.eval.summary import Summary


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and sample standard deviation (0 of a single value)."""

    mean: float
    sd: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0)


@dataclass(frozen=True, slots=True)
class Cell:
    """A scheme on a scenario, over its seeds. All but `utilisation` and `jain` are of the first flow."""

    scenario: str
    scheme: str
    kernel: str
    seeds: tuple[int, ...]
    throughput_mbps: Spread
    rtt_mean_ms: Spread
    rtt_p95_ms: Spread
    loss: Spread
    reward: Spread
    switches: Spread
    utilisation: Spread
    jain: Spread

    def to_dict(self) -> dict[str, object]:
        """Return the cell as plain values for JSON."""
        return asdict(self)


def fold(summaries: Iterable[Summary]) -> list[Cell]:
    """Group summaries by scenario, scheme and kernel, in order of first appearance."""
    groups: dict[tuple[str, str, str], list[Summary]] = {}
    for summary in summaries:
        groups.setdefault((summary.scenario, summary.scheme, summary.kernel), []).append(summary)
    return [_cell(key, runs) for key, runs in groups.items()]


def _cell(key: tuple[str, str, str], runs: Sequence[Summary]) -> Cell:
    flows = [run.flows[0] for run in runs]
    return Cell(
        *key,
        seeds=tuple(run.seed for run in runs),
        throughput_mbps=Spread.of([flow.throughput_mbps for flow in flows]),
        rtt_mean_ms=Spread.of([flow.rtt_mean_ms for flow in flows]),
        rtt_p95_ms=Spread.of([flow.rtt_p95_ms for flow in flows]),
        loss=Spread.of([flow.loss for flow in flows]),
        reward=Spread.of([flow.reward for flow in flows]),
        switches=Spread.of([flow.switches for flow in flows]),
        utilisation=Spread.of([run.utilisation for run in runs]),
        jain=Spread.of([run.jain for run in runs]),
    )
