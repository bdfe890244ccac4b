# SPDX-License-Identifier: Apache-2.0
"""The demo's picture: each scheme's share of the best arm by network, and one network over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.patches import Patch

from ltp_switcher.eval.report.comparison_pictures import Bar, draw_groups
from ltp_switcher.eval.report.demo import Share
from ltp_switcher.eval.report.drawing import GREY, headline, picture
from ltp_switcher.eval.report.timeline import HEIGHTS, draw_over_time
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.run.series import FlowSeries
from ltp_switcher.eval.run.style import colour

OVERALL: Final = "overall\n(geometric mean)"
_SIZE_IN: Final = (12.0, 11.0)
_BARS_HEIGHT: Final = 4.0


def draw_demo(
    path: Path,
    networks: Mapping[str, Mapping[str, Share]],
    overall: Mapping[str, Share],
    scenario: Scenario,
    flows: Sequence[FlowSeries],
    *,
    title: str,
    explanation: str,
) -> None:
    """Draw the demo.

    Args:
        path: the PNG to write.
        networks: each scheme's share of the best arm's reward, by the label of a network and by scheme.
        overall: the share of each scheme over all networks, in the order of the bars.
        scenario: the network to draw over time.
        flows: the first flow of each scheme on this network. The first scheme is drawn on top, with its arms.
        title: the picture's message, in one line.
        explanation: the lines below the title.
    """
    with picture(path, *_SIZE_IN) as figure:
        grid = figure.add_gridspec(4, 1, height_ratios=(_BARS_HEIGHT, *HEIGHTS))
        bars, rate, rtt, arm = (figure.add_subplot(grid[row]) for row in range(4))
        headline(figure, title, explanation)
        _draw_shares(bars, networks, overall)
        rate.set_title(f"One of them over time: {scenario.name}", loc="left", weight="bold", pad=8)
        draw_over_time(figure, rate, rtt, arm, scenario, flows)


def _draw_shares(
    axes: Axes, networks: Mapping[str, Mapping[str, Share]], overall: Mapping[str, Share]
) -> None:
    """Draw a group of bars for each network, and one for the shares over all networks, apart from them. Each
    bar has its value.
    """
    groups = {**networks, OVERALL: overall}
    draw_groups(
        axes,
        [
            Bar(group, scheme, shares[scheme].value, shares[scheme].interval)
            for group, shares in groups.items()
            for scheme in overall
        ],
    )
    names = [Patch(color=colour(scheme), label=scheme) for scheme in overall]
    axes.legend(handles=names, loc="upper center", ncols=len(names))
    ends = [share.interval or (share.value,) for of in groups.values() for share in of.values()]
    highest = max(1.0, *map(max, ends))
    axes.set(ylabel="share of the best protocol", ylim=(0, 1.3 * highest))
    axes.axhline(1.0, color=GREY, linewidth=1.0, linestyle=":", zorder=0)
    axes.axvline(len(networks) - 0.5, color=GREY, linewidth=1.0)
    # The error lines of bars are containers, too.
    bars = [one for one in axes.containers if isinstance(one, BarContainer)]
    for number, bar in enumerate(bars):
        weight = "bold" if number >= len(networks) * len(overall) else "normal"
        axes.bar_label(bar, fmt=" %.2f", rotation=90, size=9, weight=weight)


def network_label(scenario: Scenario) -> str:
    """Describe a network in three short lines: its name, its rate, and the rest."""
    states = list(scenario.link.states())
    rate = "LTE-like model" if scenario.link.rate_mbps is None else f"{scenario.link.rate_mbps:g} Mbit/s"
    rtts_ms = " → ".join(f"{state.rtt_ms:g}" for state in states)
    rest = [f"{rtts_ms} ms"]
    rest += [f"turns ≤ {scenario.link.jitter_ms:g} ms"] if scenario.link.jitter_ms else []
    rest += [f"{100 * scenario.link.loss:.2g} % loss"] if scenario.link.loss else []
    rest += [f"{len(scenario.flows)} flows"] if len(scenario.flows) > 1 else []
    return "\n".join((scenario.name, rate, ", ".join(rest)))
