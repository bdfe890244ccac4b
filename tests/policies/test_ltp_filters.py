# SPDX-License-Identifier: Apache-2.0
"""The two particle filters of LTP."""

from __future__ import annotations

import numpy as np
import pytest
from support.ltp_echoes import DT_S, echo, followed, interval

from ltp_switcher.policies.ltp.balance import BalanceFilter
from ltp_switcher.policies.ltp.particles import ParticleFilter

Made = type[ParticleFilter] | type[BalanceFilter]
both = pytest.mark.parametrize("make", [ParticleFilter, BalanceFilter])


@both
def test_nothing_is_known_before_the_first_echo(make: Made) -> None:
    made = followed(make, [])
    assert np.isnan(made.ranges(np.array([0])).rate).all()


@both
def test_equal_seeds_give_equal_ranges_and_ranges_are_ordered(make: Made) -> None:
    states = [echo(k, 1000.0 + 50 * (k % 3), 990.0, 0.02 + 0.001 * (k % 4)) for k in range(30)]
    first, second = (followed(make, states).ranges(np.array([0])) for _ in range(2))
    for name in ("rate", "others", "delay_s"):
        low, high = getattr(first, name)[0]
        assert 0.0 <= low <= high
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))


@both
def test_an_echo_counts_once(make: Made) -> None:
    made = followed(make, [echo(0), echo(1)])
    before = made.ranges(np.array([0]))
    made.update(np.array([0]), interval(echo(1), echo(0)))
    np.testing.assert_array_equal(before.rate, made.ranges(np.array([0])).rate)


@both
def test_slots_do_not_mix(make: Made) -> None:
    made = make(DT_S, seed=1, particles=100)
    made.reset(np.arange(3))
    made.update(np.array([2, 0]), interval(echo(0, n=2), echo(-1, n=2)))
    known = np.isfinite(made.ranges(np.arange(3)).rate[:, 0])
    np.testing.assert_array_equal(known, [True, False, True])
    made.reset(np.array([2]))
    made.grow(5)
    known = np.isfinite(made.ranges(np.arange(5)).rate[:, 0])
    np.testing.assert_array_equal(known, [True, False, False, False, False])
