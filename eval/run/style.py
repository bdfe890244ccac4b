# SPDX-License-Identifier: Apache-2.0
"""Colours and markers of schemes, for pictures and terminals. Colour-blind readers can tell them apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ltp_switcher import palette
from ltp_switcher.eval.run.schemes import INFORMED, KERNEL_ARMS, LEARNED_ARMS, PINNED_PREFIX, VARIANTS

# Schemes that are not arms. Their colours are for white paper, as in all pictures.
_SCHEME_COLOUR: Final[Mapping[str, str]] = {
    "switcher": "#000000", "random": "#777777", "rule": "#4D4D4D", "bandit": "#B35806", "reno": "#AA4499",
    "spine-cubic": "#9970AB", "owl-loss": "#BF812D", "owl-network": "#543005", "epsilon-greedy": "#35978F",
    "mutant": "#B35806", "oracle": "#DDAA33",
}  # fmt: skip


def colour(scheme: str) -> str:
    """Return the colour, `#RRGGBB`, that stands for a scheme or an arm."""
    name = scheme.removeprefix(PINNED_PREFIX)
    return _SCHEME_COLOUR.get(name) or palette.ARMS.get(name, palette.OTHER).light


_MARKERS: Final = "osD^v<>PXhpd8H."
_LEARNED_MARKERS: Final = "1234+x_|"


def marker(scheme: str) -> str:
    """Return matplotlib's marker for a scheme. Arms and some other schemes have shapes of their own. All
    others, such as the switcher and constant rates, have a star.
    """
    names = ("random", *KERNEL_ARMS, "reno", "rule", "bandit")
    name = scheme.removeprefix(PINNED_PREFIX)
    if name == "epsilon-greedy":
        return "$ε$"
    learned = (*LEARNED_ARMS, *VARIANTS, *INFORMED)
    if name in learned:
        return _LEARNED_MARKERS[learned.index(name) % len(_LEARNED_MARKERS)]
    return _MARKERS[names.index(name)] if name in names else "*"
