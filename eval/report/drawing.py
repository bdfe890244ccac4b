# SPDX-License-Identifier: Apache-2.0
"""Parts that all pictures share: the style, the file, and the names of lines."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import matplotlib as mpl
import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ltp_switcher.arrays import Floats

GREY: Final = "#555555"
PALE: Final = "#E4E4E4"
_DPI: Final = 150
_NAME_PT: Final = 12.0
_CHARACTER: Final = 0.62
"""Ratio of a character's width to its height."""
_PLACES: Final = 240
"""Number of places along a line that are tried for its name."""
_NEAR: Final = 0.012
"""Distance of a name from its line, as a share of the axes' height."""
_CLEAR: Final = 0.12
"""Sufficient space between a name and the other lines, as a share of the axes' height."""


@contextlib.contextmanager
def picture(path: Path, width_in: float, height_in: float) -> Iterator[Figure]:
    """Give a figure in the common style, and save it as PNG when the block ends without an error."""
    with mpl.rc_context(
        {
            "font.size": 11,
            "figure.titlesize": 16,
            "figure.titleweight": "bold",
            "axes.titlesize": 11,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "legend.frameon": False,
        }
    ):
        figure = Figure(figsize=(width_in, height_in), layout="constrained")
        yield figure
        # Without the version in the metadata the same results give the same bytes.
        figure.savefig(path, dpi=_DPI, metadata={"Software": None})


def headline(figure: Figure, title: str, explanation: str) -> None:
    """Write a title over the figure, and an explanation below it, over the first axes."""
    figure.suptitle(title, x=0.01, ha="left")
    figure.axes[0].set_title(explanation, loc="left", color=GREY, pad=10)


@dataclass(frozen=True, slots=True)
class NamedLine:
    """A line of a picture that gets its name written beside it. `x` and `y` have the shape (points,) and data
    units; `y` may contain NaN.

    A line with an empty name gets no name, but the other names still avoid it.
    """

    name: str
    colour: str
    x: Floats
    y: Floats


@dataclass(frozen=True, slots=True)
class _Box:
    """A place for a name, in shares of the axes' width and height; `worth` says how good it is."""

    left: float
    right: float
    bottom: float
    top: float
    worth: float

    def meets(self, other: _Box) -> bool:
        return (
            self.left < other.right
            and other.left < self.right
            and self.bottom < other.top
            and other.bottom < self.top
        )


def name_lines(figure: Figure, axes: Axes, lines: Sequence[NamedLine], *, ceiling: float = 1.0) -> None:
    """Write each line's name beside the line, where there is the most space.

    Call this when limits and layout of the axes are final. Names stay below `ceiling`, a share of the axes'
    height. A line without a place for its name stays without one.
    """
    figure.draw_without_rendering()
    area = axes.get_window_extent()
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    x = np.linspace(0.0, 1.0, _PLACES)
    shapes = [
        (np.interp(left + x * (right - left), line.x, line.y, np.nan, np.nan) - bottom) / (top - bottom)
        for line in lines
    ]
    pixels = _NAME_PT / 72 * figure.dpi
    taken: list[_Box] = []
    for index, line in enumerate(lines):
        if not line.name:
            continue
        others = np.array([shape for i, shape in enumerate(shapes) if i != index]).reshape(-1, _PLACES)
        # Where another line has no value, it is infinitely far away.
        others = np.where(np.isnan(others), np.inf, others)
        wide, tall = _CHARACTER * pixels * len(line.name) / area.width, 1.2 * pixels / area.height
        boxes = [
            box
            for box in _boxes(shapes[index], others, wide, tall)
            if box.top <= ceiling and not any(box.meets(other) for other in taken)
        ]
        if not boxes:
            continue
        best = max(boxes, key=lambda box: box.worth)
        taken.append(best)
        axes.text(
            (best.left + best.right) / 2, (best.bottom + best.top) / 2, line.name, transform=axes.transAxes,
            color=line.colour, size=_NAME_PT, weight="bold", ha="center", va="center",
            path_effects=[patheffects.withStroke(linewidth=3, foreground="white")],
        )  # fmt: skip


def _boxes(own: Floats, others: Floats, wide: float, tall: float) -> Iterator[_Box]:
    """Yield places for a name above and below the line `own`, shape (places,). The other lines are `others`,
    shape (lines, places). `wide` and `tall` are the name's size in shares of the axes.
    """
    span = max(1, round(wide * _PLACES))
    for start in range(2, _PLACES - span - 2):
        inside = slice(start, start + span)
        here, beside = own[inside], others[:, inside]
        if np.isnan(here).any():
            continue
        # Where lines run together, a name could belong to any of them.
        apart = float(np.median(np.abs(beside - here).min(axis=0, initial=_CLEAR)))
        swing = float(np.ptp(here))
        for bottom in (float(here.max()) + _NEAR, float(here.min()) - _NEAR - tall):
            if bottom < 0.0:
                continue
            away = np.maximum(beside - (bottom + tall), bottom - beside)
            clear = float(np.min(away, initial=_CLEAR))
            left = start / _PLACES
            worth = min(clear, apart) + 0.5 * (clear - swing)
            yield _Box(left, left + wide, bottom, bottom + tall, worth)
