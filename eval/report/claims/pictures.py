# SPDX-License-Identifier: Apache-2.0
"""Pictures of claims: a measure over what is varied, or how measures are spread over the paths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ltp_switcher.eval.report.claims.claim import Measure
from ltp_switcher.eval.report.claims.runner import Reached
from ltp_switcher.eval.report.figures import save
from ltp_switcher.eval.report.style import colour, marker

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
    figure = _spread(reached, claim.spread) if claim.sweep is None else _sweep(reached, *claim.sweep)
    entries = figure.axes[0].get_legend_handles_labels()
    columns = min(8, int(figure.get_figwidth() / 1.1))
    figure.legend(*entries, loc="outside upper center", ncols=columns, frameon=False)
    save(figure, path)


def _sweep(reached: Reached, caption: str, measure: Measure) -> Figure:
    """A panel for each factor of the labels, which are "factor value"."""
    points: dict[str, list[tuple[float, str]]] = {}
    for label in reached.results.paths:
        factor, _, value = label.partition(" ")
        points.setdefault(factor, []).append((float(value), label))
    figure, panels = _panels([_UNITS.get(factor, factor) for factor in points])
    for panel, values in zip(panels, points.values(), strict=True):
        for scheme in reached.results.schemes:
            y = [reached.results.mean(measure, label, scheme) for _, label in values]
            x = [x for x, _ in values]
            panel.plot(x, y, color=colour(scheme), marker=marker(scheme), markersize=5, label=scheme)
        panel.set(ylim=(0, None))
    panels[0].set_ylabel(caption)
    return figure


def _spread(reached: Reached, measures: Mapping[str, Measure]) -> Figure:
    """A panel for each measure: on which share of the paths it is at most so much."""
    figure, panels = _panels(measures)
    for panel, measure in zip(panels, measures.values(), strict=True):
        for scheme in reached.results.schemes:
            values = list(reached.results.over_paths(measure, scheme).values())
            panel.ecdf(values, color=colour(scheme), label=scheme)
            panel.axvline(float(np.mean(values)), color=colour(scheme), linewidth=0.8, linestyle=":")
    panels[0].set_ylabel("share of the links (dotted: mean)")
    return figure


def _panels(captions: Iterable[str]) -> tuple[Figure, list[Axes]]:
    """Panels side by side, each with the caption of what its abscissa shows."""
    captions = list(captions)
    figure = Figure(figsize=(_PANEL_IN * len(captions) + 1.2, 3.6), layout="constrained")
    panels = list(figure.subplots(1, len(captions), sharey=True, squeeze=False)[0])
    for panel, caption in zip(panels, captions, strict=True):
        panel.set_xlabel(caption)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, panels
