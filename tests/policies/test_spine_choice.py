# SPDX-License-Identifier: Apache-2.0
"""The score that chooses Spine's weights, on arms whose sub-policy never changes."""

from __future__ import annotations

import numpy as np
import pytest

from ltp_switcher.arrays import Floats, Ints
from ltp_switcher.policies.runtime.arm import Law
from ltp_switcher.policies.runtime.measurements import Interval
from ltp_switcher.policies.simulator.totals import Totals
from ltp_switcher.policies.spine import choice
from ltp_switcher.policies.spine.play import SpineRun, constant, play, square_wave


class Constant:
    """Says one sub-policy (α_thr, α_lat, α_tol, α_loss) at every interval."""

    law = Law.AIMD

    def __init__(self, interval_s: float, *parameters: float) -> None:
        self.interval_s = interval_s
        self._parameters = np.array(parameters)

    def begin(self, slots: Ints, window_pkts: Floats) -> None:
        pass

    def decide(self, slots: Ints, interval: Interval) -> Floats:
        return np.tile(self._parameters, (len(slots), 1))


GREEDY = (0.2, 0.0, 2.0, 1.0)
MEEK = (0.005, 0.3, 0.05, 0.5)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "DURATION_S", 5.0)
    monkeypatch.setattr(choice, "BESIDE_CUBIC_S", 5.0)


def test_a_cubic_flow_is_where_it_is_asked_for() -> None:
    paths = constant(np.full(2, 20.0), np.full(2, 30.0))
    np.testing.assert_allclose(paths.buffer_pkts, 50.0)
    run = play(Constant(0.1, *MEEK), Law.AIMD, 0.1, paths, np.array([False, True]), duration_s=4.0)
    acked_pkts, served_pkts = run.totals.acked_pkts, run.totals.served_pkts
    assert acked_pkts[1, 0] == 0.0 < acked_pkts[1, 1]
    assert (acked_pkts[0] <= served_pkts).all()
    np.testing.assert_allclose(served_pkts, 2.0 * 20e6 / 8 / 1500, rtol=0.06)
    assert (run.generated == run.generated[0]).all()


def test_a_square_wave_halves_and_doubles_where_it_is_asked_for() -> None:
    paths = constant(np.array([20.0, 40.0]), np.full(2, 30.0))
    steps = square_wave(paths, np.array([True, False]), period_s=8.0, changes=3).steps
    np.testing.assert_array_equal(steps.at_s, [[8.0, np.inf], [16.0, np.inf], [24.0, np.inf]])
    np.testing.assert_array_equal(steps.rate_mbps[:, 0], [10.0, 20.0, 10.0])


def test_taking_all_and_leaving_all_are_unfriendly() -> None:
    greedy, meek, between = (
        choice.friendliness(lambda interval_s, said=said: Constant(interval_s, *said))
        for said in (GREEDY, MEEK, (0.02, 0.02, 1.0, 0.7))
    )
    assert greedy < between < 0.0
    assert meek < between


def test_the_least_friendly_link_is_what_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    cubic_pkts = np.full(choice.BESIDE_CUBIC.shape[1] * choice.REPEATS, 1000.0)
    acked_pkts = cubic_pkts.copy()
    acked_pkts[-choice.REPEATS :] *= np.e**-2
    totals = Totals.none(2, cubic_pkts.size)
    totals.acked_pkts[:] = acked_pkts, cubic_pkts
    monkeypatch.setattr(choice, "play", lambda *_, **__: SpineRun(totals, np.zeros_like(cubic_pkts)))
    score = choice.friendliness(lambda interval_s: Constant(interval_s, *GREEDY))
    assert score == pytest.approx(-2.0 * choice.UNFRIENDLY)


def test_what_hangs_on_the_interval_is_unsteady(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "HASTY", 0.0)
    alike = choice.steadiness(lambda interval_s: Constant(interval_s, *GREEDY))
    by_interval = {0.020: MEEK, 0.200: GREEDY, 0.300: GREEDY}
    apart = choice.steadiness(lambda interval_s: Constant(interval_s, *by_interval[interval_s]))
    assert -0.05 < alike <= 0.0
    assert apart < -0.5


def test_to_change_the_sub_policy_at_every_interval_is_hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """`Constant` says its sub-policy anew at each."""
    monkeypatch.setattr(choice, "UNSTEADY", 0.0)
    score = choice.steadiness(lambda interval_s: Constant(interval_s, *GREEDY))
    assert score == pytest.approx(-choice.HASTY * np.log(choice.SELDOM_S / 0.2), rel=0.05)
