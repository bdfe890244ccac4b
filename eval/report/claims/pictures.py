# SPDX-License-Identifier: Apache-2.0
"""Pictures of claims: a measure over a property of the link, or its spread over many links."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ltp_switcher.eval.report.claims.claim import Claim, Spread
from ltp_switcher.eval.report.claims.record import Measured
from ltp_switcher.eval.report.claims.runner import Reached
from ltp_switcher.eval.report.drawing import GREY, PALE, headline, picture
from ltp_switcher.eval.run.style import colour, marker
from ltp_switcher.figures import Target

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


Points = Mapping[str, Mapping[str, Sequence[tuple[float, float]]]]
"""Points of a swept measure by the swept factor and by scheme: the factor's value, and the measure."""


def draw_claim(path: Path, reached: Reached) -> None:
    """Draw the picture of a claim, if the claim has a sweep or a spread."""
    claim = reached.claim
    if not reached.figures or (claim.sweep is None and claim.spread is None):
        return
    factors = dict.fromkeys(_factor(label) for label in reached.results.paths)
    with _of_panels(path, len(factors if claim.spread is None else claim.spread.measures)) as figure:
        draw(figure, reached)


def draw_recorded(path: Path, claim: Claim, figures: Iterable[Measured]) -> bool:
    """Draw the picture of a claim from its recorded figures, and return whether they suffice.

    A sweep needs the figure of each path, a spread the mean and the quantiles. The picture shows the judged
    schemes, and those to which their figures are relative.
    """
    shown = (*claim.schemes, *claim.against)
    of = {one.key: one for one in figures if one.value is not None and one.scheme in shown}
    if claim.sweep is not None:
        points = _recorded_points(claim.sweep[0], of.values())
        if points:
            with _of_panels(path, len(points)) as figure:
                _draw_sweep(figure, claim.sweep[0], claim.band, points)
                _finish(figure, claim.text, _told_of_record(of.values()))
        return bool(points)
    if claim.spread is None or {scheme for scheme, _ in of} != set(shown):
        return False
    with _of_panels(path, len(claim.spread.measures)) as figure:
        _draw_recorded_spread(figure, claim.spread, of, shown)
        _finish(figure, claim.text, _told_of_record(of.values()))
    return True


def draw(figure: Figure, reached: Reached) -> None:
    """Draw a claim that has a sweep or a spread into a figure of its own."""
    claim, results = reached.claim, reached.results
    if claim.sweep is not None:
        caption, measure = claim.sweep
        points: dict[str, dict[str, list[tuple[float, float]]]] = {}
        for label in results.paths:
            by_scheme = points.setdefault(_factor(label), {})
            for scheme in results.schemes:
                point = float(label.partition(" ")[2]), results.mean(measure, label, scheme)
                by_scheme.setdefault(scheme, []).append(point)
        _draw_sweep(figure, caption, claim.band, points)
    elif claim.spread is not None:
        _draw_spread(figure, reached, claim.spread)
    seeds = 1 if reached.quick else len(claim.seeds)
    _finish(figure, reached.text, f"mean of {seeds} seeds" if seeds > 1 else "one seed")


def _of_panels(path: Path, panels: int) -> AbstractContextManager[Figure]:
    """A picture with room for this number of panels side by side."""
    return picture(path, _PANEL_IN * max(2, panels) + 1.2, 4.6)


def _finish(figure: Figure, text: str, told: str) -> None:
    """Write a claim's text over its panels, and the legend below them."""
    # A title has no more characters than fit into the figure's width.
    width = int(figure.get_figwidth() * _CHARACTERS_AN_INCH)
    headline(figure, "\n".join(textwrap.wrap(text, width)), told)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    # Targets first, since they say how to read the rest.
    order = sorted(range(len(labels)), key=lambda at: not labels[at].startswith(_TARGET))
    width_in = sum(_KEY_IN + len(label) * _LETTER_IN for label in labels)
    rows = math.ceil(width_in / figure.get_figwidth())
    figure.legend(
        [handles[at] for at in order], [labels[at] for at in order],
        loc="outside lower center", ncols=math.ceil(len(labels) / rows),
    )  # fmt: skip


