# SPDX-License-Identifier: Apache-2.0
"""The cost of a switch, in seconds of the new arm's reward."""

import numpy as np
import pytest

from ltp_switcher.eval.run.series import FlowSeries
from ltp_switcher.eval.suite.plan import is_arm, plan
from ltp_switcher.eval.suite.studies import STUDIES
from ltp_switcher.eval.suite.transitions import Transition, cost_s, table_rows

BINS = 300


def series(*stays: tuple[float, float]) -> FlowSeries:
    """A flow with an RTT of 50 ms; `stays`: rates in Mbit/s, and when each ends."""
    one = np.ones(BINS)
    rate = np.array([next(mbps for mbps, end_s in stays if n * 0.1 < end_s - 1e-6) for n in range(BINS)])
    arm = ("bbr",) * BINS
    return FlowSeries(0, "x", np.arange(BINS) * 0.1, rate, 50 * one, *[one] * 4, 0 * one, *[one] * 4, arm)


def test_a_pause_after_the_switch_costs_as_long_as_it_lasts() -> None:
    bbr, ltp = series((8.0, 30.0)), series((10.0, 30.0))
    switched = series((8.0, 11.0), (0.0, 13.0), (10.0, 30.0))
    assert cost_s(switched, bbr, ltp) == pytest.approx(2.0)
    assert cost_s(series((8.0, 11.0), (10.0, 30.0)), bbr, ltp) == pytest.approx(0.0)


def test_nothing_before_the_switch_and_long_after_it_counts() -> None:
    bbr, ltp = series((8.0, 30.0)), series((10.0, 30.0))
    assert cost_s(series((1.0, 11.0), (10.0, 21.0), (1.0, 30.0)), bbr, ltp) == pytest.approx(0.0)


def test_no_switch_to_an_arm_that_earns_nothing_has_a_cost() -> None:
    assert cost_s(series((8.0, 30.0)), series((8.0, 30.0)), series((0.1, 30.0))) is None


def test_a_row_has_the_median_and_the_worst_path() -> None:
    (row,) = table_rows([Transition("bbr-to-ltp", {"a": 0.0, "b": 3.0, "c": 1.0})])
    assert row == ("bbr-to-ltp", "3", "+1.00", "+0.50 to +2.00", "b", "+3.00")


def test_the_study_runs_schedules_that_change_once_beside_the_arms_alone() -> None:
    study = STUDIES["transitions"]
    runs = plan("test", dict.fromkeys(study.schemes, 1), "6.1", quick=True, names=["slow-1"])
    assert {run.scheme for run in runs if is_arm(run.scheme)} == {"bbr", "vegas", "ltp"}
    schedules = {run.scheme: run.job.scenario.scheme for run in runs if not is_arm(run.scheme)}
    assert len(schedules) == 6
    assert schedules["vegas-to-ltp"] == "schedule:vegas@0,ltp@11"
