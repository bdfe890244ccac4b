# SPDX-License-Identifier: Apache-2.0
"""Pictures of a comparison: throughput against delay, and rewards."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse, Patch

from ltp_switcher.eval.report.compare import Cell
from ltp_switcher.eval.report.drawing import GREY, picture
from ltp_switcher.eval.run.style import colour, marker


def draw_throughput_delay(path: Path, cells: Sequence[Cell]) -> None:
    """Draw throughput against RTT as in Mutant's Fig. 4, one panel for each scenario.

    A point is a scheme's mean over the seeds. The ellipse's half axes are one standard deviation.
    """
    scenarios = list(dict.fromkeys(cell.scenario for cell in cells))
    columns = min(3, len(scenarios))
    rows = math.ceil(len(scenarios) / columns)
    with picture(path, 1.4 + 4.2 * columns, 0.8 + 3.6 * rows) as figure:
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes, scenario in zip(grid.flat, scenarios, strict=False):
            _draw_points(axes, [cell for cell in cells if cell.scenario == scenario])
            axes.set(title=scenario, xlabel="mean RTT (ms)", ylabel="throughput (Mbit/s)")
        for axes in grid.flat[len(scenarios) :]:
            axes.set_visible(False)
        schemes = dict.fromkeys(cell.scheme for cell in cells)
        _legend(figure, (_point(scheme, [], []) for scheme in schemes))


def _draw_points(axes: Axes, cells: Sequence[Cell]) -> None:
    """Draw a scenario's schemes; up and right is better."""
    for cell in cells:
        x, y = cell.rtt_mean_ms, cell.throughput_mbps
        axes.add_patch(
            Ellipse((x.mean, y.mean), 2 * x.sd, 2 * y.sd, facecolor=colour(cell.scheme), alpha=0.3)
        )
        axes.add_line(_point(cell.scheme, [x.mean], [y.mean]))
    axes.margins(0.15)
    axes.autoscale_view()
    axes.locator_params(axis="x", nbins=5)
    axes.invert_xaxis()
    axes.annotate(
        "better", (0.99, 0.99), (0.86, 0.86), xycoords="axes fraction", color=GREY, ha="center", va="center",
        arrowprops={"arrowstyle": "->", "color": GREY},
    )  # fmt: skip


def _point(scheme: str, x: Sequence[float], y: Sequence[float]) -> Line2D:
    return Line2D(
        x, y, color=colour(scheme), marker=marker(scheme), markersize=12 if scheme == "switcher" else 7,
        linestyle="none", label=scheme,
    )  # fmt: skip


def draw_rewards(path: Path, cells: Sequence[Cell]) -> None:
    """Draw each scheme's reward as a share of the scenario's best reward. Error lines are one standard
    deviation.
    """
    scenarios = list(dict.fromkeys(cell.scenario for cell in cells))
    schemes = list(dict.fromkeys(cell.scheme for cell in cells))
    best = {name: max(cell.reward.mean for cell in cells if cell.scenario == name) for name in scenarios}
    with picture(path, max(6.4, 1.6 + 0.24 * len(scenarios) * len(schemes)), 4.2) as figure:
        axes = figure.subplots()
        draw_groups(axes, [_share_bar(cell, best[cell.scenario] or 1.0) for cell in cells])
        axes.set(ylabel="reward (Eq. 1), share of the best", ylim=(0, 1.1))
        name_schemes(figure, schemes)


def _share_bar(cell: Cell, scale: float) -> Bar:
    mean, sd = cell.reward.mean / scale, cell.reward.sd / scale
    return Bar(cell.scenario, cell.scheme, mean, (mean - sd, mean + sd) if sd else None)


@dataclass(frozen=True, slots=True)
class Bar:
    """A scheme's bar in a group of bars."""

    group: str
    scheme: str
    height: float
    line: tuple[float, float] | None = None
    """The lower and the upper end of the error line, in the unit of the height; None without a line."""


def draw_groups(axes: Axes, bars: Sequence[Bar]) -> None:
    """Draw bars side by side in groups, in order of first appearance; group n is at x = n."""
    groups = list(dict.fromkeys(bar.group for bar in bars))
    schemes = list(dict.fromkeys(bar.scheme for bar in bars))
    width = 0.84 / len(schemes)
    for bar in bars:
        at = groups.index(bar.group) + (schemes.index(bar.scheme) - (len(schemes) - 1) / 2) * width
        line = None if bar.line is None else [[bar.height - bar.line[0]], [bar.line[1] - bar.height]]
        axes.bar(
            at, bar.height, width * 0.92, color=colour(bar.scheme),
            yerr=line, error_kw={"linewidth": 0.9, "ecolor": GREY},
        )  # fmt: skip
    axes.set_xticks(range(len(groups)), groups)
    axes.set(xlim=(-0.5, len(groups) - 0.5))


def name_schemes(figure: Figure, schemes: Iterable[str], *others: Line2D) -> None:
    """Write the legend of `draw_groups`, and of other lines, beside the figure."""
    _legend(figure, (*(Patch(color=colour(scheme), label=scheme) for scheme in schemes), *others))


def _legend(figure: Figure, handles: Iterable[Line2D | Patch]) -> None:
    figure.legend(handles=list(handles), loc="outside right center")
