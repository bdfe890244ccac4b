# SPDX-License-Identifier: Apache-2.0
"""Pictures of claims: a measure over a property of the link, or its spread over many links."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ltp_switcher.eval.report.claims.claim import Measure
from ltp_switcher.eval.report.claims.runner import Reached
from ltp_switcher.eval.report.drawing import headline, picture
from ltp_switcher.eval.run.style import colour, marker

_PANEL_IN: Final = 3.4
_UNITS: Final[Mapping[str, str]] = {
    "rate_mbps": "rate (Mbit/s)",
    "rtt_ms": "RTT (ms)",
    "loss": "random loss (share)",
    "buffer_bdp": "buffer (BDP)",
    "interval_ms": "monitor interval (ms)",
}


def draw_claim(path: Path, reached: Reached) -> None:
    """Draw the picture of a claim, if the claim has something to show."""
    claim = reached.claim
    if not reached.figures or (claim.sweep is None and not claim.spread):
        return
    panels = claim.spread or dict.fromkeys(_factor(label) for label in reached.results.paths)
    with picture(path, _PANEL_IN * max(2, len(panels)) + 1.2, 4.2) as figure:
        if claim.sweep is None:
            _draw_spread(figure, reached, claim.spread)
        else:
            _draw_sweep(figure, reached, *claim.sweep)
        seeds = 1 if reached.quick else len(claim.seeds)
        headline(figure, reached.text, f"mean of {seeds} seeds" if seeds > 1 else "one seed")
        entries = figure.axes[0].get_legend_handles_labels()
        figure.legend(*entries, loc="outside lower center", ncols=len(entries[1]))


def _factor(label: str) -> str:
    return label.partition(" ")[0]


def _draw_sweep(figure: Figure, reached: Reached, caption: str, measure: Measure) -> None:
    """A panel for each factor of the labels, which are "factor value"."""
    points: dict[str, list[tuple[float, str]]] = {}
    for label in reached.results.paths:
        points.setdefault(_factor(label), []).append((float(label.partition(" ")[2]), label))
    panels = _panels(figure, [_UNITS.get(factor, factor) for factor in points])
    for panel, values in zip(panels, points.values(), strict=True):
        for scheme in reached.results.schemes:
            y = [reached.results.mean(measure, label, scheme) for _, label in values]
            x = [x for x, _ in values]
            panel.plot(x, y, color=colour(scheme), marker=marker(scheme), markersize=6, label=scheme)
        panel.set(ylim=(0, None))
    panels[0].set_ylabel(caption)


def _draw_spread(figure: Figure, reached: Reached, measures: Mapping[str, Measure]) -> None:
    """A panel for each measure: the share of the links on which it is at most so much."""
    panels = _panels(figure, measures)
    for panel, measure in zip(panels, measures.values(), strict=True):
        for scheme in reached.results.schemes:
            values = list(reached.results.over_paths(measure, scheme).values())
            panel.ecdf(values, color=colour(scheme), label=scheme)
            panel.axvline(float(np.mean(values)), color=colour(scheme), linewidth=1.0, linestyle=":")
    panels[0].set_ylabel("share of the links (dotted: mean)")


def _panels(figure: Figure, captions: Iterable[str]) -> list[Axes]:
    """Panels side by side; the captions name the abscissas."""
    captions = list(captions)
    panels = list(figure.subplots(1, len(captions), sharey=True, squeeze=False)[0])
    for panel, caption in zip(panels, captions, strict=True):
        panel.set_xlabel(caption)
    return panels
