# SPDX-License-Identifier: Apache-2.0
"""The pictures. Every axis has its unit; colours are those of `style`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Ellipse, Patch

from ltp_switcher.eval.report.compare import Cell
from ltp_switcher.eval.report.style import colour, marker
from ltp_switcher.eval.run.metrics import arm_share
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.run.series import BIN_S, FloatArray, FlowSeries

DPI: Final = 150

_DASHES: Final = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))


def draw_timeline(path: Path, scenario: Scenario, flows: Sequence[FlowSeries]) -> None:
    """Draw throughput, RTT and active arm over time; the first flow stands out, the others are thin.

    The flows are those of runs of one scenario: the same link, one flow each.
    """
    first = flows[0]
    lanes = list(reversed(arm_share([arm for arm in first.arm if arm])))
    figure = Figure(figsize=(11, 8.2), layout="constrained")
    rate_axes, rtt_axes, arm_axes = figure.subplots(
        3, 1, sharex=True, height_ratios=(3.2, 3.2, max(1.2, 0.26 * len(lanes)))
    )
    rate_axes.fill_between(
        first.t_s, first.capacity_mbps, step="post", color="#E4E4E4", linewidth=0, label="link capacity"
    )
    rtt_axes.step(
        first.t_s,
        _base_rtt_ms(scenario, first),
        where="post",
        color="#9A9A9A",
        linewidth=2.5,
        label="base RTT",
    )
    for i in reversed(range(len(flows))):
        flow = flows[i]
        look = {
            "color": colour(flow.scheme),
            "linestyle": _DASHES[i % len(_DASHES)],
            "linewidth": 1.9 if i == 0 else 1.1,
            "label": flow.scheme,
        }
        rate_axes.plot(flow.t_s, _smooth(flow.goodput_mbps), **look)
        rtt_axes.plot(flow.t_s, _smooth(flow.rtt_ms), **look)
    rate_axes.set(ylabel="goodput (Mbit/s)", ylim=(0, None))
    rtt_axes.set(ylabel="RTT (ms)", ylim=(0, None))
    _draw_lanes(arm_axes, first, lanes)
    arm_axes.set(xlabel="time (s)", xlim=(0, scenario.duration_s))
    for axes in (rate_axes, rtt_axes, arm_axes):
        _mark_steps(axes, scenario)
        axes.spines[["top", "right"]].set_visible(False)
    _label_steps(rate_axes, scenario)
    handles, labels = rate_axes.get_legend_handles_labels()
    handles.append(Line2D([], [], color="#9A9A9A", linewidth=2.5))
    labels.append("base RTT")
    order = sorted(range(len(labels)), key=lambda i: _legend_rank(labels[i], [f.scheme for f in flows]))
    figure.legend(
        [handles[i] for i in order], [labels[i] for i in order],
        loc="outside upper center", ncols=len(labels), frameon=False,
    )  # fmt: skip
    save(figure, path)


def _legend_rank(label: str, schemes: Sequence[str]) -> int:
    return schemes.index(label) if label in schemes else len(schemes)


def _smooth(values: FloatArray, bins: int = 5) -> FloatArray:
    """Centred mean over `bins` bins that skips NaN, so that a queue's sawtooth stays and jitter goes."""
    valid = ~np.isnan(values)
    kernel = np.ones(bins)
    count = np.convolve(valid, kernel, "same")
    total = np.convolve(np.where(valid, values, 0.0), kernel, "same")
    mean: FloatArray = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    return mean


def _base_rtt_ms(scenario: Scenario, flow: FlowSeries) -> FloatArray:
    own_ms = scenario.flows[0].rtt_ms
    base = np.empty_like(flow.t_s)
    for state in scenario.link.states():
        base[flow.t_s >= state.at_s - BIN_S / 10] = state.rtt_ms if own_ms is None else own_ms
    return base


def _draw_lanes(axes: Axes, flow: FlowSeries, lanes: Sequence[str]) -> None:
    """One lane for each arm that held the flow, the most used on top, filled while it did."""
    share = arm_share([arm for arm in flow.arm if arm])
    for lane, arm in enumerate(lanes):
        held = np.array([name == arm for name in flow.arm])
        edges = np.flatnonzero(np.diff(np.concatenate(([False], held, [False])).astype(np.int8)))
        spans = [
            (float(flow.t_s[begin]), float((end - begin) * BIN_S))
            for begin, end in zip(edges[::2], edges[1::2], strict=True)
        ]
        axes.broken_barh(spans, (lane - 0.5, 1.0), facecolors=colour(arm), linewidth=0)
    axes.set_yticks(range(len(lanes)), [f"{arm}  {share[arm]:4.0%}" for arm in lanes])
    axes.set(ylim=(-0.5, len(lanes) - 0.5), ylabel=f"active arm\nof {flow.scheme}")
    axes.tick_params(axis="y", length=0, labelsize="small")


