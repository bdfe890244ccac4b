# SPDX-License-Identifier: Apache-2.0
"""The figures of the Mutant paper, drawn from a suite's results."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ltp_switcher.eval.report.compare import fold
from ltp_switcher.eval.report.comparison_pictures import draw_throughput_delay
from ltp_switcher.eval.report.drawing import GREY, headline, picture
from ltp_switcher.eval.run.style import colour
from ltp_switcher.eval.run.summary import Summary
from ltp_switcher.eval.suite.harm import Harm
from ltp_switcher.eval.suite.paths import kind
from ltp_switcher.eval.suite.score import PathScore, geometric_mean
from ltp_switcher.eval.suite.studies import CHANGED, STUDIES, Study

Draw = Callable[[Path], None]
ENVIRONMENTS: Final = (
    "fixed-1", "high-rtt-1", "large-queue-1", "low-capacity-1", "lossy-1", "mixed-1", "step-1", "slow-1",
    "satellite-1",
)  # fmt: skip
"""The paths of Fig. 4, one a family."""
WITHIN: Final = 0.9
"""A scheme with this share of the best is among the best (the paper's best reward rate)."""


def paper_figures(
    summaries: Sequence[tuple[str, Summary]],
    paths: Sequence[PathScore],
    oracles: Mapping[str, float],
    harms: Sequence[Harm],
) -> dict[str, Draw]:
    """What draws each figure for which there are results, by title.

    Args:
        summaries: of all runs with their path.
        paths: scores.
        oracles: the oracle's reward over the best arm's, by path.
        harms: of the paths about harm.
    """
    figures: dict[str, Draw] = {}
    # A scheme with one setting changed has no mark of its own there.
    whole = [(path, of) for path, of in summaries if path in ENVIRONMENTS and of.scheme not in CHANGED]
    cells = fold([replace(summary, scenario=path) for path, summary in whole])
    if cells:
        figures["Throughput and RTT by environment (Mutant Fig. 4)"] = lambda file: draw_throughput_delay(
            file, cells
        )
    cellular = [path for path in paths if kind(path.name) == "trace"]
    if cellular:
        figures["Reward on cellular links, and the oracle's (Mutant Fig. 16)"] = lambda file: _draw_cellular(
            file, cellular, oracles
        )
    if harms:
        figures["Harm to the flow beside (Mutant Fig. 10)"] = lambda file: _draw_harm(file, harms)
    for study in STUDIES.values():
        shown = [scheme for scheme in study.schemes if any(scheme in path.cells for path in paths)]
        # A part of a study compares nothing.
        if len(shown) == len(study.schemes):
            figures[study.title] = _draws(study, paths)
    return figures


def _draws(study: Study, paths: Sequence[PathScore]) -> Draw:
    return lambda file: _draw_study(file, study, paths)


def _draw_study(file: Path, study: Study, paths: Sequence[PathScore]) -> None:
    """A bar each scheme: its share of the best arm, with its interval over the paths."""
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
    width = 0.84 / len(schemes)
    with picture(file, max(8.0, 2.0 + 0.26 * len(paths) * len(schemes)), 4.4) as figure:
        axes = figure.subplots()
        for at, path in enumerate(paths):
            for n, scheme in enumerate(schemes):
                if scheme in path.cells:
                    x = at + (n - (len(schemes) - 1) / 2) * width
                    label = scheme if at == 0 else None
                    axes.bar(x, path.share(scheme), width * 0.92, color=colour(scheme), label=label)
            if path.name in oracles:
                label = "oracle" if at == 0 else None
                line = [oracles[path.name]] * 2
                axes.plot([at - 0.45, at + 0.45], line, color=GREY, linestyle="--", label=label)
        axes.set_xticks(range(len(paths)), [path.name for path in paths])
        axes.set(ylabel="share of the best arm")
        headline(figure, "Reward on cellular links", "The oracle knows the best arm of each ten seconds")
        figure.legend(loc="outside right center")


def _draw_harm(file: Path, harms: Sequence[Harm]) -> None:
    """Two panels, throughput and RTT: a bar each scheme, in groups by path."""
    schemes = list(dict.fromkeys(one.scheme for one in harms))
    names = list(dict.fromkeys(one.path for one in harms))
    width = 0.84 / len(schemes)
    with picture(file, 9.6, 4.2) as figure:
        for axes, part in zip(figure.subplots(1, 2), ("throughput", "rtt"), strict=True):
            for one in harms:
                x = names.index(one.path) + (schemes.index(one.scheme) - (len(schemes) - 1) / 2) * width
                label = one.scheme if part == "rtt" and one.path == names[0] else None
                axes.bar(x, getattr(one, part), width * 0.92, color=colour(one.scheme), label=label)
            axes.set_xticks(range(len(names)), names)
            axes.set(ylabel=f"harm to {'RTT' if part == 'rtt' else part}", ylim=(0, 1))
        headline(figure, "Harm to the flow beside", "0: none; 1: it gets nothing")
        figure.legend(loc="outside right center")
