# SPDX-License-Identifier: Apache-2.0
"""Tests whether another flow fills the queue of a path. Such a flow is a rival.

An arm that keeps the queue short gives way to a rival that fills it, and starves. The flow then sees a low
rate, and an RTT that stays above the path's lowest. A link that has become slow looks the same. So the rule
lets the probing arm, BBR, run for a while, as a test. If the rate rises by much, a rival had taken the rest.

A test costs reward, and finds nothing on a cellular link. So the time until the next test doubles each time.
"""

from __future__ import annotations

import warnings
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Slots
from ltp_switcher.slots import SlotArrays, column, put_first

LOOKS: Final = 12
"""Number of looks that must agree before a rival, another flow that fills the queue, is suspected. A look
lasts a quarter of a second and two round trips at least.
"""
STANDS: Final = 1.1
"""A queue stands if the lowest RTT of each look (0.25 s or more) exceeds the path's lowest RTT by this
factor.
"""
CONSTANT: Final = 1.2
"""Largest ratio between the lowest RTTs of `LOOKS` looks (0.25 s or more each) behind a rival, another flow
that fills the queue. On a link whose rate varies, the ratio is larger.
"""
SLOW: Final = 0.5
"""A rate is low if its mean is below this share of the highest rate of the path."""
GAIN: Final = 1.5
"""If the rate rises by this factor while BBR, the probing arm, runs, another flow had kept it low."""
TESTED_LOOKS: Final = 4
"""Number of looks (0.25 s or more each) at the end of a test whose rates count. The test shows whether
another flow had taken a part of the rate.
"""
DOUBLED_MAX: Final = 4
"""Largest number of times that the time until the next test for another flow's queue doubles."""


class Rivals(SlotArrays):
    """The last looks of each player, in which a rival may show. A rival is another flow that fills the queue.

    A player is the flows that share a bottleneck. A look is the time over which measurements are summed up.

    Args:
        patience_s: time in seconds from the first test to the next one. After a test that found a rival, the
            flow keeps its arm for this time.
    """

    _lows_us = column(np.float64, LOOKS, initial=np.nan)
    """The lowest RTT of each look under the arm that runs, the newest first."""
    _rates = column(np.float64, LOOKS, initial=np.nan)
    """Rate of each look under the arm that runs, bytes/s; NaN where the application paused."""
    _before = column(np.float64, initial=np.nan)
    """The rate before the test, bytes/s."""
    _again_ns = column(np.int64)
    """Time before which no test begins, CLOCK_MONOTONIC."""
    _count = column(np.int64)
    """Number of tests so far."""

    def __init__(self, patience_s: float) -> None:
        super().__init__()
        self._patience_ns = patience_s * 1e9

    def look(self, slots: Slots, least_us: Floats, rate_Bps: Floats) -> None:
        """Take in the lowest RTT and the rate of one look of each player, each of shape (n,)."""
        put_first(self._lows_us, slots, least_us)
        put_first(self._rates, slots, rate_Bps)

    def other_arm(self, slots: Slots) -> None:
        """Forget the looks (0.25 s or more of measurements each) at these players, because their arms change
        now.
        """
        self._lows_us[slots] = np.nan
        self._rates[slots] = np.nan

    def suspected(self, slots: Slots, floor_us: Floats, top_Bps: Floats, now_ns: Floats) -> Bools:
        """True where a test is due, because a queue stands while the rate is low, shape (n,).

        Args:
            slots: players, shape (n,).
            floor_us: lowest RTT of the path, shape (n,).
            top_Bps: highest rate of the path, shape (n,).
            now_ns: CLOCK_MONOTONIC, shape (n,).
        """
        lows_us = self._lows_us[slots]
        # Comparisons with NaN are false, so all looks have to exist.
        stands = lows_us.min(axis=1) > STANDS * floor_us
        constant = lows_us.max(axis=1) <= CONSTANT * lows_us.min(axis=1)
        slow = self._rates[slots].mean(axis=1) < SLOW * top_Bps
        found: Bools = stands & constant & slow & (now_ns >= self._again_ns[slots])
        return found

    def test(self, slots: Slots) -> None:
        """Begin a test: keep the mean of the present rates, to compare later rates with it."""
        self._before[slots] = _mean(self._rates[slots])

    def gain(self, slots: Slots) -> Floats:
        """The factor by which the rate has risen since `test`, shape (n,); NaN if not known."""
        gain: Floats = _mean(self._rates[slots, :TESTED_LOOKS]) / self._before[slots]
        return gain

    def lowest_us(self, slots: Slots) -> Floats:
        """The lowest RTT of the last looks under the arm that runs, µs, shape (n,)."""
        lowest_us: Floats = np.fmin.reduce(self._lows_us[slots], axis=1)
        return lowest_us

    def wait(self, slots: Slots, now_ns: Floats) -> Floats:
        """Return the time from now until the next test, ns, shape (n,). Each call doubles the next time."""
        wait_ns: Floats = self._patience_ns * 2.0 ** np.minimum(self._count[slots], DOUBLED_MAX)
        self._count[slots] += 1
        self._again_ns[slots] = (now_ns + wait_ns).astype(np.int64)
        return wait_ns


def _mean(rates: Floats) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a row that is NaN throughout
        mean: Floats = np.nanmean(rates, axis=1)
    return mean