def _mark_steps(axes: Axes, scenario: Scenario) -> None:
    for step in scenario.link.steps:
        axes.axvline(step.at_s, color="#666666", linewidth=0.8, linestyle=":", zorder=0)


def _label_steps(axes: Axes, scenario: Scenario) -> None:
    for state, step in zip(list(scenario.link.states()), (None, *scenario.link.steps), strict=True):
        parts = []
        if state.rate_mbps is not None and (step is None or step.rate_mbps is not None):
            parts.append(f"{state.rate_mbps:g} Mbit/s")
        if step is None or step.rtt_ms is not None:
            parts.append(f"RTT {state.rtt_ms:g} ms")
        if (state.loss > 0) if step is None else (step.loss is not None):
            parts.append(f"loss {state.loss:.3g}" if state.loss < 0.001 else f"loss {100 * state.loss:g} %")
        axes.annotate(
            ", ".join(parts), (state.at_s, 1.0), xycoords=("data", "axes fraction"),
            xytext=(4, 3), textcoords="offset points", fontsize="small", color="#444444",
        )  # fmt: skip


def draw_throughput_delay(path: Path, cells: Sequence[Cell]) -> None:
    """Draw throughput against RTT as in the paper's Fig. 4: one panel a scenario, up and right is better.

    A point is a scheme's mean over the seeds; the ellipse's half axes are one standard deviation.
    """
    scenarios = list(dict.fromkeys(cell.scenario for cell in cells))
    columns = min(3, len(scenarios))
    rows = math.ceil(len(scenarios) / columns)
    figure = Figure(figsize=(1.2 + 4.2 * columns, 0.8 + 3.6 * rows), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False)
    for axes, scenario in zip(grid.flat, scenarios, strict=False):
        for cell in cells:
            if cell.scenario != scenario:
                continue
            x, y = cell.rtt_mean_ms, cell.throughput_mbps
            axes.add_patch(
                Ellipse((x.mean, y.mean), 2 * x.sd, 2 * y.sd, facecolor=colour(cell.scheme), alpha=0.3)
            )
            axes.plot(x.mean, y.mean, **_point(cell.scheme))
        axes.set(title=scenario, xlabel="mean RTT (ms)", ylabel="throughput (Mbit/s)")
        axes.margins(0.15)
        axes.locator_params(axis="x", nbins=5)
        axes.invert_xaxis()
        axes.annotate(
            "better", (0.99, 0.99), (0.86, 0.86), xycoords="axes fraction", color="#777777", fontsize="small",
            ha="center", va="center", arrowprops={"arrowstyle": "->", "color": "#777777"},
        )  # fmt: skip
        axes.spines[["top", "right"]].set_visible(False)
    for axes in grid.flat[len(scenarios) :]:
        axes.set_visible(False)
    schemes = dict.fromkeys(cell.scheme for cell in cells)
    figure.legend(
        handles=[Line2D([], [], label=scheme, **_point(scheme)) for scheme in schemes],
        loc="outside right center", frameon=False,
    )  # fmt: skip
    save(figure, path)


def _point(scheme: str) -> dict[str, Any]:
    size = 12 if scheme == "switcher" else 7
    return {"color": colour(scheme), "marker": marker(scheme), "markersize": size, "linestyle": "none"}


def draw_rewards(path: Path, cells: Sequence[Cell]) -> None:
    """Draw each scheme's reward as a share of the best on the scenario; lines are one standard deviation."""
    scenarios = list(dict.fromkeys(cell.scenario for cell in cells))
    schemes = list(dict.fromkeys(cell.scheme for cell in cells))
    best = {
        name: max((cell.reward.mean for cell in cells if cell.scenario == name), default=0.0)
        for name in scenarios
    }
    width = 0.84 / len(schemes)
    figure = Figure(figsize=(max(6.4, 1.6 + 0.24 * len(scenarios) * len(schemes)), 4.2), layout="constrained")
    axes = figure.subplots()
    for cell in cells:
        scale = best[cell.scenario] or 1.0
        x = scenarios.index(cell.scenario) + (schemes.index(cell.scheme) - (len(schemes) - 1) / 2) * width
        axes.bar(
            x, cell.reward.mean / scale, width * 0.92, color=colour(cell.scheme),
            yerr=cell.reward.sd / scale or None, error_kw={"linewidth": 0.9, "ecolor": "#444444"},
        )  # fmt: skip
    axes.set_xticks(range(len(scenarios)), scenarios)
    axes.set(ylabel="reward (Eq. 1), share of the best", ylim=(0, 1.1), xlim=(-0.5, len(scenarios) - 0.5))
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(
        handles=[Patch(color=colour(scheme), label=scheme) for scheme in schemes],
        loc="outside right center", frameon=False,
    )  # fmt: skip
    save(figure, path)


def save(figure: Figure, path: Path) -> None:
    """Write a picture as PNG."""
    # Without the version in the metadata the same results give the same bytes.
    figure.savefig(path, dpi=DPI, metadata={"Software": None})
