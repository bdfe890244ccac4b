# SPDX-License-Identifier: Apache-2.0
"""The figures of traffic as tables and as a picture."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from rich.table import Table

from ltp_switcher.eval.report.comparison_pictures import Bar, draw_groups, name_schemes
from ltp_switcher.eval.report.drawing import GREY, headline, picture
from ltp_switcher.eval.report.traffic_flows import CLASSES
from ltp_switcher.eval.report.traffic_results import Figures
from ltp_switcher.eval.suite.score import Mean

_SIZE_IN: Final = (12.0, 9.0)


def tables(figures: Figures) -> Iterator[Table]:
    """Return the tables: completion times by class, and rewards by path."""
    yield _times(figures)
    yield _rewards(figures)


def plain_table(title: str, *heads: str) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for number, head in enumerate(heads):
        table.add_column(head, no_wrap=True, justify="right" if number > 1 else "left")
    return table


def _times(figures: Figures) -> Table:
    table = plain_table(
        f"Completion times, s; over {figures.reference} for the same flow",
        "size", "scheme", "flows", "p50", "p95", "p99", "over", "interval",
    )  # fmt: skip
    for name in CLASSES:
        for scheme, of in figures.schemes.items():
            if name in of.completion:
                times = of.completion[name]
                quantiles = (f"{value:.3f}" for value in (times.p50_s, times.p95_s, times.p99_s))
                table.add_row(name, scheme, str(times.count), *quantiles, *_mean(of.times[name]))
    return table


def _rewards(figures: Figures) -> Table:
    table = plain_table(
        f"Rewards over those of {figures.reference}",
        "path", "best arm", *figures.schemes,
    )  # fmt: skip
    for path in figures.traffics.paths:
        values = (number(math.exp(of.value[path])) for of in figures.schemes.values())
        table.add_row(path, figures.oracle.get(path, "-"), *values)
    table.add_row("all, geometric mean", "", *(_mean(of.reward)[0] for of in figures.schemes.values()))
    table.add_row("interval", "", *(_mean(of.reward)[1] for of in figures.schemes.values()))
    table.add_row("retransmits", "", *(number(of.retransmits, "%") for of in figures.schemes.values()))
    table.add_row("RTT, ms", "", *(number(of.rtt_ms, "ms") for of in figures.schemes.values()))
    table.add_row("unfinished", "", *(str(of.unfinished) for of in figures.schemes.values()))
    table.add_row("not told of", "", *(str(of.untold) for of in figures.schemes.values()))
    return table


def _mean(mean: Mean | None) -> tuple[str, str]:
    return ("-", "") if mean is None else (f"{mean.value:.3f}", f"{mean.low:.3f} to {mean.high:.3f}")


def number(value: float, unit: str = "") -> str:
    if math.isnan(value):
        return "-"
    return {"%": f"{value:.2%}", "ms": f"{value:.1f}"}.get(unit, f"{value:.3f}")


def draw_traffic(path: Path, figures: Figures) -> None:
    """Draw completion times by class and rewards by path, both relative to the reference scheme's."""
    schemes = list(figures.schemes)
    by_size = [
        Bar(name, scheme, mean.value)
        for name in CLASSES
        for scheme in schemes
        if (mean := figures.schemes[scheme].times[name]) is not None
    ]
    by_path = [
        Bar(name, scheme, math.exp(value))
        for name in figures.traffics.paths
        for scheme in schemes
        if not math.isnan(value := figures.schemes[scheme].value[name])
    ]
    with picture(path, *_SIZE_IN) as figure:
        times, rewards = figure.subplots(2, 1)
        seeds = ", ".join(f"seed {seed}" for seed in figures.scored)
        headline(
            figure,
            f"Traffic over {len(figures.traffics.paths)} paths, compared with {figures.reference}",
            f"Completion time over that of {figures.reference} for the same flow, by size (lower is better); "
            f"{seeds}",
        )
        rewards.set_title(
            f"Reward over that of {figures.reference}, by path (higher is better)", loc="left", color=GREY
        )
        for axes, bars in ((times, by_size), (rewards, by_path)):
            if bars:
                draw_groups(axes, bars)
            axes.axhline(1.0, color=GREY, linewidth=1.0, linestyle=":", zorder=0)
        name_schemes(figure, schemes)
