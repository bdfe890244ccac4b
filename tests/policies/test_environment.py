# SPDX-License-Identifier: Apache-2.0
"""Drawn links, and episodes of agents on them."""

from __future__ import annotations

import numpy as np
import pytest

from ltp_switcher.errors import InvalidValueError
from ltp_switcher.policies.simulator import Flows, Paths, Roster, SimulatedInterval, Simulator
from ltp_switcher.policies.simulator.regions import JURY, LTP_LARGE, LTP_SMALL, SPINE, Region, draw
from ltp_switcher.policies.simulator.tasks import Actions, Array, Environment

ROSTER = Roster(window=5, cubic=5)


class Multiply:
    """The window grows by the action (LTP Eq. 8, α 0.1); the reward is the utilisation."""

    observation_size = 2
    action_size = 1

    def begin(self, simulator: Simulator, paths: Paths, flows: Flows) -> None:
        self._simulator = simulator
        self._window = np.full((ROSTER.window, paths.count), 10.0)

    def apply(self, actions: Actions) -> None:
        self._window = np.maximum(self._window * (1.0 + 0.1 * actions.reshape(self._window.shape)), 2.0)
        self._simulator.set_window(self._window)

    def observe(self, interval: SimulatedInterval) -> tuple[Array, Array]:
        rows = self._simulator.window_rows
        slots = ROSTER.window * interval.rtt_s.shape[1]
        observations = np.stack((interval.rtt_s[rows], interval.delivered_pps[rows]), axis=2)
        rewards = interval.delivered_pps[rows] / interval.capacity_pps
        return observations.reshape(slots, 2).astype(np.float32), rewards.reshape(slots).astype(np.float32)


def make() -> Environment:
    return Environment(Multiply(), JURY, ROSTER, environments=8, duration_s=1.5)


@pytest.mark.parametrize("region", [LTP_SMALL, LTP_LARGE, JURY, SPINE])
def test_drawn_links_lie_in_their_region(region: Region) -> None:
    paths, flows = draw(region, ROSTER, 500, 100.0, np.random.default_rng(1))
    for name, bounds in (("rate_mbps", region.rate_mbps), ("rtt_ms", region.rtt_ms), ("loss", region.loss)):
        values = getattr(paths, name)
        assert bounds[0] <= values.min() <= values.max() <= bounds[1]
        assert np.ptp(values) > 0.9 * (bounds[1] - bounds[0])
    present = np.isfinite(flows.start_s)
    count = present.sum(axis=0)
    assert count.min() == region.flows[0]
    assert count.max() == region.flows[1]
    assert (flows.start_s[0] == 0.0).all()
    assert 0.35 < present[5:].sum() / (count - 1).sum() < 0.65
    assert (flows.rtt_ms >= paths.rtt_ms - 1e-9).all()


def test_a_region_with_more_flows_than_slots_is_refused() -> None:
    with pytest.raises(InvalidValueError, match=r"region\.flows"):
        draw(JURY, Roster(window=2, cubic=2), 4, 10.0, np.random.default_rng(1))


def test_an_episode_repeats_and_ends_in_time() -> None:
    def play(environment: Environment, seed: int) -> list[Array]:
        seen = environment.reset(seed)
        rewards = []
        while not seen.over:
            seen = environment.step(np.full((environment.slots, 1), 0.3, np.float32))
            rewards.append(np.where(seen.active, seen.rewards, 0.0))
        return rewards

    environment = make()
    first, other, again = play(environment, 1), play(environment, 2), play(environment, 1)
    assert len(first) == 49
    np.testing.assert_array_equal(first, again)
    assert (np.array(first) != np.array(other)).any()
