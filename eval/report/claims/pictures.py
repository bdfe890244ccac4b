# SPDX-License-Identifier: Apache-2.0
"""Pictures of claims: a measure over a property of the link, or its spread over many links."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ltp_switcher.eval.report.claims.claim import Measure, Spread
from ltp_switcher.eval.report.claims.runner import Reached
from ltp_switcher.eval.report.drawing import GREY, PALE, headline, picture
from ltp_switcher.eval.run.style import colour, marker

_PANEL_IN: Final = 3.4
_KEY_IN: Final = 0.75
_LETTER_IN: Final = 0.085
_CHARACTERS_AN_INCH: Final = 7.5
_TARGET: Final = "target"
_HEADROOM: Final = 1.06
_UNITS: Final[Mapping[str, str]] = {
    "rate_mbps": "rate (Mbit/s)",
    "rtt_ms": "RTT (ms)",
    "loss": "random loss (share)",
    "buffer_bdp": "buffer (BDP)",
    "interval_ms": "monitor interval (ms)",
}


def draw_claim(path: Path, reached: Reached) -> None:
    """Draw the picture of a claim, if the claim has a sweep or a spread."""
    claim = reached.claim
    if not reached.figures or (claim.sweep is None and claim.spread is None):
        return
    factors = dict.fromkeys(_factor(label) for label in reached.results.paths)
    panels = max(2, len(factors if claim.spread is None else claim.spread.measures))
    with picture(path, _PANEL_IN * panels + 1.2, 4.6) as figure:
        draw(figure, reached)


def draw(figure: Figure, reached: Reached) -> None:
    """Draw a claim that has a sweep or a spread into a figure of its own."""
    claim = reached.claim
    if claim.sweep is not None:
        _draw_sweep(figure, reached, *claim.sweep)
    elif claim.spread is not None:
        _draw_spread(figure, reached, claim.spread)
    seeds = 1 if reached.quick else len(claim.seeds)
    told = f"mean of {seeds} seeds" if seeds > 1 else "one seed"
    # A title has no more characters than fit into the figure's width.
    width = int(figure.get_figwidth() * _CHARACTERS_AN_INCH)
    headline(figure, "\n".join(textwrap.wrap(reached.text, width)), told)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    # Targets first, since they say how to read the rest.
    order = sorted(range(len(labels)), key=lambda at: not labels[at].startswith(_TARGET))
    width_in = sum(_KEY_IN + len(label) * _LETTER_IN for label in labels)
    rows = math.ceil(width_in / figure.get_figwidth())
    figure.legend(
        [handles[at] for at in order], [labels[at] for at in order],
        loc="outside lower center", ncols=math.ceil(len(labels) / rows),
    )  # fmt: skip


def _factor(label: str) -> str:
    return label.partition(" ")[0]


def _draw_sweep(figure: Figure, reached: Reached, caption: str, measure: Measure) -> None:
    """A panel for each factor of the labels, which are "factor value"."""
    points: dict[str, list[tuple[float, str]]] = {}
    for label in reached.results.paths:
        points.setdefault(_factor(label), []).append((float(label.partition(" ")[2]), label))
    panels = _panels(figure, [_UNITS.get(factor, factor) for factor in points])
    band = reached.claim.band
    highest = band.high if band is not None and math.isfinite(band.high) else 0.0
    for panel, values in zip(panels, points.values(), strict=True):
        for scheme in reached.results.schemes:
            y = [reached.results.mean(measure, label, scheme) for _, label in values]
            x = [x for x, _ in values]
            panel.plot(
                x, y, color=colour(scheme), marker=marker(scheme), markersize=6, label=scheme,
                # A marker at the edge of the axes is whole.
                clip_on=False, zorder=3,
            )  # fmt: skip
            highest = max([highest, *(value for value in y if math.isfinite(value))])
    top = _HEADROOM * (highest or 1.0)
    for panel in panels:
        panel.set(ylim=(0, top))
        if band is not None:
            panel.axhspan(
                max(band.low, 0.0), min(band.high, top), color=PALE, label=f"{_TARGET} {band}", zorder=0
            )
    panels[0].set_ylabel(caption)


def _draw_spread(figure: Figure, reached: Reached, spread: Spread) -> None:
    """A panel for each measure: the share of the links on which it is at most so much."""
    panels = _panels(figure, spread.measures)
    for panel, measure in zip(panels, spread.measures.values(), strict=True):
        for scheme in reached.results.schemes:
            values = list(reached.results.over_paths(measure, scheme).values())
            panel.ecdf(values, color=colour(scheme), label=scheme)
            panel.axvline(float(np.mean(values)), color=colour(scheme), linewidth=1.0, linestyle=":")
        panel.axvline(
            spread.mean.low,
            color=GREY,
            linewidth=1.4,
            linestyle="--",
            label=f"{_TARGET} of the mean {spread.mean}",
        )
        for share, target in spread.quantiles.items():
            # The line of a scheme that reaches the target passes below the mark, or right of it.
            panel.plot(
                target.low, share, color=GREY, marker="X", markersize=9, linestyle="none", clip_on=False,
                label=f"{_TARGET} of the {100 * share:g}th percentile {target}",
            )  # fmt: skip
    panels[0].set_ylabel("share of the links (dotted: mean)")


def _panels(figure: Figure, captions: Iterable[str]) -> list[Axes]:
    """Panels side by side; the captions name the abscissas."""
    captions = list(captions)
    panels = list(figure.subplots(1, len(captions), sharey=True, squeeze=False)[0])
    for panel, caption in zip(panels, captions, strict=True):
        panel.set_xlabel(caption)
    return panels
