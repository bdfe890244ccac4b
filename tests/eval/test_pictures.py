# SPDX-License-Identifier: Apache-2.0
"""The words in pictures: who won, the events on the link, and the name of each line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from ltp_switcher.eval.report.demo import who_won
from ltp_switcher.eval.report.drawing import NamedLine, name_lines
from ltp_switcher.eval.report.timeline import event_texts
from ltp_switcher.eval.run.bundled import find_scenario
from ltp_switcher.eval.run.scenario import LinkStep


@pytest.mark.parametrize(
    ("scores", "title"),
    [
        ({"switcher": 6.0, "cubic": 2.0, "bbr": 5.0}, "The switcher wins, 20 % ahead of bbr"),
        ({"switcher": 6.0, "cubic": 0.0}, "The switcher wins. No other scheme has a score"),
        ({"switcher": 0.0, "cubic": 0.0}, "No scheme has a score"),
        ({"switcher": 5.0, "cubic": 2.0, "bbr": 8.0}, "bbr wins. The switcher is second, 38 % behind"),
        ({"switcher": 3.0, "a": 4.0, "b": 6.0, "c": 1.0}, "b wins. The switcher is third, 50 % behind"),
        ({"switcher": 1.0, "cubic": 2.0, "bbr": 4.0}, "bbr wins. The switcher is last, 75 % behind"),
    ],
)
def test_the_title_says_who_won_and_by_how_much(scores: dict[str, float], title: str) -> None:
    assert who_won(scores, "switcher") == title


def test_events_are_told_in_words() -> None:
    assert event_texts(find_scenario("demo").link) == [
        "12 Mbit/s,\nRTT 40 ms", "rate doubles\nto 24 Mbit/s", "RTT doubles\nto 80 ms", "1 % random loss",
    ]  # fmt: skip
    steps = (LinkStep(1.0, rate_mbps=9.0, rtt_ms=100.0), LinkStep(2.0, loss=0.0))
    assert event_texts(replace(find_scenario("fixed").link, loss=0.0005, steps=steps)) == [
        "48 Mbit/s,\nRTT 40 ms,\n0.05 % random loss",
        "rate falls\nto 9 Mbit/s\nRTT rises\nto 100 ms",
        "no more random loss",
    ]


def named(lines: list[NamedLine], ceiling: float = 1.0) -> dict[str, Text]:
    """The names that are written into axes from 0 to 10 and 0 to 1, with their places in these units."""
    figure = Figure(figsize=(10, 5))
    axes = figure.subplots()
    axes.set(xlim=(0, 10), ylim=(0, 1))
    name_lines(figure, axes, lines, ceiling=ceiling)
    return {text.get_text(): text for text in axes.texts}


def test_a_name_stands_by_its_own_line_where_the_others_are_far() -> None:
    x = np.linspace(0, 10, 101)
    rising = NamedLine("rising", "#000000", x, np.where(x < 5, 0.5, 0.9))
    level = NamedLine("level", "#0072B2", x, np.full(101, 0.5))
    texts = named([rising, level])
    places = {name: text.get_position() for name, text in texts.items()}
    assert places["rising"][0] > 0.5
    assert places["rising"][1] == pytest.approx(0.9, abs=0.08)
    assert places["level"][0] > 0.5
    assert places["level"][1] == pytest.approx(0.5, abs=0.08)
    assert texts["level"].get_color() == "#0072B2"


def test_a_name_stands_where_its_line_is_told_from_the_next() -> None:
    """Over the step at 6 there is more space, but the lines run together up to there."""
    x = np.linspace(0, 10, 101)
    line = NamedLine("line", "#000000", x, np.where(x < 6, 0.2, 0.3))
    other = NamedLine("", "#000000", x, np.where(x < 6.2, 0.2, np.where(x < 8, 0.3, 0.27)))
    assert named([line, other])["line"].get_position()[0] > 0.8


def test_a_name_stands_where_its_line_is_level() -> None:
    x = np.linspace(0, 10, 101)
    line = NamedLine("line", "#000000", x, np.where(x < 7, x / 10, 0.7))
    assert named([line])["line"].get_position()[0] > 0.7


def test_a_name_keeps_below_the_ceiling_and_off_other_names() -> None:
    x = np.linspace(0, 10, 101)
    lines = [NamedLine(name, "#000000", x, np.full(101, 0.85)) for name in ("one", "two")]
    places = [text.get_position() for text in named(lines, ceiling=0.86).values()]
    assert len(places) == 2
    assert all(y < 0.85 for _, y in places)
    assert abs(places[0][0] - places[1][0]) > 0.03


def test_a_line_without_a_name_is_kept_clear_of() -> None:
    x = np.linspace(0, 10, 101)
    line = NamedLine("line", "#000000", x, np.full(101, 0.5))
    above = NamedLine("", "#000000", x, np.full(101, 0.53))
    texts = named([line, above])
    assert list(texts) == ["line"]
    assert texts["line"].get_position()[1] < 0.5


def test_a_line_that_is_nowhere_stays_without_a_name() -> None:
    x = np.linspace(0, 10, 101)
    assert named([NamedLine("gone", "#000000", x, np.full(101, np.nan))]) == {}
