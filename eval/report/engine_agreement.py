# SPDX-License-Identifier: Apache-2.0
"""Measures how far the lab and mahimahi agree: the same paths and schemes run in both.

A run in the lab is deterministic, so one seed is enough. Mahimahi's runs differ, so they are repeated.
Mahimahi's link sends packets only at whole milliseconds. To separate this difference from all others, the lab
also runs each rate as a trace of mahimahi's link.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.mahimahi.path import shell_path, with_whole_delays
from ltp_switcher.eval.mahimahi.run import as_emulated
from ltp_switcher.eval.run.batch import run_batch
from ltp_switcher.eval.run.executor import Here
from ltp_switcher.eval.run.results import Job
from ltp_switcher.eval.run.scenario import LIFE_MIN_S, Scenario
from ltp_switcher.eval.run.summary import FlowSummary
from ltp_switcher.figures import Estimate

SCENARIOS: Final = ("fixed", "large-queue", "lossy", "cellular-tmobile-lte")
SCHEMES: Final = ("cubic", "bbr")
MEASURES: Final = {
    "throughput_mbps": "goodput\nMbit/s",
    "rtt_mean_ms": "mean RTT\nms",
    "rtt_p95_ms": "p95 RTT\nms",
    "loss": "loss\n%",
    "reward": "reward\nEq. 1",
}
"""Fields of a flow's summary, and their names in the table."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """One measure of a scheme's first flow on one path, in the lab and through mahimahi. Units are as in
    `FlowSummary`.

    `lab_ms` is the lab's value if packets leave at whole milliseconds, as with a trace.
    """

    scenario: str
    scheme: str
    measure: str
    lab: Estimate
    lab_ms: Estimate
    mahimahi: Estimate

    @property
    def ratio(self) -> float:
        """Mahimahi's mean divided by the lab's; NaN if the lab's is 0."""
        return self.mahimahi.mean / self.lab.mean if self.lab.mean else float("nan")

    @property
    def ratio_ms(self) -> float:
        """Mahimahi's mean divided by the mean of `lab_ms`; NaN if the mean of `lab_ms` is 0."""
        return self.mahimahi.mean / self.lab_ms.mean if self.lab_ms.mean else float("nan")

    @property
    def overlap(self) -> bool:
        """Whether mahimahi's interval overlaps the interval of `lab_ms`. A single value of `lab_ms` is an
        interval without width.
        """
        lab_half = 0.0 if math.isnan(self.lab_ms.half) else self.lab_ms.half
        return abs(self.mahimahi.mean - self.lab_ms.mean) <= self.mahimahi.half + lab_half

    def to_dict(self) -> dict[str, object]:
        """Return plain values for JSON."""
        return {**asdict(self), "ratio": self.ratio, "ratio_ms": self.ratio_ms, "overlap": self.overlap}


def shortened(scenario: Scenario, duration_s: float) -> Scenario:
    """Return the first `duration_s` seconds of the scenario. Steps after them are left out, and so are flows
    that would live no longer than `LIFE_MIN_S`.

    Raises:
        ConfigError: no flow starts in the first seconds.
    """
    flows = tuple(
        replace(flow, stop_s=min(flow.stop_s, duration_s))
        for flow in scenario.flows
        if flow.start_s < duration_s - LIFE_MIN_S
    )
    if not flows:
        raise ConfigError("--seconds", duration_s, f"a time after the start of a flow of {scenario.name}")
    steps = tuple(step for step in scenario.link.steps if step.at_s < duration_s)
    return replace(scenario, duration_s=duration_s, flows=flows, link=replace(scenario.link, steps=steps))


def at_whole_ms(scenario: Scenario, folder: Path) -> Scenario:
    """Return the scenario with a trace in place of its rate. The trace is mahimahi's for this rate, in a file
    in `folder`.
    """
    if scenario.link.trace is not None:
        return scenario
    path, end_ms = shell_path(scenario), round(scenario.duration_s * 1e3)
    at_ms = path.up_ms[(path.up_ms > path.lead_ms) & (path.up_ms <= path.lead_ms + end_ms)] - path.lead_ms
    folder.mkdir(parents=True, exist_ok=True)
    file = (folder / f"{scenario.name}.down").resolve()
    # The file's last line is the time after which a trace repeats.
    last = [] if at_ms[-1] == end_ms else [end_ms]
    file.write_text("".join(f"{ms}\n" for ms in [*at_ms.tolist(), *last]))
    return replace(scenario, link=replace(scenario.link, rate_mbps=None, trace=str(file), steps=()))


