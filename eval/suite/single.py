# SPDX-License-Identifier: Apache-2.0
"""Paths with one flow: the time series of every scheme that ran there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ltp_switcher.eval.run.results import RunResult
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.run.series import FlowSeries
from ltp_switcher.eval.suite.plan import Run, is_arm


@dataclass(frozen=True, slots=True)
class SinglePath:
    """A path with one flow, and the flow's time series by scheme, one for each seed."""

    kind: str
    scenario: Scenario
    series: dict[str, list[FlowSeries]] = field(default_factory=dict)

    @property
    def arms(self) -> Mapping[str, Sequence[FlowSeries]]:
        """The series of the single arms."""
        return {scheme: of for scheme, of in self.series.items() if is_arm(scheme)}


def single_paths(made: Sequence[tuple[Run, RunResult]]) -> dict[str, SinglePath]:
    """Return the paths with one flow, by name. Runs on other paths are left out."""
    found: dict[str, SinglePath] = {}
    for run, result in made:
        scenario = result.job.scenario
        if len(scenario.flows) == 1:
            path = found.setdefault(run.path, SinglePath(run.kind, scenario))
            path.series.setdefault(run.scheme, []).extend(result.series)
    return found
