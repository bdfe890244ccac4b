# SPDX-License-Identifier: Apache-2.0
"""Whether another flow fills the queue of a path.

An arm that keeps the queue short gives way to a flow that does not, and starves. The flow then sees a low
rate, and an RTT that stays above the path's. A link that has become slow looks the same. So the rule tests:
it lets the probing arm run for a while. If the rate rises by much, another flow had taken the rest.

A test costs reward, and on a cellular link it finds nothing. So each test or rival makes the time until the
next test twice as long.
"""

from __future__ import annotations

import warnings
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Slots
from ltp_switcher.slots import SlotArrays, column, put_first

LOOKS: Final = 12
"""Looks that must agree; a look lasts a quarter of a second and two round trips."""
STANDS: Final = 1.1
"""The lowest RTT of each look exceeds the path's by this factor: a queue stands."""
CONSTANT: Final = 1.2
"""The lowest RTTs of these looks differ by no more than this factor, as on a link whose rate varies."""
SLOW: Final = 0.5
"""The mean rate is below this share of the highest that the path has shown."""
GAIN: Final = 1.5
"""A rate that rises by this factor under the probing arm was kept low by another flow."""
TESTED_LOOKS: Final = 4
"""The last looks of a test, whose rates count."""
DOUBLED_MAX: Final = 4
"""Most doublings of a waiting time."""


class Rivals(SlotArrays):
    """The traces of other flows that the players have seen.

    Args:
        patience_s: time from a test that found nobody to the next; as long, a rival's flow keeps its arm.
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
    """Tests so far."""

    def __init__(self, patience_s: float) -> None:
        super().__init__()
        self._patience_ns = patience_s * 1e9

    def look(self, slots: Slots, least_us: Floats, rate_Bps: Floats) -> None:
        """Take in the looks of these flows, arrays of shape (n,)."""
        put_first(self._lows_us, slots, least_us)
        put_first(self._rates, slots, rate_Bps)

    def other_arm(self, slots: Slots) -> None:
        """These flows change their arms: the looks before say nothing of the next."""
        self._lows_us[slots] = np.nan
        self._rates[slots] = np.nan

    def suspected(self, slots: Slots, floor_us: Floats, top_Bps: Floats, now_ns: Floats) -> Bools:
        """True where a test is due, because a queue stands while the rate is low.

        Args:
            slots: shape (n,).
            floor_us: lowest RTT of the path, shape (n,).
            top_Bps: highest rate that the path has shown, shape (n,).
            now_ns: shape (n,).
        """
        lows_us = self._lows_us[slots]
        # Comparisons with NaN are false: all looks have to be there.
        stands = lows_us.min(axis=1) > STANDS * floor_us
        constant = lows_us.max(axis=1) <= CONSTANT * lows_us.min(axis=1)
        slow = self._rates[slots].mean(axis=1) < SLOW * top_Bps
        found: Bools = stands & constant & slow & (now_ns >= self._again_ns[slots])
        return found

    def test(self, slots: Slots) -> None:
        """A test begins: remember the rates as they are."""
        self._before[slots] = _mean(self._rates[slots])

    def gain(self, slots: Slots) -> Floats:
        """The factor by which the rate has risen in the test, shape (n,); NaN if not known."""
        gain: Floats = _mean(self._rates[slots, :TESTED_LOOKS]) / self._before[slots]
        return gain

    def lowest_us(self, slots: Slots) -> Floats:
        """The lowest RTT under the arm that runs, shape (n,)."""
        lowest_us: Floats = np.fmin.reduce(self._lows_us[slots], axis=1)
        return lowest_us

    def wait(self, slots: Slots, now_ns: Floats) -> Floats:
        """The time from now until the next test, ns, shape (n,). It grows from test to test."""
        wait_ns: Floats = self._patience_ns * 2.0 ** np.minimum(self._count[slots], DOUBLED_MAX)
        self._count[slots] += 1
        self._again_ns[slots] = (now_ns + wait_ns).astype(np.int64)
        return wait_ns


def _mean(rates: Floats) -> Floats:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of a row that is NaN throughout
        mean: Floats = np.nanmean(rates, axis=1)
    return mean
