# SPDX-License-Identifier: Apache-2.0
"""Breaches: the time for which a flow stays below half of another arm's reward."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ltp_switcher.arrays import Floats
from ltp_switcher.eval.run.scenario import Scenario, parse_scenario
from ltp_switcher.eval.run.series import FlowSeries
from ltp_switcher.eval.suite.breaches import breaches, of_flow, table_rows
from ltp_switcher.eval.suite.page import Results, html
from ltp_switcher.eval.suite.single import SinglePath

BINS = 400
"""40 s."""


def path(rtt_ms: float = 50.0) -> Scenario:
    return parse_scenario(
        {
            "name": "x",
            "duration_s": 40,
            "flow": [{"scheme": "rule"}],
            "link": {"rate_mbps": 10, "rtt_ms": rtt_ms},
        }
    )


def series(scheme: str, goodput_mbps: Floats, arm: tuple[str, ...] = ("bbr",) * BINS) -> FlowSeries:
    one, none = np.ones(BINS), np.zeros(BINS)
    t_s = np.linspace(0.0, (BINS - 1) * 0.1, BINS)
    return FlowSeries(
        flow=0, scheme=scheme, t_s=t_s, goodput_mbps=goodput_mbps, rtt_ms=50 * one,
        rtt_min_ms=one, rtt_max_ms=one, cwnd_pkts=one, delivery_rate_mbps=one, lost_pkts=none,
        delivered_pkts=one, retrans_pkts=none, capacity_mbps=one, queue_pkts=none, arm=arm,
    )  # fmt: skip


TWIN = series("bbr", np.full(BINS, 10.0))


def starving(from_s: float, to_s: float, goodput_mbps: float = 5.0) -> Floats:
    """A quarter of the reward for some time: the reward goes by the square of the goodput."""
    t_s = np.arange(BINS) * 0.1
    return np.where((t_s >= from_s - 0.01) & (t_s < to_s - 0.01), goodput_mbps, 10.0)


def test_only_the_time_beyond_a_check_and_a_probe_is_a_breach() -> None:
    # Two seconds for the check and one for the probe are allowed. The mean over a second is below half from
    # 0.7 s after the fall on, and above it again 0.4 s after the rise.
    shown, of_any = of_flow(path(), series("rule", starving(10, 20)), {"bbr": [TWIN]})
    assert shown == of_any == pytest.approx((10 - 0.6 - 3 + 0.3) / 40, abs=0.003)
    assert of_flow(path(), series("rule", starving(10, 13)), {"bbr": [TWIN]}) == (0.0, 0.0)
    # A long path allows 20 round trips and 16 of a probe: 10.8 s.
    assert of_flow(path(300), series("rule", starving(10, 20)), {"bbr": [TWIN]}) == (0.0, 0.0)


def test_more_than_half_is_no_breach() -> None:
    assert of_flow(path(), series("rule", starving(0, 40, 7.2)), {"bbr": [TWIN]}) == (0.0, 0.0)


def test_an_arm_counts_as_shown_only_after_it_ran() -> None:
    arms = ("vegas",) * 200 + ("bbr",) * 10 + ("vegas",) * 190
    flow = series("rule", np.full(BINS, 5.0), arms)
    shown, of_any = of_flow(path(), flow, {"bbr": [TWIN]})
    assert of_any == pytest.approx((40 - 3) / 40, abs=0.001)
    assert shown == pytest.approx((20 - 3) / 40, abs=0.005)


def test_a_pause_of_the_starving_begins_the_time_anew() -> None:
    goodput_mbps = np.minimum(starving(10, 12.5), starving(14, 16.5))
    assert of_flow(path(), series("rule", goodput_mbps), {"bbr": [TWIN]}) == (0.0, 0.0)


def test_the_twin_counts_at_the_same_time_and_as_the_mean_of_its_seeds() -> None:
    falls = series("bbr", starving(10, 20))
    flow = series("rule", starving(10, 20))
    assert of_flow(path(), flow, {"bbr": [falls]}) == (0.0, 0.0)
    # With one twin of two at a quarter, the mean is 0.625, and a quarter is below half of it.
    assert of_flow(path(), flow, {"bbr": [falls, TWIN]})[0] > 0.1


def test_a_flow_that_begins_later_is_compared_from_its_start_on() -> None:
    scenario = path()
    later = replace(scenario, flows=(replace(scenario.flows[0], start_s=5.0),))
    falls = starving(10, 20)
    assert of_flow(later, series("rule", falls), {"bbr": [series("bbr", falls)]}) == (0.0, 0.0)


def test_the_table_names_the_worst_path() -> None:
    calm = SinglePath("static", path(), {"rule": [TWIN], "bbr": [TWIN]})
    bad = replace(calm, series={"rule": [series("rule", starving(10, 20))], "bbr": [TWIN]})
    found = breaches({"calm-1": calm, "bad-1": bad})
    assert list(found) == ["rule"]
    ((scheme, number, mean, worst, of_any),) = table_rows(found)
    assert (scheme, number, worst.split()[1]) == ("rule", "2", "bad-1")
    assert float(mean) == float(of_any) == pytest.approx(8.4, abs=0.3)
    assert table_rows(breaches({"calm-1": calm}))[0][3] == "none"
    results = Results(set_name="x", kernel="6.1", quick=False, wall_s=0.0, breaches=found)
    told = results.to_dict()["breaches"]
    assert isinstance(told, dict)
    assert told["rule"]["shown"] == pytest.approx(0.084, abs=0.003)
    assert [one["path"] for one in told["rule"]["paths"]] == ["calm-1", "bad-1"]
    assert worst in html(results, {})
