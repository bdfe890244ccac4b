# SPDX-License-Identifier: Apache-2.0
"""The words in pictures: who won, the events on the link, and the name of each line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from ltp_switcher.eval.report.demo import NETWORKS, ranking
from ltp_switcher.eval.report.demo_picture import network_label
from ltp_switcher.eval.report.drawing import NamedLine, name_lines
from ltp_switcher.eval.report.timeline import draw_over_time, event_texts
from ltp_switcher.eval.run.bundled import SCENARIOS, find_scenario
from ltp_switcher.eval.run.scenario import LinkStep, load_scenario
from ltp_switcher.eval.run.series import FlowSeries


@pytest.mark.parametrize(
    ("shares", "title"),
    [
        ((0.98, 0.95, 0.5), "The switcher is first: 0.98 of the best arm; ltp 0.95, bbr 0.50"),
        ((0.914, 0.978, 0.5), "The switcher is second: 0.91 of the best arm; ltp 0.98, bbr 0.50"),
        ((0.951, 0.949, 0.5), "The switcher is first with ltp: 0.95 of the best arm; ltp 0.95, bbr 0.50"),
        ((0.4, 0.9, 0.95), "The switcher is last: 0.40 of the best arm; bbr 0.95, ltp 0.90"),
        ((0.4, 0.4, 0.95), "The switcher is last with ltp: 0.40 of the best arm; bbr 0.95, ltp 0.40"),
        ((10.5, 9.5, 2.0), "The switcher is first: 10.50 of the best arm; ltp 9.50, bbr 2.00"),
    ],
)
def test_the_title_ranks_the_schemes(shares: tuple[float, ...], title: str) -> None:
    assert ranking(dict(zip(("switcher", "ltp", "bbr"), shares, strict=True))) == title


def test_a_network_is_described() -> None:
    described = {name: network_label(load_scenario(SCENARIOS / f"demo/{name}.toml")) for name in NETWORKS}
    assert described["rtt-step"].splitlines() == ["rtt-step", "16 Mbit/s", "40 → 120 → 40 ms"]
    assert described["steady"].splitlines() == ["steady", "16 Mbit/s", "30 ms, 2 flows"]
    assert described["wifi"].splitlines() == ["wifi", "16 Mbit/s", "40 ms, turns ≤ 12 ms"]
    assert described["lossy"].splitlines() == ["lossy", "16 Mbit/s", "60 ms, 1 % loss"]
    assert described["cellular"].splitlines() == ["cellular", "LTE-like model", "40 ms"]


def test_events_are_told_in_words() -> None:
    doubling = (LinkStep(1.0, rate_mbps=96.0), LinkStep(2.0, rtt_ms=80.0), LinkStep(3.0, loss=0.01))
    assert event_texts(replace(find_scenario("fixed").link, steps=doubling)) == [
        "48 Mbit/s,\nRTT 40 ms", "rate doubles\nto 96 Mbit/s", "RTT doubles\nto 80 ms", "1 % random loss",
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


def flow(goodput_mbps: list[float], start_s: float = 0.0) -> FlowSeries:
    values, of = np.array(goodput_mbps), np.ones(len(goodput_mbps))
    t_s = start_s + 0.1 * np.arange(values.size)
    return FlowSeries(0, "cubic", t_s, values, *[of] * 10, ("cubic",) * values.size)


@pytest.mark.parametrize("bins", [1, 4, 9, 10])
def test_a_flow_that_is_shorter_than_the_mean_over_its_bins_is_drawn(bins: int) -> None:
    figure = Figure()
    rate, rtt, arm = figure.subplots(3)
    flows = [flow([5.0] * 60), flow([1.0, *[3.0] * (bins - 1)], start_s=2.0)]
    draw_over_time(figure, rate, rtt, arm, find_scenario("fixed"), flows)
    (drawn,) = (line for line in rate.lines if len(line.get_xdata()) == bins)  # type: ignore[arg-type]
    assert drawn.get_xdata() == pytest.approx(2.0 + 0.1 * np.arange(bins))
    near = [min(bins, n + 5) - max(0, n - 4) for n in range(bins)]
    means = [3.0 - (2.0 / count if n <= 4 else 0.0) for n, count in enumerate(near)]
    assert drawn.get_ydata() == pytest.approx(means)
