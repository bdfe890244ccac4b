# SPDX-License-Identifier: Apache-2.0
"""Harm of a scheme to the flow beside it, on the paths that have one (Mutant §6.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Final

from ltp_switcher.eval.report.compare import harm
from ltp_switcher.eval.run.results import Job, RunResult
from ltp_switcher.eval.suite.plan import Run

TABLE_HEAD: Final = ("path", "scheme", "harm to throughput", "more than its own", "harm to RTT")
_BESIDE: Final = "beside-"


@dataclass(frozen=True, slots=True)
class Harm:
    """A scheme's mean harm to the flow beside it, over its seeds, 0 to 1."""

    path: str
    scheme: str
    throughput: float
    rtt: float
    own: float | None
    """The harm to throughput that the other flow suffers beside a flow of its own protocol; None without that
    run.
    """


def alone(run: Run) -> list[Job]:
    """Return one job for each flow but the first, in which that flow has the link for itself. The list is
    empty for a path that measures no harm.
    """
    job = run.job
    if not run.path.startswith(_BESIDE):
        return []
    return [replace(job, scenario=job.scenario.alone(i)) for i in range(1, len(job.scenario.flows))]


def harms(made: Sequence[tuple[Run, RunResult]], by_job: Mapping[Job, RunResult]) -> list[Harm]:
    """Return the harm of each scheme on each path.

    Args:
        made: the runs. Runs that are not about harm are skipped.
        by_job: the results, including the results of the jobs of `alone`.
    """
    found: dict[tuple[str, str], list[tuple[float, float]]] = {}
    others: dict[str, str] = {}
    for run, outcome in made:
        solos = [by_job[job] for job in alone(run)]
        of = harm(outcome, solos) if solos else None
        if of is not None:
            found.setdefault((run.path, run.scheme), []).append(of)
            others[run.path] = run.job.scenario.flows[1].scheme
    throughput = {key: fmean(one for one, _ in of) for key, of in found.items()}
    return [
        Harm(
            path, scheme, throughput[path, scheme], fmean(one for _, one in of),
            throughput.get((path, others[path])),
        )
        for (path, scheme), of in found.items()
    ]  # fmt: skip


def table_rows(found: Sequence[Harm]) -> list[tuple[str, ...]]:
    """Return the rows of a table under `TABLE_HEAD`, one for each harm."""
    return [
        (
            one.path, one.scheme, f"{one.throughput:.3f}",
            "" if one.own is None else f"{one.throughput - one.own:+.3f}", f"{one.rtt:.3f}",
        )
        for one in found
    ]  # fmt: skip
