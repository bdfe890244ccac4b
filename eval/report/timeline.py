# SPDX-License-Identifier: Apache-2.0
"""Runs over time: goodput, RTT, and the arm of the first flow."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from ltp_switcher.arrays import Bools, Floats
from ltp_switcher.eval.report.drawing import GREY, PALE, NamedLine, headline, name_lines, picture
from ltp_switcher.eval.report.tables import arms_text
from ltp_switcher.eval.run.metrics import arm_share
from ltp_switcher.eval.run.scenario import Link, LinkState, Scenario
from ltp_switcher.eval.run.series import BIN_S, FlowSeries
from ltp_switcher.eval.run.style import colour

NAMED_MAX: Final = 8
"""Largest number of flows whose lines get names. With more flows, no line has a name."""
_DASHES: Final = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
_CEILING: Final = 0.86
"""Share of the first panel's height below which lines have their names. The events are above it."""
_SMOOTH_BINS: Final = 9
_SIZE_IN: Final = (11.0, 8.4)
HEIGHTS: Final = (3.4, 3.0, 0.9)
"""Heights of the panels of goodput, RTT and arm, relative to each other."""


def draw_timeline(
    path: Path, scenario: Scenario, flows: Sequence[FlowSeries], *, title: str, explanation: str,
    scores: Mapping[str, float] | None = None,
) -> None:  # fmt: skip
    """Draw goodput, RTT and active arm over time. The first flow stands out, and the others are thin.

    Args:
        path: the PNG file to write.
        scenario: the scenario of the runs.
        flows: flows of one run, or the first flows of several runs on the same link.
        title: the picture's message, in one line.
        explanation: one or two lines below the title.
        scores: mean rewards by scheme, to draw beside the lines as bars.
    """
    with picture(path, *_SIZE_IN) as figure:
        grid = figure.add_gridspec(
            3, 2 if scores else 1, height_ratios=HEIGHTS, width_ratios=(5.2, 1) if scores else (1,)
        )
        rate, rtt, arm = (figure.add_subplot(grid[row, 0]) for row in range(3))
        headline(figure, title, explanation)
        if scores:
            _draw_scores(figure.add_subplot(grid[0, 1]), scores)
        draw_over_time(figure, rate, rtt, arm, scenario, flows)


def draw_over_time(
    figure: Figure, rate: Axes, rtt: Axes, arm: Axes, scenario: Scenario, flows: Sequence[FlowSeries]
) -> None:
    """Draw goodput, RTT and active arm into three axes of a figure that already has its other parts.

    The arguments `scenario` and `flows` mean the same as in `draw_timeline`.
    """
    first = flows[0]
    rate.fill_between(first.t_s, first.capacity_mbps, step="post", color=PALE, linewidth=0)
    base = NamedLine("", "#BBBBBB", first.t_s, _base_rtt_ms(scenario, first))
    rtt.step(base.x, base.y, where="post", color=base.colour, linewidth=3.0)
    goodput = list(_draw_flows(rate, flows, [flow.goodput_mbps for flow in flows]))
    delay = list(_draw_flows(rtt, flows, [flow.rtt_ms for flow in flows]))
    rate.set(ylabel="goodput (Mbit/s)", ylim=(0, rate.get_ylim()[1] / _CEILING))
    rtt.set(ylabel="round-trip time (ms)", ylim=(0, 1.1 * rtt.get_ylim()[1]))
    _draw_arms(figure, arm, first)
    for axes in (rate, rtt, arm):
        axes.set_xlim(0, scenario.duration_s)
        for state in list(scenario.links[scenario.flows[0].path].states())[1:]:
            axes.axvline(state.at_s, color="#888888", linewidth=1.0, linestyle=":", zorder=0)
    for axes in (rate, rtt):
        axes.tick_params(labelbottom=False)
    _write_events(rate, scenario)
    _explain(rate, 0.02, "grey: capacity of the link")
    _explain(rtt, 0.02, "grey line: RTT without a queue")
    if len(flows) <= NAMED_MAX:
        name_lines(figure, rate, goodput, ceiling=_CEILING)
        name_lines(figure, rtt, [*delay, base])


def _draw_flows(axes: Axes, flows: Sequence[FlowSeries], values: Sequence[Floats]) -> Iterator[NamedLine]:
    """Draw the values of the flows, the first on top, and give the lines in the flows' order."""
    count = Counter(flow.scheme for flow in flows)
    seen: Counter[str] = Counter()
    for i, (flow, value) in enumerate(zip(flows, values, strict=True)):
        seen[flow.scheme] += 1
        number = seen[flow.scheme]
        y = _smooth(value)
        axes.plot(
            flow.t_s, y, color=colour(flow.scheme), linestyle=_DASHES[(number - 1) % len(_DASHES)],
            linewidth=2.4 if i == 0 else 1.4, zorder=3 if i == 0 else 2,
        )  # fmt: skip
        name = flow.scheme if count[flow.scheme] == 1 else f"{flow.scheme} {number}"
        yield NamedLine(name, colour(flow.scheme), flow.t_s, y)


