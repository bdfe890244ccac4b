# SPDX-License-Identifier: Apache-2.0
"""The figures of the Mutant paper, drawn from a suite's results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from matplotlib.lines import Line2D

from ltp_switcher.eval.report.compare import fold
from ltp_switcher.eval.report.comparison_pictures import Bar, draw_groups, draw_throughput_delay, name_schemes
from ltp_switcher.eval.report.drawing import GREY, headline, picture
from ltp_switcher.eval.run.style import colour
from ltp_switcher.eval.run.summary import Summary
from ltp_switcher.eval.suite.harm import Harm
from ltp_switcher.eval.suite.paths import TRACE
from ltp_switcher.eval.suite.score import PathScore, geometric_mean
from ltp_switcher.eval.suite.studies import CHANGED, STUDIES, Study

Draw = Callable[[Path], None]
ENVIRONMENTS: Final = (
    "fixed-1", "high-rtt-1", "large-queue-1", "low-capacity-1", "lossy-1", "mixed-1", "step-1", "slow-1",
    "satellite-1",
)  # fmt: skip
"""The paths in Mutant's Fig. 4, one from each family."""
WITHIN: Final = 0.9
"""Least share of the best reward with which a scheme is among the best (the paper's best reward rate)."""


def paper_figures(
    summaries: Sequence[tuple[str, Summary]],
    paths: Sequence[PathScore],
    oracles: Mapping[str, float],
    harms: Sequence[Harm],
) -> dict[str, Draw]:
    """Return functions that draw the figures for which there are results, by title.

    Args:
        summaries: the name of the path and the summary of each run.
        paths: scores by path.
        oracles: ratio of the oracle's reward to the best arm's, by path.
        harms: harms on the paths with another flow beside.
    """
    figures: dict[str, Draw] = {}
    # A scheme with one setting changed has no mark of its own there.
    whole = [(path, of) for path, of in summaries if path in ENVIRONMENTS and of.scheme not in CHANGED]
    cells = fold([replace(summary, scenario=path) for path, summary in whole])
    if cells:
        title = "Throughput and RTT by environment (Mutant Fig. 4)"
        figures[title] = partial(draw_throughput_delay, cells=cells)
    cellular = [path for path in paths if path.kind == TRACE]
    if cellular:
        title = "Reward on cellular links, and the oracle's (Mutant Fig. 16)"
        figures[title] = partial(_draw_cellular, paths=cellular, oracles=oracles)
    if harms:
        figures["Harm to the flow beside (Mutant Fig. 10)"] = partial(_draw_harm, harms=harms)
    for study in STUDIES.values():
        # A study needs all its schemes to compare them.
        if all(any(scheme in path.cells for path in paths) for scheme in study.schemes):
            figures[study.title] = partial(_draw_study, study=study, paths=paths)
    return figures


def _draw_study(file: Path, study: Study, paths: Sequence[PathScore]) -> None:
    """Draw a bar for each scheme: its share of the best arm, with its interval over the paths."""
    with picture(file, 9.0, 1.6 + 0.36 * len(study.schemes)) as figure:
        axes = figure.subplots()
        for at, scheme in enumerate(reversed(study.schemes)):
            shares = [path.share(scheme) for path in paths if scheme in path.cells]
            mean = geometric_mean(shares)
            axes.barh(at, mean.value, 0.7, color=colour(scheme.partition(":")[0]))
            axes.plot([mean.low, mean.high], [at, at], color=GREY, linewidth=1.2)
            best = sum(share >= WITHIN for share in shares)
            text = f"  {mean.value:.2f}, among the best on {best} of {len(shares)}"
            axes.text(max(mean.high, mean.value), at, text, va="center", color=GREY)
        axes.set_yticks(range(len(study.schemes)), list(reversed(study.schemes)))
        axes.set(xlabel="reward, share of the best arm in hindsight", xlim=(0, 1.75))
        headline(figure, study.title, "Geometric mean over the paths, and its 95 % interval")


def _draw_cellular(file: Path, paths: Sequence[PathScore], oracles: Mapping[str, float]) -> None:
    """Groups of bars: the schemes' shares on each trace, and a line for the oracle."""
    schemes = list(dict.fromkeys(scheme for path in paths for scheme in path.cells))
    oracle = Line2D([], [], color=GREY, linestyle="--", label="oracle")
    with picture(file, max(8.0, 2.0 + 0.26 * len(paths) * len(schemes)), 4.4) as figure:
        axes = figure.subplots()
        draw_groups(axes, [Bar(p.name, scheme, p.share(scheme)) for p in paths for scheme in p.cells])
        for at, path in enumerate(paths):
            if path.name in oracles:
                axes.hlines(oracles[path.name], at - 0.45, at + 0.45, colors=GREY, linestyles="--")
        axes.set(ylabel="share of the best arm")
        headline(figure, "Reward on cellular links", "The oracle knows the best arm of each ten seconds")
        name_schemes(figure, schemes, oracle)


def _draw_harm(file: Path, harms: Sequence[Harm]) -> None:
    """Draw two panels, throughput and RTT. Each has a bar for each scheme, in groups by path."""
    with picture(file, 9.6, 4.2) as figure:
        of_throughput, of_rtt = figure.subplots(1, 2)
        draw_groups(of_throughput, [Bar(one.path, one.scheme, one.throughput) for one in harms])
        draw_groups(of_rtt, [Bar(one.path, one.scheme, one.rtt) for one in harms])
        of_throughput.set(ylabel="harm to throughput", ylim=(0, 1))
        of_rtt.set(ylabel="harm to RTT", ylim=(0, 1))
        headline(figure, "Harm to the flow beside", "0: none; 1: it gets nothing")
        name_schemes(figure, dict.fromkeys(one.scheme for one in harms))
