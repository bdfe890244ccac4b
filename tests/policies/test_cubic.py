# SPDX-License-Identifier: Apache-2.0
"""The simulator's Cubic by the numbers of RFC 9438."""

from __future__ import annotations

import numpy as np
import pytest

from ltp_switcher.policies.simulator.controllers import Feedback
from ltp_switcher.policies.simulator.cubic import Cubic

TICK_S = 0.01
RTT_S = 0.1


class Path:
    """A flow that gets every packet of its window acknowledged once a round trip, and loses when told to."""

    def __init__(self) -> None:
        self.cubic = Cubic((1, 1))
        self.now_s = 0.0
        self.resolved = 0.0

    def tick(self, lost: float = 0.0) -> float:
        """The window after the feedback of one tick, packets."""
        window = float(self.cubic.window[0, 0])
        acked = window * TICK_S / RTT_S
        self.now_s += TICK_S
        self.resolved += acked + lost
        one = np.ones((1, 1))
        self.cubic.on_feedback(
            Feedback(
                self.now_s, TICK_S, acked * one, lost * one, RTT_S * one, RTT_S * one, window * one,
                self.resolved * one, (self.resolved + window) * one,
            )
        )  # fmt: skip
        return float(self.cubic.window[0, 0])

    def until(self, window_pkts: float) -> float:
        """Tick until the window is so large; the time that it took, s."""
        began_s = self.now_s
        while self.tick() < window_pkts:
            assert self.now_s - began_s < 60.0
        return self.now_s - began_s


def test_a_loss_takes_three_tenths_of_the_window() -> None:
    """RFC 9438, 4.6: beta is 0.7."""
    path = Path()
    path.until(100.0)
    path.tick(lost=1.0)
    for _ in range(round(3.0 / TICK_S)):
        path.tick()
    before = float(path.cubic.window[0, 0])
    path.tick(lost=1.0)
    recovering = [path.tick() for _ in range(9)]
    assert min(recovering) == pytest.approx(0.7 * before, rel=0.02)


def test_the_window_is_back_after_the_time_of_the_cubic() -> None:
    """RFC 9438, 4.2: K is the cube root of what was given up over C, and C is 0.4."""
    path = Path()
    path.until(400.0)
    path.tick(lost=1.0)
    kept = min(path.tick() for _ in range(round(RTT_S / TICK_S)))
    before = kept / 0.7
    # A window grows towards the target of a round trip later, and flatly: so to a hundredth of the target.
    took_s = path.until(0.99 * before) + RTT_S
    flat_s = (0.01 * before / 0.4) ** (1 / 3)
    assert took_s == pytest.approx((0.3 * before / 0.4) ** (1 / 3) - flat_s, rel=0.05)


def test_losses_leave_two_packets() -> None:
    """RFC 9438, 4.6: no window below two packets."""
    path = Path()
    for _ in range(300):
        path.tick(lost=1.0)
        for _ in range(round(1.5 * RTT_S / TICK_S)):
            window = path.tick()
    assert 2.0 <= window <= 3.0