def _smooth(values: Floats) -> Floats:
    """Return the centred mean over `_SMOOTH_BINS` bins, which skips NaN. A queue's sawtooth stays, and jitter
    goes.
    """
    kernel, half = np.ones(_SMOOTH_BINS), _SMOOTH_BINS // 2

    def sums(of: Floats | Bools) -> Floats:
        # numpy's "same" would be as long as the kernel for a flow of fewer bins.
        return np.convolve(of, kernel)[half : half + values.size]

    valid = ~np.isnan(values)
    count, total = sums(valid), sums(np.where(valid, values, 0.0))
    mean: Floats = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    return mean


def _base_rtt_ms(scenario: Scenario, flow: FlowSeries) -> Floats:
    own_ms = scenario.flows[0].rtt_ms
    base = np.empty_like(flow.t_s)
    for state in scenario.links[scenario.flows[0].path].in_steps(scenario.duration_s).states():
        base[flow.t_s >= state.at_s - BIN_S / 10] = state.rtt_ms if own_ms is None else own_ms
    return base


def _draw_arms(figure: Figure, axes: Axes, flow: FlowSeries) -> None:
    """Draw one bar over time in the colours of the arms that held the flow, with their names in it."""
    share = arm_share([arm for arm in flow.arm if arm])
    shares = f"\nshares of the time: {arms_text(share)}" if len(share) > 1 else ""
    axes.set(yticks=[], ylim=(0, 1), xlabel=f"time (s){shares}")
    axes.set_ylabel(f"{flow.scheme}\nruns" if len(share) > 1 else "runs", rotation=0, ha="right", va="center")
    axes.spines["left"].set_visible(False)
    figure.draw_without_rendering()
    per_s = axes.get_window_extent().width / (float(flow.t_s[-1]) + BIN_S) / figure.dpi
    begin = 0
    for arm, held in itertools.groupby(flow.arm):
        bins = len(list(held))
        at_s, long_s = float(flow.t_s[begin]), bins * BIN_S
        begin += bins
        if not arm:
            continue
        axes.axvspan(at_s, at_s + long_s, color=colour(arm), linewidth=0)
        room_in = long_s * per_s
        across = room_in > 0.105 * len(arm)
        if across or room_in > 0.125:
            axes.text(
                at_s + long_s / 2, 0.5, arm, ha="center", va="center", size=11 if across else 8,
                rotation=0 if across else 90, color="white" if _dark(colour(arm)) else "black",
            )  # fmt: skip


def _dark(colour_name: str) -> bool:
    red, green, blue = to_rgb(colour_name)
    return 0.3 * red + 0.6 * green + 0.1 * blue < 0.55


def _draw_scores(axes: Axes, scores: Mapping[str, float]) -> None:
    """Draw a bar for each scheme, the best on top."""
    ranking = sorted(scores, key=lambda scheme: scores[scheme])
    bars = axes.barh(ranking, [scores[scheme] for scheme in ranking], color=[colour(one) for one in ranking])
    axes.bar_label(bars, fmt=" %.2f", weight="bold")
    axes.set_title("score", loc="left", weight="bold")
    text = axes.text(
        0, -0.04, "goodput² / RTT,\nless for lost packets\n(Eq. 1 of Mutant),\nmean over the run",
        transform=axes.transAxes, va="top", color=GREY, size=10,
    )  # fmt: skip
    # Otherwise the panels would shrink to make room for the text.
    text.set_in_layout(False)
    axes.set(xticks=[], xlim=(0, 1.35 * max(scores.values())))
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(length=0)


def _explain(axes: Axes, y: float, text: str) -> None:
    axes.text(0.01, y, text, transform=axes.transAxes, color=GREY, size=10, va="bottom")


def _write_events(axes: Axes, scenario: Scenario) -> None:
    """Write the events over the panel."""
    link = scenario.links[scenario.flows[0].path]
    for state, text in zip(link.states(), event_texts(link), strict=True):
        axes.annotate(
            text, (state.at_s, 0.99), xycoords=("data", "axes fraction"), xytext=(5, 0),
            textcoords="offset points", va="top", weight="bold", color="#333333",
        )  # fmt: skip


def event_texts(link: Link) -> list[str]:
    """Describe the link at its start, and the change of each step."""
    states = list(link.states())
    return [_beginning(states[0])] + [_change(*pair) for pair in itertools.pairwise(states)]


def _beginning(state: LinkState) -> str:
    parts = [] if state.rate_mbps is None else [f"{state.rate_mbps:g} Mbit/s"]
    parts.append(f"RTT {state.rtt_ms:g} ms")
    parts += [f"{_share(state.loss)} random loss"] if state.loss else []
    return ",\n".join(parts)


def _change(before: LinkState, after: LinkState) -> str:
    """The changes from one state to the next, two lines each."""
    parts = []
    if before.rate_mbps != after.rate_mbps:
        parts.append(_moves("rate", before.rate_mbps or 0.0, after.rate_mbps or 0.0, "Mbit/s"))
    if before.rtt_ms != after.rtt_ms:
        parts.append(_moves("RTT", before.rtt_ms, after.rtt_ms, "ms"))
    if before.loss != after.loss:
        parts.append(f"{_share(after.loss)} random loss" if after.loss else "no more random loss")
    return "\n".join(parts)


def _moves(name: str, before: float, after: float, unit: str) -> str:
    if after == 2.0 * before:
        return f"{name} doubles\nto {after:g} {unit}"
    return f"{name} {'rises' if after > before else 'falls'}\nto {after:g} {unit}"


def _share(loss: float) -> str:
    return f"{100 * loss:.2g} %"