def _told_of_record(figures: Iterable[Measured]) -> str:
    """Say how recorded figures were measured, and which of them come from shorter runs."""
    figures = list(figures)
    counts = sorted({len(one.seeds) for one in figures if one.seeds is not None})
    seeds = " or ".join("one seed" if count == 1 else f"mean of {count} seeds" for count in counts)
    short = dict.fromkeys(f"{one.scheme}: {one.shortened}" for one in figures if one.shortened is not None)
    return "; ".join([f"recorded figures, {seeds}", *short])


def _recorded_points(caption: str, figures: Iterable[Measured]) -> Points:
    """The points of a sweep, whose figures are named "caption (factor value)"."""
    points: dict[str, dict[str, list[tuple[float, float]]]] = {}
    for one in figures:
        named = re.fullmatch(rf"{re.escape(caption)} \((\w+) ([\d.]+)\)", one.figure)
        if named is not None and one.value is not None:
            points.setdefault(named[1], {}).setdefault(one.scheme, []).append((float(named[2]), one.value))
    return points


def _factor(label: str) -> str:
    return label.partition(" ")[0]


def _draw_sweep(figure: Figure, caption: str, band: Target | None, points: Points) -> None:
    """Draw a panel for each factor."""
    panels = _panels(figure, [_UNITS.get(factor, factor) for factor in points])
    highest = band.high if band is not None and math.isfinite(band.high) else 0.0
    for panel, by_scheme in zip(panels, points.values(), strict=True):
        for scheme, of in by_scheme.items():
            x, y = zip(*of, strict=True)
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
    """Draw the distribution function of each measure over the links, in a panel for each measure."""
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


def _draw_recorded_spread(
    figure: Figure, spread: Spread, recorded: Mapping[tuple[str, str], Measured], schemes: Sequence[str]
) -> None:
    """Draw a panel for each measure, with a row for each scheme: a line from the quantile to the mean."""
    ((share, fifth),) = spread.quantiles.items()
    panels = _panels(figure, spread.measures)
    for panel, caption in zip(panels, spread.measures, strict=True):
        for at, scheme in enumerate(schemes):
            names = spread.quantile_of(caption, share), spread.mean_of(caption)
            low, mean = (_value(recorded[scheme, name]) for name in names)
            panel.plot([low, mean], [at, at], color=colour(scheme), linewidth=2.0)
            panel.plot(low, at, color=colour(scheme), marker="|", markersize=14, markeredgewidth=2.4)
            panel.plot(mean, at, color=colour(scheme), marker="o", markersize=9)
        targets = {"mean": (spread.mean, "--"), f"{100 * share:g}th percentile": (fifth, ":")}
        for what, (target, line) in targets.items():
            told = f"{_TARGET} of the {what} {target}"
            panel.axvline(target.low, color=GREY, linewidth=1.4, linestyle=line, label=told)
        panel.set(yticks=range(len(schemes)), yticklabels=schemes, ylim=(len(schemes) - 0.4, -0.6))
    panels[0].set_ylabel(f"{100 * share:g}th percentile (bar) to mean (dot)")
    limits = [end for panel in panels for end in panel.get_xlim()]
    for panel in panels:
        panel.set_xlim(min(limits), max(limits))


def _value(figure: Measured) -> float:
    return math.nan if figure.value is None else figure.value


def _panels(figure: Figure, captions: Iterable[str]) -> list[Axes]:
    """Make panels side by side, with the captions as names of their x axes."""
    captions = list(captions)
    panels = list(figure.subplots(1, len(captions), sharey=True, squeeze=False)[0])
    for panel, caption in zip(panels, captions, strict=True):
        panel.set_xlabel(caption)
    return panels
