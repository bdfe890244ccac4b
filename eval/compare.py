# SPDX-License-Identifier: Apache-2.0
"""Schemes against each other: runs over seeds, folded to a mean and a spread."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console

from ltp_switcher.eval import metrics
from ltp_switcher.eval.batch import run_batch
from ltp_switcher.eval.results import Job
from ltp_switcher.eval.summary import FlowSummary, Summary


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
    """A scheme on a scenario, over its seeds.

    All but the last four are of the first flow. Harm is what it does to the other flows, averaged
    over them (§6.4); `None` where it is alone.
    """

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
    harm_throughput: Spread | None
    harm_rtt: Spread | None

    def to_dict(self) -> dict[str, object]:
        """Return the cell as plain values for JSON."""
        return asdict(self)


Solos = Mapping[tuple[str, str, int], Sequence[FlowSummary]]
"""By scenario, first scheme and seed: the flows but the first, each as it does alone on the link."""


def compare(
    jobs: Sequence[Job], progress: Console, *, use_cache: bool, parallel: int
) -> tuple[list[Summary], list[Cell]]:
    """Run the jobs, and alone each flow that shares a link with another; return summaries and their fold.

    Raises:
        LabError, ConfigError, ArtifactError: as `run_job`.
    """
    solo_jobs = {
        job: [Job(job.scenario.alone(i), job.seed, job.kernel) for i in range(1, len(job.scenario.flows))]
        for job in jobs
    }
    every = list(dict.fromkeys([*jobs, *(solo for solos in solo_jobs.values() for solo in solos)]))
    outcomes = run_batch(
        every, progress, use_cache=use_cache, parallel=parallel,
        label=lambda job: f"{job.scenario.name} {job.scheme} #{job.seed}",
    )  # fmt: skip
    summary_of = {outcome.job: outcome.summary for outcome in outcomes}
    solos = {
        (job.scenario.name, job.scheme, job.seed): [summary_of[solo].flows[0] for solo in solo_jobs[job]]
        for job in jobs
        if solo_jobs[job]
    }
    summaries = [summary_of[job] for job in jobs]
    return summaries, fold(summaries, solos)


def fold(summaries: Iterable[Summary], solos: Solos | None = None) -> list[Cell]:
    """Group summaries by scenario, scheme and kernel, in order of first appearance; `solos` gives harm."""
    groups: dict[tuple[str, str, str], list[Summary]] = {}
    for summary in summaries:
        groups.setdefault((summary.scenario, summary.scheme, summary.kernel), []).append(summary)
    return [_cell(key, runs, solos or {}) for key, runs in groups.items()]


def _cell(key: tuple[str, str, str], runs: Sequence[Summary], solos: Solos) -> Cell:
    harms = [
        _harm(run, solos[run.scenario, run.scheme, run.seed])
        for run in runs
        if (run.scenario, run.scheme, run.seed) in solos
    ]
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
        harm_throughput=Spread.of([throughput for throughput, _ in harms]) if harms else None,
        harm_rtt=Spread.of([rtt for _, rtt in harms]) if harms else None,
    )


def _harm(run: Summary, alone: Sequence[FlowSummary]) -> tuple[float, float]:
    """Mean harm of the first flow to the others' throughput and RTT, 0..1."""
    pairs = list(zip(alone, run.flows[1:], strict=True))
    throughput = [metrics.harm_more_is_better(a.throughput_mbps, b.throughput_mbps) for a, b in pairs]
    rtt = [metrics.harm_less_is_better(a.rtt_mean_ms, b.rtt_mean_ms) for a, b in pairs]
    return statistics.fmean(throughput), statistics.fmean(rtt)