def measure_agreement(
    scenarios: Sequence[Scenario],
    schemes: Sequence[str],
    seeds: Sequence[int],
    repeats: int,
    folder: Path,
    progress: Console,
    *,
    kernel: str,
    use_cache: bool,
) -> list[Agreement]:
    """Run each scheme on each scenario: in the lab with each seed, through mahimahi `repeats` times.

    The lab takes traces in place of rates. These traces are written into `folder`.

    Raises:
        ConfigError: mahimahi cannot run a scenario.
        EmulationError, LabError: a run failed.
    """
    paths = [with_whole_delays(scenario).with_scheme(scheme) for scenario in scenarios for scheme in schemes]
    for path in paths:
        as_emulated(path)
    own_seeds = list(range(1, repeats + 1))
    ways = {
        "lab": [Job(path, seed, kernel) for path in paths for seed in seeds],
        "lab_ms": [Job(at_whole_ms(path, folder), seed, kernel) for path in paths for seed in seeds],
        "mahimahi": [Job(path, seed, kernel, "mahimahi") for path in paths for seed in own_seeds],
    }
    found: dict[str, list[FlowSummary]] = {}
    for way, jobs in ways.items():
        outcomes = run_batch(
            jobs, progress, use_cache=use_cache, executor=Here(1 if way == "mahimahi" else None),
            label=lambda job: f"{job.engine} {job.scenario.name} {job.scheme} {job.seed}",
        )  # fmt: skip
        found[way] = [outcome.summary.flows[0] for outcome in outcomes]
    rows = []
    for index, path in enumerate(paths):
        own = {
            way: flows[index * len(flows) // len(paths) : (index + 1) * len(flows) // len(paths)]
            for way, flows in found.items()
        }
        for measure in MEASURES:
            each = {
                way: Estimate.of([float(getattr(flow, measure)) for flow in flows])
                for way, flows in own.items()
            }
            rows.append(Agreement(path.name, path.scheme, measure, **each))
    return rows


def agreement_table(rows: Sequence[Agreement], repeats: int) -> Table:
    """Return a table with three rows for each path and scheme. The rows are the lab, the lab at whole ms, and
    mahimahi with its interval.
    """
    table = Table(
        title=f"The lab, and mahimahi's mean of {repeats} runs ± half of its 95 % interval",
        title_justify="left", box=None, pad_edge=False,
    )  # fmt: skip
    table.add_column("path")
    for name in ("scheme", "engine"):
        table.add_column(name, no_wrap=True)
    for name in MEASURES.values():
        table.add_column(name, justify="right", no_wrap=True)
    cells = {(row.scenario, row.scheme, row.measure): row for row in rows}
    for scenario, scheme in dict.fromkeys((row.scenario, row.scheme) for row in rows):
        own = [cells[scenario, scheme, measure] for measure in MEASURES]
        table.add_row(scenario, scheme, "lab", *(_text(row, row.lab) for row in own))
        table.add_row("", "", "lab, ms", *(_text(row, row.lab_ms) for row in own))
        table.add_row("", "", "mahimahi", *(_text(row, row.mahimahi) for row in own))
    return table


def _text(row: Agreement, of: Estimate) -> str:
    scale = 100.0 if row.measure == "loss" else 1.0
    decimals = 2 if row.measure == "loss" or row.lab.mean < 10 else 1
    text = f"{scale * of.mean:.{decimals}f}"
    return text if math.isnan(of.half) else f"{text}±{scale * of.half:.{decimals}f}"


def draw_agreement(path: Path, rows: Sequence[Agreement]) -> None:
    """Draw the ratio of mahimahi's mean to the lab's at whole ms, for each measure except loss. A line shows
    the ratio's interval.
    """
    from ltp_switcher.eval.report.drawing import GREY, headline, picture
    from ltp_switcher.eval.run.style import colour

    shown = [row for row in rows if row.measure != "loss"]
    labels = list(dict.fromkeys(f"{row.scenario}, {row.scheme}" for row in shown))
    measures = [measure for measure in MEASURES if measure != "loss"]
    with picture(path, 9.6, 1.8 + 0.36 * len(labels)) as figure:
        panels = figure.subplots(1, len(measures), sharey=True, squeeze=False)[0]
        for axes, measure in zip(panels, measures, strict=True):
            axes.axvline(1.0, color=GREY, linewidth=0.8)
            for row in (row for row in shown if row.measure == measure):
                at = labels.index(f"{row.scenario}, {row.scheme}")
                bar = None if np.isnan(row.mahimahi.half) else row.mahimahi.half / row.lab_ms.mean
                axes.errorbar(row.ratio_ms, at, xerr=bar, color=colour(row.scheme), fmt="o", markersize=5)
            axes.set_xlabel(MEASURES[measure].splitlines()[0])
            axes.margins(x=0.25)
        panels[0].set_yticks(range(len(labels)), labels)
        panels[0].invert_yaxis()
        headline(
            figure,
            "Mahimahi over the lab",
            "Ratio of means of one flow, both at whole milliseconds; 1: they agree.",
        )
