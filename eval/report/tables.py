# SPDX-License-Identifier: Apache-2.0
"""Results as tables for people, and runs as CSV for spreadsheets."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from rich.markup import escape
from rich.table import Table

from ltp_switcher.eval.report.compare import Cell, Spread
from ltp_switcher.eval.run.completion_times import RequestSummary
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.run.summary import FlowSummary, Summary
from ltp_switcher.eval.run.trace_files import RecordedTrace

_MEASURES: Final = ("goodput\nMbit/s", "mean RTT\nms", "p95 RTT\nms", "loss\n%", "reward\nEq. 1")

_ARMS_SHOWN: Final = 3


def summary_table(summary: Summary) -> Table:
    """Return a table of one run, with a row for each flow."""
    table = _table(
        f"{summary.scenario}, seed {summary.seed}, Linux {summary.kernel}: "
        f"utilisation {summary.utilisation:.1%}, Jain {summary.jain:.3f}, {summary.wall_s:.0f} s"
    )
    for flow in summary.flows:
        table.add_row(*_flow_cells(flow))
    return table


def requests_table(summary: Summary, requests: RequestSummary) -> Table:
    """Return a table of one run with requests, with a row for each class of sizes."""
    table = Table(
        title=escape(
            f"{summary.scenario}, {requests.scheme}, seed {summary.seed}, Linux {summary.kernel}: "
            f"{requests.kind}, {requests.megabytes:.1f} MB, loss {requests.loss:.2%}, "
            f"{requests.unfinished} unfinished, utilisation {summary.utilisation:.1%}"
        ),
        title_justify="left", box=None, pad_edge=False,
    )  # fmt: skip
    table.add_column("size", no_wrap=True)
    for name in ("number", "p50 s", "p95 s", "p99 s"):
        table.add_column(name, justify="right")
    for name, of in requests.completion.items():
        table.add_row(name, str(of.count), *(f"{value:.3f}" for value in (of.p50_s, of.p95_s, of.p99_s)))
    if requests.video is not None:
        video = requests.video
        played = (
            f"bitrate {video.mean_mbps:.2f} Mbit/s; began after {video.startup_s:.1f} s; stood still for "
            f"{video.rebuffer_s:.1f} s, {video.rebuffer_share:.1%} of the time"
        )
        table.add_row(played)
    for flow in requests.beside:
        beside = f"beside: {flow.scheme}, {flow.throughput_mbps:.1f} Mbit/s at {flow.rtt_p50_ms:.0f} ms"
        table.add_row(escape(beside))
    return table


def _table(title: str) -> Table:
    table = Table(title=escape(title), title_justify="left", box=None, pad_edge=False)
    table.add_column("scheme", no_wrap=True)
    for name in (*_MEASURES, "switches\n"):
        table.add_column(name, justify="right")
    table.add_column("arms\nshare of time")
    return table


def _flow_cells(flow: FlowSummary) -> list[str]:
    return [
        flow.scheme,
        f"{flow.throughput_mbps:.2f}",
        number(flow.rtt_mean_ms, 1),
        number(flow.rtt_p95_ms, 1),
        f"{100 * flow.loss:.2f}",
        f"{flow.reward:.3f}",
        str(flow.switches),
        arms_text(flow.arm_share),
    ]


def arms_text(arm_share: Mapping[str, float]) -> str:
    """Return the arms that a flow ran longest, with their shares of the time. The text is empty for a single
    protocol.
    """
    if len(arm_share) < 2:
        return ""
    first = [f"{arm} {share:.0%}" for arm, share in list(arm_share.items())[:_ARMS_SHOWN]]
    more = len(arm_share) - len(first)
    return ", ".join(first) + (f", {more} more" if more else "")


def number(value: float, decimals: int) -> str:
    """Return a number as text, or an empty text for a missing value."""
    return "" if math.isnan(value) else f"{value:.{decimals}f}"


def cells_table(cells: Sequence[Cell]) -> Table:
    """Return a table of schemes on scenarios, with the mean and standard deviation over seeds. The row with
    each scenario's best reward is bold.
    """
    table = Table(box=None, pad_edge=False)
    table.add_column("scenario", no_wrap=True)
    table.add_column("scheme", no_wrap=True)
    harm = ("harm to\nthroughput", "harm to\nRTT") if any(cell.harm_throughput for cell in cells) else ()
    for name in (*_MEASURES, "utilisation\n%", "Jain\n", *harm):
        table.add_column(name, justify="right")
    for i, cell in enumerate(cells):
        best = max(other.reward.mean for other in cells if other.scenario == cell.scenario)
        new = i == 0 or cells[i - 1].scenario != cell.scenario
        table.add_row(
            escape(cell.scenario) if new else "",
            cell.scheme,
            _spread(cell.throughput_mbps, 2),
            _spread(cell.rtt_mean_ms, 1),
            _spread(cell.rtt_p95_ms, 1),
            _spread(cell.loss, 2, factor=100),
            _spread(cell.reward, 3),
            _spread(cell.utilisation, 1, factor=100),
            _spread(cell.jain, 3),
            *(
                _spread(spread, 3) if spread else ""
                for spread in (cell.harm_throughput, cell.harm_rtt)
                if harm
            ),
            style="bold" if cell.reward.mean == best else None,
            end_section=i + 1 < len(cells) and cells[i + 1].scenario != cell.scenario,
        )
    return table


def scenarios_table(scenarios: Mapping[str, Scenario]) -> Table:
    """Return a table of the scenarios by name, with their links, steps and flows."""
    table = Table(box=None, pad_edge=False)
    # People copy names, so names stay whole even on a narrow terminal.
    table.add_column("scenario", no_wrap=True, min_width=max(map(len, scenarios), default=0))
    for name in ("seconds", "link", "RTT ms", "buffer", "loss", "steps", "flows"):
        table.add_column(name, overflow="fold", justify="left" if name == "link" else "right")
    for name, scenario in scenarios.items():
        link = scenario.link
        table.add_row(
            escape(name), f"{scenario.duration_s:g}",
            _link_text(scenario), f"{link.rtt_ms:g}",
            f"{link.buffer_pkts} pkt" if link.buffer_pkts is not None else f"{link.buffer_bdp:g} BDP",
            f"{100 * link.loss:g} %", str(len(link.steps)), str(len(scenario.flows)),
        )  # fmt: skip
    return table


def _link_text(scenario: Scenario) -> str:
    """The rate or the trace of the link, or of the first path with the number of the others."""
    link = scenario.link
    text = escape(link.trace) if link.trace else f"{link.rate_mbps:g} Mbit/s"
    return f"{text} and {len(scenario.paths) - 1} more paths" if len(scenario.paths) > 1 else text


def traces_table(folder: Path, traces: Sequence[RecordedTrace]) -> Table:
    """Return a table of the recorded traces of a folder, with their lengths and mean rates."""
    table = Table(title=escape(str(folder)), title_justify="left", box=None, pad_edge=False)
    table.add_column("trace", no_wrap=True)
    for name in ("seconds", "Mbit/s"):
        table.add_column(name, justify="right")
    for trace in traces:
        table.add_row(escape(trace.name), f"{trace.duration_s:.0f}", f"{trace.mean_mbps:.1f}")
    return table


def _spread(spread: Spread | None, decimals: int, factor: float = 1.0) -> str:
    if spread is None:
        return ""
    text = number(factor * spread.mean, decimals)
    return f"{text} ±{factor * spread.sd:.{decimals}f}" if spread.sd > 0 else text


def summaries_csv(summaries: Sequence[Summary]) -> str:
    """Return the runs as CSV, with a row for each flow of each run."""
    text = io.StringIO()
    columns = (
        "scenario", "kernel", "seed", "flow", "scheme", "throughput_mbps", "rtt_mean_ms", "rtt_p95_ms",
        "base_rtt_ms", "loss", "retransmits", "reward", "switches", "utilisation", "jain", "wall_s",
    )  # fmt: skip
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for run in summaries:
        for i, flow in enumerate(run.flows):
            values = (
                run.scenario, run.kernel, run.seed, i, flow.scheme, flow.throughput_mbps, flow.rtt_mean_ms,
                flow.rtt_p95_ms, flow.base_rtt_ms, flow.loss, flow.retransmits, flow.reward, flow.switches,
                run.utilisation, run.jain, run.wall_s,
            )  # fmt: skip
            writer.writerow([f"{value:.6g}" if isinstance(value, float) else value for value in values])
    return text.getvalue()
