# SPDX-License-Identifier: Apache-2.0
"""The demo's intervals over seeds, from rewards that are made."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from rich.console import Console

from ltp_switcher.eval.report import demo, demo_picture
from ltp_switcher.eval.report.comparison_pictures import Bar, draw_groups
from ltp_switcher.eval.run.bundled import SCENARIOS
from ltp_switcher.eval.run.scenario import load_scenario


def test_interval_of_the_demo_is_about_the_seeds(tmp_path: Path) -> None:
    """Three seeds have 0.9, 1 and 1.1 of the best arm's mean on one network, and half of that on the other.

    Student's t with 2 degrees is 4.303: half an interval is 4.303 * 0.1 / sqrt(3) = 0.2484, or half of that.
    """
    scenarios = [load_scenario(SCENARIOS / f"demo/{name}.toml") for name in ("lossy", "far")]
    steady = {"ltp": (10.0,) * 3, "cubic": (0.0, 0.1, 0.4)}
    full, half = ({**steady, "switcher": tuple(by * r for r in (9.0, 10.0, 11.0))} for by in (1.0, 0.5))
    made = demo.Demo([], [demo.Network(one, of) for one, of in zip(scenarios, (full, half), strict=True)])
    first, second = (one.shares() for one in made.networks)
    assert (first["switcher"].value, second["switcher"].value) == pytest.approx((1.0, 0.5))
    assert first["switcher"].interval == pytest.approx((0.7516, 1.2484), abs=1e-4)
    assert second["switcher"].interval == pytest.approx((0.3758, 0.6242), abs=1e-4)
    assert first["ltp"].interval == pytest.approx((1.0, 1.0))
    # No scheme earns less than nothing.
    assert first["cubic"].interval == pytest.approx((0.0, 0.0167 + 4.303 * 0.02082 / 3**0.5), abs=1e-3)
    # Of each seed the geometric mean over both networks: 0.9, 1 and 1.1 times the root of a half.
    overall = made.overall["switcher"]
    assert overall.value == pytest.approx(0.5**0.5)
    assert overall.interval == pytest.approx((0.7071 - 0.1757, 0.7071 + 0.1757), abs=1e-3)
    told = Console(width=200, record=True, file=io.StringIO())
    demo.print_demo(made, told, tmp_path)
    assert "0.75 to 1.25" in told.export_text()


def test_only_the_overall_figures_are_bold() -> None:
    axes = Figure().subplots()
    shares = {name: demo.Share(share, (0.5, 1.5)) for name, share in (("switcher", 0.9), ("bbr", 0.8))}
    demo_picture._draw_shares(axes, {"lossy": shares, "far": shares}, shares)
    assert [str(text.get_fontweight()) for text in axes.texts] == ["normal"] * 4 + ["bold"] * 2


def test_a_bar_has_a_line_where_it_has_an_interval() -> None:
    axes = Figure().subplots()
    draw_groups(axes, [Bar("a", "ltp", 1.0, (0.7, 1.1)), Bar("a", "bbr", 0.5)])
    (line,) = axes.collections
    (ends,) = line.get_segments()  # type: ignore[attr-defined]
    assert [y for _, y in ends] == pytest.approx([0.7, 1.1])
