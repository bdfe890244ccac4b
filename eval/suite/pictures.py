# SPDX-License-Identifier: Apache-2.0
"""The pictures of a suite's report: the paper's figures, runs over time, and the lost reward over time."""

from __future__ import annotations

import base64
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np

from ltp_switcher.eval.report.drawing import NamedLine, headline, name_lines, picture
from ltp_switcher.eval.report.timeline import draw_timeline
from ltp_switcher.eval.run.results import RunResult
from ltp_switcher.eval.run.series import BIN_S
from ltp_switcher.eval.run.style import colour
from ltp_switcher.eval.suite.losses import Losses, mean_regret_s
from ltp_switcher.eval.suite.paper_figures import Draw
from ltp_switcher.eval.suite.paths import TRACE
from ltp_switcher.eval.suite.plan import Run, is_arm

PICTURED: Final = ("rtt-steps-1", "rate-steps-1", "everything-1", "trace-1", "trace-4")
"""Paths of which the report shows a run over time. If a set has none of them, its first paths with one flow
are shown.
"""
_SIZE_IN: Final = (9.0, 5.2)


def draw(
    made: Sequence[tuple[Run, RunResult]],
    losses: Mapping[str, Sequence[Losses]],
    figures: Mapping[str, Draw],
) -> dict[str, str]:
    """Return all pictures of the report: PNG in base64 by title."""
    with tempfile.TemporaryDirectory(prefix="ltp-eval-") as folder:
        file = Path(folder) / "picture.png"
        pictures: dict[str, str] = {}
        if losses:
            _draw_regret(file, losses)
            pictures["Regret over time"] = _base64(file)
        for title, drawn in figures.items():
            drawn(file)
            pictures[title] = _base64(file)
        kinds = {run.path: run.kind for run, outcome in made if len(outcome.job.scenario.flows) == 1}
        for name in [name for name in PICTURED if name in kinds] or list(kinds)[: len(PICTURED)]:
            first: dict[str, RunResult] = {}
            for run, outcome in made:
                if run.path == name:
                    first.setdefault(run.scheme, outcome)
            shown = sorted(first, key=is_arm)
            title = f"{name}: {shown[0]} and single arms" + (
                " (Mutant Fig. 5)" if kinds[name] == TRACE else ""
            )
            draw_timeline(
                file, first[shown[0]].job.scenario, [first[scheme].series[0] for scheme in shown],
                title=title, explanation=f"One run of each scheme, seed {first[shown[0]].job.seed}.",
                scores={scheme: first[scheme].summary.flows[0].reward for scheme in shown},
            )  # fmt: skip
            pictures[title] = _base64(file)
    return pictures


def _draw_regret(file: Path, losses: Mapping[str, Sequence[Losses]]) -> None:
    with picture(file, *_SIZE_IN) as figure:
        axes = figure.add_subplot()
        lines = []
        for scheme in sorted(losses, key=is_arm):
            regret_s = mean_regret_s(losses[scheme])
            t_s = np.arange(1.0, regret_s.size + 1) * BIN_S
            width = 1.6 if is_arm(scheme) else 3.0
            axes.plot(t_s, regret_s, color=colour(scheme), linewidth=width)
            lines.append(NamedLine(scheme, colour(scheme), t_s, regret_s))
        paths = len(next(iter(losses.values())))
        headline(
            figure, "Regret over time",
            f"Reward lost to the best arm in hindsight, in seconds of its mean reward: mean of {paths} paths",
        )  # fmt: skip
        axes.set(xlabel="time (s)", ylabel="regret (s)", xlim=(0, float(t_s[-1])))
        axes.axhline(0.0, color="#BBBBBB", linewidth=1.0)
        name_lines(figure, axes, lines)


def _base64(file: Path) -> str:
    return base64.b64encode(file.read_bytes()).decode()
