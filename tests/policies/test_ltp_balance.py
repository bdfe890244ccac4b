# SPDX-License-Identifier: Apache-2.0
"""LTP's estimator as it knows the network best, on echoes and on pairs of the simulator."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from support.ltp_echoes import echo, followed, interval

from ltp_switcher.policies.ltp.balance import WHOLE, BalanceFilter
from ltp_switcher.policies.ltp.ccmatic import BeliefSets
from ltp_switcher.policies.ltp.estimation import judge
from ltp_switcher.policies.ltp.estimator_traces import simulate
from ltp_switcher.policies.simulator import Flows, Paths, Roster


def test_a_full_queue_tells_the_load_by_what_is_lost() -> None:
    # Particle division: at the largest delay, a loss of 20 % is a load of 1.25 for those with a full queue.
    states = [echo(k, 1250.0, 1000.0, 0.06) for k in range(20)]
    quiet = followed(BalanceFilter, [*states, echo(20, 1250.0, 1000.0, 0.06)], loss_gap=1e3)
    lossy = followed(BalanceFilter, [*states, echo(20, 1250.0, 1000.0, 0.06, 0.2)], loss_gap=1e3)
    loads = [made._rate[0] + made._others[0] for made in (quiet, lossy)]
    together = [load[~made._alone[0]] for load, made in zip(loads, (quiet, lossy), strict=True)]
    assert np.median(together[1]) > np.median(together[0]) + 0.1


def test_of_a_queue_that_stands_the_change_of_the_delay_tells_the_others_rate() -> None:
    # The queue shrinks by 6 ms in each 30 ms: x + x_o = 0.8, whatever x is.
    states = [echo(k, 500.0, 600.0, 0.20 - 0.006 * k) for k in range(12)]
    made = followed(BalanceFilter, states)
    rate, others = made._rate[0], made._others[0]
    shared = others > 0.01 + 1e-6
    np.testing.assert_allclose((rate + others)[shared], 0.8, atol=1e-5)
    assert shared.mean() > 0.3


def test_no_rate_is_beyond_what_the_largest_throughput_allows() -> None:
    # Eq. 4: c is at least the 1000 packets a second that were delivered.
    states = [echo(0, 1000.0, 1000.0), *(echo(k, 250.0, 250.0) for k in range(1, 10))]
    made = followed(BalanceFilter, states)
    assert made._rate.max() <= 0.25 * 1.1  # thr_max is smoothed


def test_who_was_served_alike_whatever_it_sent_has_the_link_alone() -> None:
    swing = [1000.0 * (1.0 + 0.25 * (k % 2)) for k in range(100)]
    made = followed(
        BalanceFilter, [echo(k, sending, 1000.0, 0.05) for k, sending in enumerate(swing)], particles=1000
    )
    assert made._alone.mean() > 0.8
    low, high = made.ranges(np.array([0])).rate[0]
    assert 1.15 < low < high < 1.35  # the last interval's 1.25


def test_while_the_largest_throughput_grows_nothing_is_held_against_a_particle() -> None:
    # Slow start: each echo finds more room. Whether this is all of the link, nobody can tell.
    states = [echo(k, 100.0 * 1.2**k, 100.0 * 1.2**k) for k in range(12)]
    made = followed(BalanceFilter, states, particles=2000)
    assert abs(made._whole.mean() - WHOLE) < 0.1


def test_a_pool_of_which_none_survives_begins_anew() -> None:
    made = followed(BalanceFilter, [echo(k, 1000.0, 1000.0, 0.05) for k in range(40)], particles=6)
    made._whole[:] = made._alone[:] = True  # alone, all of them,
    made.update(np.array([0]), interval(echo(40, 1000.0, 1.0, 0.05), echo(39)))  # and hardly served
    assert not made._alone.all()


def test_after_a_pause_the_old_particles_are_forgotten() -> None:
    narrow = followed(BalanceFilter, [echo(k, rtt_s=0.1) for k in range(20)])
    pool = narrow._shown.copy()
    narrow.update(np.array([0]), interval(echo(200, rtt_s=0.02), echo(19, rtt_s=0.1)))
    assert not np.isin(narrow._shown[0, 0], pool[0, 0]).any()


@given(
    st.lists(
        st.tuples(
            st.floats(0.0, 1e6),
            st.floats(1.0, 1e6),
            st.floats(1e-4, 10.0),
            st.floats(0.0, 0.999),
            st.integers(1, 30),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_ranges_are_finite_and_ordered_whatever_was_seen(
    signals: list[tuple[float, float, float, float, int]],
) -> None:
    states, index = [], 0
    for sending, delivered, rtt_s, loss, step in signals:
        index += step
        states.append(echo(index, sending, delivered, rtt_s, loss))
    ranges = followed(BalanceFilter, states, particles=50).ranges(np.array([0]))
    for pair in (ranges.rate, ranges.others, ranges.delay_s):
        assert np.isfinite(pair).all()
        assert 0.0 <= pair[0, 0] <= pair[0, 1]


def test_of_a_pair_of_cubics_it_covers_nine_tenths() -> None:
    paths, start_s = Paths.uniform(4, rate_mbps=100.0, rtt_ms=30.0), np.repeat([[0.0], [5.0]], 4, axis=1)
    flows = Flows(start_s, np.full((2, 4), np.inf), np.full((2, 4), np.nan))
    trace = simulate(paths, flows, Roster(cubic=2), duration_s=20.0, interval_s=0.1, seed=1)
    ours, theirs = judge(BalanceFilter(0.1, seed=1), trace), judge(BeliefSets(0.1), trace)
    assert ours.rate.coverage > max(0.9, theirs.rate.coverage)
    assert ours.others.coverage > max(0.9, theirs.others.coverage)
