# SPDX-License-Identifier: Apache-2.0
"""Comparison of schemes: runs over seeds, summarised by mean and spread."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from rich.console import Console

from ltp_switcher.eval.run import metrics
from ltp_switcher.eval.run.batch import run_batch
from ltp_switcher.eval.run.executor import Executor
from ltp_switcher.eval.run.results import Job, RunResult
from ltp_switcher.eval.run.series import FlowSeries
from ltp_switcher.eval.run.summary import Summary


@dataclass(frozen=True, slots=True)
class Spread:
    """Mean and sample standard deviation, which is 0 for a single value."""

    mean: float
    sd: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        return cls(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0)


@dataclass(frozen=True, slots=True)
class Cell:
    """A scheme on a scenario, over its seeds.

    All fields except the last four describe the first flow. Harm is the first flow's effect on the other
    flows, averaged over them (Mutant §6.4). It is `None` if the flow is alone.
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


Harm = tuple[float, float]
"""The harm that a run's first flow does to the other flows, from 0 (none) to 1: to their throughput, and to
their RTT (Mutant §6.4). A harm of 0.4 to throughput means that they have 40 % less than alone on the link.
"""


def compare(
    jobs: Sequence[Job], progress: Console, *, use_cache: bool, executor: Executor
) -> tuple[list[Summary], list[Cell]]:
    """Run the jobs. Run each flow beside a job's first flow once more, alone on the link. Return the jobs'
    summaries, and their cells from `fold`.

    Raises:
        LabError, ConfigError, ArtifactError, ClusterError: a run failed; see `run_batch`.
    """
    solo_jobs = {
        job: [replace(job, scenario=job.scenario.alone(i)) for i in range(1, len(job.scenario.flows))]
        for job in jobs
    }
    every = list(dict.fromkeys([*jobs, *(solo for solos in solo_jobs.values() for solo in solos)]))
    outcomes = run_batch(
        every, progress, use_cache=use_cache, executor=executor,
        label=lambda job: f"{job.scenario.name} {job.scheme} #{job.seed}",
    )  # fmt: skip
    outcome_of = {outcome.job: outcome for outcome in outcomes}
    summaries, harms = [], []
    for job in jobs:
        summaries.append(outcome_of[job].summary)
        harms.append(harm(outcome_of[job], [outcome_of[solo] for solo in solo_jobs[job]]))
    return summaries, fold(summaries, harms)


def fold(summaries: Sequence[Summary], harms: Sequence[Harm | None] | None = None) -> list[Cell]:
    """Return a cell for each scenario, scheme and kernel, with means over the seeds. Cells are in order of
    first appearance. The argument `harms` has the harm of each summary's run; None if there were no other
    flows.
    """
    groups: dict[tuple[str, str, str], list[tuple[Summary, Harm | None]]] = {}
    for summary, harm in zip(summaries, harms or [None] * len(summaries), strict=True):
        groups.setdefault((summary.scenario, summary.scheme, summary.kernel), []).append((summary, harm))
    return [
        _cell(key, [run for run, _ in rows], [harm for _, harm in rows if harm is not None])
        for key, rows in groups.items()
    ]


def _cell(key: tuple[str, str, str], runs: Sequence[Summary], harms: Sequence[Harm]) -> Cell:
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


def harm(run: RunResult, solos: Sequence[RunResult]) -> Harm | None:
    """Return the harm of a run's first flow to its other flows: by how much their throughput and RTT are
    worse than alone on the link, as means over these flows. None if no other flow is open beside it.

    Only the time in which the first flow is open counts. Otherwise a flow that starves the others for half of
    their lives would have half the harm.

    Args:
        run: the run with all its flows.
        solos: a run for each of the other flows, in their order, in which it has the link for itself.
    """
    first, *others = run.job.scenario.flows
    throughput, rtt = [], []
    for other, shared, solo in zip(others, run.series[1:], solos, strict=True):
        begin_s, end_s = max(first.start_s, other.start_s), min(first.stop_s, other.stop_s)
        if not shared.life(begin_s, end_s).any():
            continue
        (alone,) = solo.series
        (alone_mbps, alone_ms), (shared_mbps, shared_ms) = (
            _means(series, begin_s, end_s) for series in (alone, shared)
        )
        throughput.append(metrics.harm_more_is_better(alone_mbps, shared_mbps))
        rtt.append(metrics.harm_less_is_better(alone_ms, shared_ms))
    return (statistics.fmean(throughput), statistics.fmean(rtt)) if throughput else None


def _means(flow: FlowSeries, begin_s: float, end_s: float) -> tuple[float, float]:
    """A flow's goodput in Mbit/s and RTT in ms between two times; 0 where there is nothing."""
    life = flow.life(begin_s, end_s)
    goodput_mbps, rtt_ms = np.nan_to_num(flow.goodput_mbps[life]), flow.rtt_ms[life]
    known_ms = rtt_ms[~np.isnan(rtt_ms)]
    return (
        float(goodput_mbps.mean()) if goodput_mbps.size else 0.0,
        float(known_ms.mean()) if known_ms.size else 0.0,
    )
