# SPDX-License-Identifier: Apache-2.0
"""Siblings under a learned arm share one window and the lowest RTT."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.records import record

from ltp_switcher.daemon.datapath import protocol
from ltp_switcher.daemon.steer.arms import LearnedArms
from ltp_switcher.daemon.steer.ensemble import shared
from ltp_switcher.policies.runtime.arm import Law
from ltp_switcher.policies.runtime.measurements import Interval

LTP = int(protocol.ArmId.LTP)
Flow = st.tuples(st.integers(0, 3), st.floats(2.0, 1e4), st.booleans())


@given(st.lists(Flow, min_size=1, max_size=20))
@settings(deadline=None)
def test_shared_windows_are_equal_and_their_sum_stays(flows: list[tuple[int, float, bool]]) -> None:
    players, window_pkts, unused = (np.array(column) for column in zip(*flows, strict=True))
    made = shared(players, window_pkts, unused)
    np.testing.assert_array_equal(made[unused], window_pkts[unused])
    for player in set(players.tolist()):
        mine = (players == player) & ~unused
        if mine.any():
            assert made[mine].sum() == pytest.approx(window_pkts[mine].sum())
            assert np.ptp(made[mine]) <= 1e-9 * made[mine].max()


class Keeping:
    """An arm that keeps the windows as it has them, and remembers what it was told of the RTT."""

    law = Law.WINDOW
    interval_s = 0.030

    def __init__(self) -> None:
        self.windows = np.zeros(10)
        self.rtt_min_s = np.zeros(0)
        self.siblings = np.zeros(10)

    def begin(self, slots: np.ndarray, window_pkts: np.ndarray) -> None:
        self.windows[slots] = window_pkts

    def displace(self, slots: np.ndarray, window_pkts: np.ndarray) -> None:
        self.windows[slots] = window_pkts

    def crowd(self, slots: np.ndarray, siblings: np.ndarray, index: int) -> None:
        self.siblings[slots] = siblings

    def decide(self, slots: np.ndarray, interval: Interval) -> np.ndarray:
        self.rtt_min_s = interval.rtt_min_s
        made: np.ndarray = self.windows[slots][:, None]
        return made


@pytest.mark.parametrize(("players", "sent"), [([0, 0, 1], [25, 25, 8]), (None, [10, 40, 8])])
def test_the_flows_of_a_player_get_equal_windows_and_keep_them(
    players: list[int] | None, sent: list[int]
) -> None:
    policy = Keeping()
    arms = LearnedArms(
        0.010,
        lambda _: policy,
        together=lambda slots: None if players is None else np.array(players)[slots],
    )
    slots = np.arange(3)
    made = []
    for step in range(7):
        rows = [
            record(i + 1, arm=LTP, snd_cwnd=window, in_flight=window, rtt_us=rtt, srtt_us=rtt, min_rtt_us=rtt,
                   rtt_samples=3, samples=3, total_delivered=10 * step)
            for i, (window, rtt) in enumerate([(10, 40_000), (40, 70_000), (8, 50_000)])
        ]  # fmt: skip
        made.append(arms.step(slots, np.concatenate(rows), step * 10_000_000))
    assert made[-1]["value"][:, 0].tolist() == sent
    assert policy.windows[:3].tolist() == sent
    assert policy.siblings[:3].tolist() == ([2, 2, 1] if players else [0, 0, 0])
    assert policy.rtt_min_s[1] <= (0.04 if players else 0.07)
    assert policy.rtt_min_s[0] == policy.rtt_min_s[1] or not players
