# SPDX-License-Identifier: Apache-2.0
"""The colours of pictures: one for each arm (a congestion control), on light and dark backgrounds, and some
for other series.

An arm has the same colour in pictures, on the terminal and on the dashboard. The four arms that are shown
together most (bbr, ltp, vegas, cubic) got their colours by hand. The other colours were found by a search for
large distances between colours. The search used the distance in OKLab (Ottosson 2020), under normal sight and
the three kinds of colour blindness (Machado et al. 2009). Each colour keeps its contrast with the background
(WCAG 2.2, 1.4.11). Fifteen colours are too many for every eye to tell apart, so an arm's name always stands
by its colour.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Paint:
    """One colour as `#RRGGBB`, in a version for a light background and a version for a dark one."""

    light: str
    dark: str


ARMS: Final[Mapping[str, Paint]] = {
    "bbr": Paint("#DD7A00", "#FFB454"),
    "ltp": Paint("#A3195B", "#EC5F94"),
    "vegas": Paint("#17A673", "#5BD9A9"),
    "cubic": Paint("#2563C9", "#7AA5FF"),
    "westwood": Paint("#605500", "#A19858"),
    "hybla": Paint("#9E5D84", "#DA9AC0"),
    "htcp": Paint("#6001B0", "#A16AF8"),
    "veno": Paint("#1A4401", "#638C52"),
    "yeah": Paint("#52508A", "#9292CD"),
    "bic": Paint("#602169", "#A86CB1"),
    "highspeed": Paint("#7391C9", "#ABC7FF"),
    "illinois": Paint("#BD5625", "#FB966B"),
    "jury": Paint("#AE1CA5", "#EF70E3"),
    "spine": Paint("#8075B6", "#B9AFEF"),
    "owl": Paint("#093688", "#5481D2"),
}
OTHER: Final = Paint("#6B7480", "#98A1AE")
"""The colour of any other arm, and of a flow without an arm."""

BLUE: Final = "#0072B2"
VERMILION: Final = "#D55E00"
SERIES: Final = (BLUE, "#E69F00", "#009E73", VERMILION, "#56B4E9", "#332288", "#CC79A7", "#000000")
"""Colours of series that are not arms, such as paths or hosts, in pictures on a light background.

They are the colours of Okabe and Ito (2008), with an indigo in place of the yellow, which is pale on white.
"""


def style_sheet() -> str:
    """The colours as custom properties of CSS: `--arm-NAME` and `--arm-other`."""

    def rule(colours: Mapping[str, str]) -> str:
        return ":root { " + " ".join(f"--arm-{name}: {colour};" for name, colour in colours.items()) + " }"

    paints = {**ARMS, "other": OTHER}
    light = rule({name: paint.light for name, paint in paints.items()})
    dark = rule({name: paint.dark for name, paint in paints.items()})
    return f"{light}\n@media (prefers-color-scheme: dark) {{ {dark} }}\n"
