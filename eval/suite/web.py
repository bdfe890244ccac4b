# SPDX-License-Identifier: Apache-2.0
"""Scores of the suite's paths with requests: completion times, and the best single arm.

The runs of a scheme are taken together, over its seeds. A seed draws the same requests for every scheme, so
that schemes can also be compared request by request.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from ltp_switcher.eval.run.completion_times import ALL, Completions, Quantiles, by_class
from ltp_switcher.eval.run.results import RunResult
from ltp_switcher.eval.suite.plan import Run, is_arm

QUANTILES: Final = ("p50_s", "p95_s")
"""The quantiles by which schemes are judged."""


@dataclass(frozen=True, slots=True)
class WebCell:
    """The results of a scheme on a path with requests. Numbers are means over the seeds; NaN if no run has
    the number.
    """

    runs: Mapping[int, Completions]
    """The requests' completion times by seed."""
    loss: float
    """Share of the packets that were lost."""
    beside_mbps: float
    """Throughput of the flows beside the requests."""
    beside_rtt_ms: float
    """Median RTT of the flows beside the requests."""

    @property
    def classes(self) -> dict[str, Quantiles]:
        """The quantiles of all seeds together, by class of size."""
        return by_class(list(self.runs.values()))

    def value(self, quantile: str, seeds: Iterable[int]) -> float:
        """Return a quantile of the completion times of all sizes over these seeds, in seconds; NaN without a
        seed.
        """
        runs = [self.runs[seed] for seed in seeds]
        return float(getattr(by_class(runs)[ALL], quantile)) if runs else math.nan


@dataclass(frozen=True, slots=True)
class WebPath:
    """A path with requests: its cells by scheme."""

    name: str
    cells: Mapping[str, WebCell]

    @property
    def best_arm(self) -> str:
        """The arm with the smallest geometric mean of p50 and p95, over the seeds that all arms have run."""
        cells = {arm: cell for arm, cell in self.cells.items() if is_arm(arm)}
        seeds = set.intersection(*(set(cell.runs) for cell in cells.values()))
        return min(cells, key=lambda arm: math.prod(cells[arm].value(name, seeds) for name in QUANTILES))

    def ratio(self, scheme: str, other: str, quantile: str) -> float:
        """Return the ratio of a scheme's quantile to the other scheme's, over the seeds that both ran."""
        ours, theirs = self.cells[scheme], self.cells[other]
        seeds = ours.runs.keys() & theirs.runs.keys()
        return ours.value(quantile, seeds) / theirs.value(quantile, seeds)

    def paired(self, scheme: str, other: str) -> float:
        """Return the scheme's completion time over the other scheme's for the same request. It is the
        geometric mean over the requests that both completed; NaN without such a request.
        """
        ours, theirs = self.cells[scheme].runs, self.cells[other].runs
        logs = [np.log(ours[seed].took_s / theirs[seed].took_s) for seed in ours.keys() & theirs.keys()]
        joined = np.concatenate(logs) if logs else np.array([])
        joined = joined[np.isfinite(joined)]
        return math.exp(float(joined.mean())) if joined.size else math.nan

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        best, cubic = self.best_arm, "cubic" if "cubic" in self.cells else None
        return {
            "name": self.name, "best_arm": best,
            "schemes": {
                scheme: {
                    "completion": {name: asdict(of) for name, of in cell.classes.items()},
                    "over_best_arm": {q: self.ratio(scheme, best, q) for q in QUANTILES},
                    "over_cubic": {q: self.ratio(scheme, cubic, q) for q in QUANTILES} if cubic else None,
                    "paired_over_best_arm": self.paired(scheme, best),
                    "loss": cell.loss, "beside_mbps": cell.beside_mbps, "beside_rtt_ms": cell.beside_rtt_ms,
                }
                for scheme, cell in self.cells.items()
            },
        }  # fmt: skip


def web_paths(made: Iterable[tuple[Run, RunResult]]) -> list[WebPath]:
    """Return the score of each path with requests, in order of first appearance.

    Runs without requests are left out. So are videos, which are judged by how they play.
    """
    found: dict[str, dict[str, dict[int, RunResult]]] = {}
    for run, outcome in made:
        requests = run.job.scenario.requests
        if requests is not None and requests.video is None:
            found.setdefault(run.path, {}).setdefault(run.scheme, {})[run.job.seed] = outcome
    return [
        WebPath(path, {scheme: _cell(by_seed) for scheme, by_seed in schemes.items()})
        for path, schemes in found.items()
    ]


def _cell(by_seed: Mapping[int, RunResult]) -> WebCell:
    summaries = [outcome.summary.requests for outcome in by_seed.values()]
    told = [summary for summary in summaries if summary is not None]
    beside = [flow for summary in told for flow in summary.beside]
    return WebCell(
        {seed: outcome.completions() for seed, outcome in by_seed.items()},
        _mean([summary.loss for summary in told]),
        _mean([flow.throughput_mbps for flow in beside]),
        _mean([flow.rtt_p50_ms for flow in beside]),
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def table_rows(paths: Sequence[WebPath]) -> list[tuple[str, ...]]:
    """Return the rows of a table, texts in the order of `TABLE_HEAD`. The best arm of a path has a star."""
    return [
        (path.name, scheme + "*" * (scheme == path.best_arm), *_figures(path, scheme))
        for path in paths
        for scheme in path.cells
    ]


def _figures(path: WebPath, scheme: str) -> tuple[str, ...]:
    cell = path.cells[scheme]
    of = cell.classes[ALL]
    others = [path.best_arm, "cubic"]
    ratios = [
        f"{path.ratio(scheme, other, q):.2f}" if other in path.cells else ""
        for other in others
        for q in QUANTILES
    ]
    return (
        str(of.count), *(f"{value:.2f}" for value in (of.p50_s, of.p95_s, of.p99_s)), *ratios,
        f"{path.paired(scheme, path.best_arm):.2f}", f"{cell.loss:.1%}",
    )  # fmt: skip


TABLE_HEAD: Final = (
    "path", "scheme", "n", "p50 s", "p95 s", "p99 s",
    "p50\n/best", "p95\n/best", "p50\n/cubic", "p95\n/cubic", "pairs\n/best", "loss",
)  # fmt: skip
