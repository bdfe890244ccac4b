# SPDX-License-Identifier: Apache-2.0
"""The colours of arms: one for each, seen on both grounds, told apart by colour-blind readers."""

from __future__ import annotations

import re

import pytest
from support.colours import SIGHTS, contrast, nearest

from ltp_switcher.eval.run.schemes import KERNEL_ARMS, LEARNED_ARMS
from ltp_switcher.eval.run.style import colour
from ltp_switcher.palette import ARMS, BLUE, OTHER, SERIES, VERMILION, style_sheet

GROUNDS = {"light": "#ffffff", "dark": "#1a2028"}
# These stand beside one another in nearly every picture: the default pool, and the system's default.
TOGETHER = ("bbr", "ltp", "vegas", "cubic")


def painted(ground: str) -> dict[str, str]:
    return {arm: getattr(paint, ground) for arm, paint in ARMS.items()}


def test_every_arm_has_a_colour_and_pictures_take_it() -> None:
    assert {*KERNEL_ARMS, "ltp", "jury", "spine", "owl"} == set(ARMS) <= {*KERNEL_ARMS, *LEARNED_ARMS}
    for arm, paint in ARMS.items():
        assert colour(arm) == colour(f"mutant:{arm}") == paint.light
    assert colour("no such arm") == OTHER.light


@pytest.mark.parametrize("ground", GROUNDS)
def test_every_colour_stands_out(ground: str) -> None:
    for arm, shade in {**painted(ground), "other": getattr(OTHER, ground)}.items():
        assert contrast(shade, GROUNDS[ground]) >= 3.0, arm


@pytest.mark.parametrize("ground", GROUNDS)
@pytest.mark.parametrize("sight", SIGHTS)
def test_colours_are_told_apart_by_every_eye(ground: str, sight: str) -> None:
    shades = painted(ground)
    assert nearest([shades[arm] for arm in TOGETHER], sight) >= (18.0 if sight == "normal" else 9.0)
    assert nearest(shades.values(), sight) >= (6.0 if sight == "normal" else 4.0)


@pytest.mark.parametrize("sight", SIGHTS)
def test_series_are_told_apart_by_every_eye(sight: str) -> None:
    assert nearest(SERIES, sight) >= (12.0 if sight == "normal" else 6.0)


def test_lines_that_are_named_in_their_colour_stand_out() -> None:
    for shade in (BLUE, VERMILION):
        assert contrast(shade, GROUNDS["light"]) >= 3.0


def test_the_style_sheet_has_all_of_both_grounds() -> None:
    light, _, dark = style_sheet().partition("@media (prefers-color-scheme: dark)")
    for ground, text in (("light", light), ("dark", dark)):
        found = dict(re.findall(r"--arm-(\w+): (#[0-9A-F]{6});", text))
        assert found == {**painted(ground), "other": getattr(OTHER, ground)}
