# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.slots import begun

from ltp_switcher.daemon.choose.bandit.reward import RewardNormaliser
from ltp_switcher.daemon.datapath.performance import Performance
from ltp_switcher.daemon.settings.schema import LearningSection

ONE = np.zeros(1, np.intp)
CUBIC = np.ones(1, np.intp)


def of(value: float) -> np.ndarray:
    return np.array([value])


def test_without_a_measurement_there_is_no_reward() -> None:
    normaliser = begun(RewardNormaliser(LearningSection()))
    assert normaliser.normalise(ONE, Performance(of(1.0), of(0.0), of(1.0)))[0] == 0
    normaliser.update(ONE, CUBIC, of(1e6), of(1e4), np.zeros(1, np.int64))
    assert normaliser.normalise(ONE, Performance(of(1e6), of(0.0), of(0.0)))[0] == 0
    assert normaliser.normalise(ONE, Performance(of(1e6), of(0.0), of(1e4)))[0] == 1
    assert normaliser.normalise(ONE, Performance(of(2e6), of(0.0), of(1e4)))[0] == 1


def test_weights_are_the_settings() -> None:
    """Half the rate, a tenth of it lost, twice the RTT."""
    normaliser = begun(RewardNormaliser(LearningSection(zeta=2.0, kappa=3.0)))
    normaliser.update(ONE, CUBIC, of(1e6), of(1e4), np.zeros(1, np.int64))
    seen = Performance(of(5e5), of(0.1), of(2e4))
    assert normaliser.normalise(ONE, seen)[0] == pytest.approx((0.5 * 0.8) ** 3 / 2)


@settings(max_examples=60, deadline=None)
@given(st.floats(1.25e4, 1.25e9), st.floats(50, 1e6), st.floats(0.1, 1), st.floats(1, 5), st.floats(0, 0.19))
def test_normalised_reward_is_free_of_scale(
    rate: float, rtt: float, share: float, queue: float, loss: float
) -> None:
    def normalised(scale_rate: float, scale_rtt: float) -> float:
        normaliser = begun(RewardNormaliser(LearningSection()))
        for i in range(40):
            normaliser.update(ONE, CUBIC, of(rate * scale_rate), of(rtt * scale_rtt), np.array([i * 10**7]))
        return float(normaliser.normalise(ONE, Performance(of(rate * share * scale_rate), of(loss),
                                                           of(rtt * queue * scale_rtt)))[0])  # fmt: skip

    here = normalised(1, 1)
    assert here == pytest.approx((share * (1 - 5 * loss)) ** 2 / queue)
    assert 0 <= here <= 1
    assert normalised(1e3, 0.1) == pytest.approx(here)


def run(normaliser: RewardNormaliser, arm: int, rate: float, rtt: float, start: int, steps: int) -> int:
    rng = np.random.default_rng(start)
    changes = 0
    for i in range(start, start + steps):
        noise = rng.uniform(0.97, 1.0)
        changes += int(normaliser.update(ONE, np.array([arm]), of(rate * noise), of(rtt / noise),
                                         np.array([i * 10**7]))[0])  # fmt: skip
    return changes


def test_r_max_follows_the_path_down() -> None:
    normaliser = begun(RewardNormaliser(LearningSection()))
    assert run(normaliser, 1, 3e6, 4e4, 0, 300) == 0
    assert normaliser.throughput_max_Bps[0] == pytest.approx(3e6, rel=0.03)
    assert run(normaliser, 1, 1e6, 8e4, 300, 300) > 0
    assert normaliser.throughput_max_Bps[0] == pytest.approx(1e6, rel=0.03)
    assert normaliser.rtt_min_us[0] == pytest.approx(8e4, rel=0.03)


def test_an_arm_that_fills_the_queue_does_not_move_d_min() -> None:
    normaliser = begun(RewardNormaliser(LearningSection()))
    run(normaliser, 3, 3e6, 4e4, 0, 200)
    run(normaliser, 1, 3e6, 4e4, 200, 100)
    assert run(normaliser, 1, 3e6, 1.2e5, 300, 200) > 0
    assert normaliser.rtt_min_us[0] == pytest.approx(4e4, rel=0.04)
    # Ten seconds on, what the other arm knew is out of date.
    run(normaliser, 1, 3e6, 3e5, 1500, 200)
    assert normaliser.rtt_min_us[0] > 1.2e5


def test_slots_are_reused_and_grow() -> None:
    normaliser = begun(RewardNormaliser(LearningSection()), 50)
    slots = np.arange(50)
    for arm in (1, 2, 3):
        normaliser.update(slots, np.full(50, arm), np.full(50, 1e6), np.full(50, 1e4), np.zeros(50, np.int64))
    normaliser.reset(slots)
    assert normaliser.throughput_max_Bps.max() == 0
    normaliser.update(slots, np.full(50, 4), np.full(50, 2e6), np.full(50, 1e4), np.zeros(50, np.int64))
    assert normaliser._streams.capacity < 800
    assert (normaliser.throughput_max_Bps == 2e6).all()


def test_the_kernels_minimum_keeps_a_queue_of_our_own_from_being_the_path() -> None:
    """One arm alone fills the queue: by its windows alone, d_min would rise with it."""
    normaliser = begun(RewardNormaliser(LearningSection()))
    for t in range(400):
        rtt = of(4e4 if t < 200 else 2e5)
        normaliser.update(ONE, CUBIC, of(3e6), rtt, np.array([t * 10**7]), of(4e4))
    assert normaliser.rtt_min_us[0] == 4e4
