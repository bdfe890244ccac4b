# SPDX-License-Identifier: Apache-2.0
"""ε-greedy on paths made of numbers: it finds the best arm, and goes on trying the others."""

import numpy as np
import pytest
from river.bandit import EpsilonGreedy
from support.rule_flows import BBR, LTP, VEGAS, run

from ltp_switcher.daemon.choose.lab.epsilon_greedy import EpsilonGreedyChooser

POOL = (BBR, LTP, VEGAS)


def best_is(best: int, t: float, arm: int) -> tuple[float, float]:
    """The best arm keeps the queue empty, the others fill it; RTT in ms and share of the rate."""
    return (40.0, 1.0) if arm == best or t < 0.1 else (80.0, 1.0)


@pytest.mark.parametrize("best", POOL)
def test_the_best_arm_gets_most_of_the_time_and_the_others_some(best: int) -> None:
    chooser = EpsilonGreedyChooser(POOL, seed=5)
    arms = run(under=lambda t, arm: best_is(best, t, arm), duration_s=120.0, chooser=chooser)[:, 0]
    settled = arms[len(arms) // 10 :]
    assert 0.85 < np.mean(settled == best) < 0.99
    assert set(settled.tolist()) == set(POOL)


def test_without_exploration_every_arm_gets_one_stay() -> None:
    chooser = EpsilonGreedyChooser(POOL, epsilon=0.0)
    arms = run(under=lambda t, arm: best_is(LTP, t, arm), duration_s=30.0, chooser=chooser)[:, 0]
    stays = arms[np.flatnonzero(np.diff(arms, prepend=0))].tolist()
    assert stays == [BBR, LTP, VEGAS, LTP]
    assert [one.arm for one in chooser.estimates(0)] == list(POOL)
    assert max(chooser.estimates(0), key=lambda one: one.mean).arm == LTP


def test_a_flow_of_its_own_pool_tries_nothing_else() -> None:
    chooser = EpsilonGreedyChooser(POOL, epsilon=1.0)
    chooser.open(np.array([0]), [""])
    chooser.close(np.array([0]))
    chooser.set_pool([VEGAS], np.array([0]))
    arms = run(lambda _: 40.0, lambda _: 50.0, duration_s=40.0, chooser=chooser)
    assert set(arms[len(arms) // 2 :, 0].tolist()) == {VEGAS}
    assert set(arms[:, 1].tolist()) == set(POOL)


class BesideRiver(EpsilonGreedyChooser):
    """Asks river, too, which gets the same rewards: four of each stay, after two that do not count."""

    def __init__(self) -> None:
        super().__init__(POOL, epsilon=0.0)
        self.policy = EpsilonGreedy(epsilon=0.0, burn_in=4, seed=1)
        self.agreed: list[bool] = []
        self.looks = 0

    def _learn(self, slots: np.ndarray) -> None:
        arm = int(self._arm[0])
        super()._learn(slots)
        self.looks += 1
        if (self.looks - 1) % 6 >= 2:
            self.policy.update(arm, float(self._looks.share[0]))
        if self.looks % 6 == 0:
            self.agreed.append(self.policy.pull(list(POOL)) == self._arm[0])


def test_the_greedy_choice_is_rivers() -> None:
    rng, chooser = np.random.default_rng(3), BesideRiver()
    queue_ms = {LTP: 10.0, VEGAS: 14.0}
    run(
        under=lambda _, arm: (40.0 + float(rng.exponential(queue_ms.get(arm, 12.0))), 1.0),
        duration_s=60.0,
        chooser=chooser,
    )
    assert len(chooser.agreed) > 30
    assert all(chooser.agreed)
    assert len({one.arm for one in chooser.estimates(0)}) == 3
