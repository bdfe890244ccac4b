# SPDX-License-Identifier: Apache-2.0
"""The causes of lost reward: every bin has one, and the losses sum up to one less the share."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ltp_switcher.eval.run.scenario import Scenario, parse_scenario
from ltp_switcher.eval.run.series import FlowSeries
from ltp_switcher.eval.suite.losses import CAUSES, causes, losses_of, mean_by_cause, mean_regret_s

SCENARIO: Scenario = parse_scenario(
    {
        "name": "x", "duration_s": 40, "flow": [{"scheme": "rule"}],
        "link": {"rate_mbps": 10, "rtt_ms": 50, "step": [{"at_s": 20, "rate_mbps": 20}]},
    }
)  # fmt: skip
BINS = 400


def series(goodput_mbps: float | np.ndarray, *stays: tuple[str, float]) -> FlowSeries:
    """A flow with an RTT of 50 ms; `stays`: the arms, and when each ends."""
    one = np.ones(BINS)
    arm = tuple(next(name for name, end_s in stays if bin_ * 0.1 < end_s - 1e-6) for bin_ in range(BINS))
    return FlowSeries(
        0, "rule", np.arange(BINS) * 0.1, goodput_mbps * one, 50 * one, *[one] * 4, 0 * one, *[one] * 4, arm
    )


def test_the_first_cause_that_fits_counts() -> None:
    run = series(10.0, ("bbr", 2.0), ("ltp", 8.0), ("vegas", 10.0), ("ltp", 30.0), ("vegas", 40.0))
    named = [CAUSES[cause] for cause in causes(SCENARIO, run, "ltp")]
    expected = (
        ["start"] * 30 + ["same arm"] * 50 + ["probe"] * 20 + ["aftermath"] * 10 + ["same arm"] * 90
        + ["change"] * 20 + ["same arm"] * 80 + ["aftermath"] * 10 + ["wrong arm"] * 90
    )  # fmt: skip
    assert named == expected


def test_losses_are_shares_of_the_best_arms_reward() -> None:
    """The scheme has half of the rate, a quarter of the reward, in 9 of 40 seconds on a wrong arm."""
    rate = np.where(np.arange(BINS) >= 310, 5.0, 10.0)
    run = series(rate, ("ltp", 30.0), ("vegas", 40.0))
    arms = {"ltp": [series(10.0, ("ltp", 40.0))], "vegas": [series(8.0, ("vegas", 40.0))]}
    found = losses_of("x", SCENARIO, [run], arms)
    assert found.best_arm == "ltp"
    assert found.by_cause["wrong arm"] == pytest.approx(0.75 * 9 / 40)
    assert sum(found.by_cause.values()) == pytest.approx(0.75 * 9 / 40)
    assert found.regret_s[-1] == pytest.approx(0.75 * 9)
    assert found.regret_s[309] == pytest.approx(0.0)
    other = losses_of("y", SCENARIO, [series(10.0, ("ltp", 40.0))], arms)
    assert mean_by_cause([found, other])["wrong arm"] == pytest.approx(0.75 * 9 / 80)
    assert mean_regret_s([found, other])[-1] == pytest.approx(0.75 * 4.5)


@given(st.integers(0, 2**32 - 1), st.floats(1.0, 20.0))
def test_the_losses_sum_up_to_one_less_the_share(seed: int, best_mbps: float) -> None:
    rates = np.random.default_rng(seed).uniform(0.1, 50.0, BINS)
    run = series(rates, ("bbr", 2.0), ("ltp", 11.0), ("bbr", 13.0), ("ltp", 40.0))
    found = losses_of("x", SCENARIO, [run, run], {"ltp": [series(best_mbps, ("ltp", 40.0))]})
    share = float(np.mean(rates**2)) / best_mbps**2
    assert sum(found.by_cause.values()) == pytest.approx(1.0 - share, rel=1e-6)
