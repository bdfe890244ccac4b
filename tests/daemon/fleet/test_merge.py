# SPDX-License-Identifier: Apache-2.0
"""Lessons of several hosts become one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ltp_switcher.daemon.choose.visits.posterior import Posteriors
from ltp_switcher.daemon.fleet.merge import Merged, merge, quorum

HOSTS, SPREAD = 20, 0.005


@st.composite
def lessons(draw: st.DrawFn, hosts: int = 6) -> tuple[np.ndarray, np.ndarray]:
    """Means and variances of 2 prefixes and 3 arms, some of which a host does not know."""
    shape = (2, hosts, 3)
    mean = draw(arrays(float, shape, elements=st.floats(-6, 6)))
    variance = draw(arrays(float, shape, elements=st.floats(1e-4, 100)))
    unknown = draw(arrays(bool, shape))
    return np.where(unknown, 0.0, mean), np.where(unknown, np.inf, variance)


@given(lessons(), st.permutations(range(6)))
def test_the_order_of_hosts_says_nothing(told: tuple[np.ndarray, np.ndarray], order: list[int]) -> None:
    mean, variance = told
    one, other = merge(mean, variance), merge(mean[:, order], variance[:, order])
    assert np.allclose(one.mean, other.mean, atol=1e-6)
    assert np.allclose(one.variance, other.variance, rtol=1e-6)
    assert (one.apart[:, order] == other.apart).all()


@given(lessons())
def test_prefixes_and_silent_hosts_change_nothing(told: tuple[np.ndarray, np.ndarray]) -> None:
    mean, variance = told
    together = merge(mean, variance)
    padded = merge(
        np.pad(mean, ((0, 0), (0, 26), (0, 0))),
        np.pad(variance, ((0, 0), (0, 26), (0, 0)), constant_values=np.inf),
    )
    for found in (padded, Merged(*(np.concatenate(parts) for parts in zip(
        *((one.mean, one.variance, one.hosts, one.compared, one.apart)
          for one in (merge(mean[:1], variance[:1]), merge(mean[1:], variance[1:]))), strict=True,
    )))):  # fmt: skip
        assert np.allclose(found.mean, together.mean, atol=1e-9)
        assert np.allclose(found.variance, together.variance, rtol=1e-9)


@given(lessons(hosts=1))
def test_the_word_of_a_single_host_stays_as_it_is(told: tuple[np.ndarray, np.ndarray]) -> None:
    mean, variance = told
    found = merge(mean, variance)
    assert found.mean == pytest.approx(mean[:, 0])
    assert found.variance == pytest.approx(variance[:, 0])


@given(lessons())
def test_the_mean_lies_among_the_hosts(told: tuple[np.ndarray, np.ndarray]) -> None:
    mean, variance = told
    found, known = merge(mean, variance), np.isfinite(variance)
    somebody = known.any(axis=1)
    low = np.where(known, mean, np.inf).min(axis=1)
    high = np.where(known, mean, -np.inf).max(axis=1)
    # Each host pulls towards itself by no more than its distance.
    assert (found.mean >= low - 1e-9)[somebody].all()
    assert (found.mean <= high + 1e-9)[somebody].all()
    assert np.isinf(found.variance[~somebody]).all()


@given(st.floats(-6, 6), st.floats(1e-4, 100), st.integers(0, 2**16), st.floats(0.001, 1))
def test_one_liar_of_twenty_moves_little(lie: float, certain: float, seed: int, variance: float) -> None:
    rng = np.random.default_rng(seed)
    honest = rng.normal(0.4, np.sqrt(variance + SPREAD), HOSTS)
    spreads = np.full((1, HOSTS, 1), variance)
    before = merge(honest[None, 1:, None], spreads[:, 1:])
    honest[0], spreads[0, 0, 0] = lie, certain
    after = merge(honest[None, :, None], spreads)
    # The standard deviation of one honest host's word.
    one = np.sqrt(variance + SPREAD)
    assert abs(after.mean[0, 0] - before.mean[0, 0]) < 0.5 * one
    assert after.variance[0, 0] > 0.7 * before.variance[0, 0]


def test_a_host_that_disagrees_with_all_others_is_named_and_no_honest_one() -> None:
    rng = np.random.default_rng(5)
    truth = rng.normal(0, 0.5, (30, 1, 4))
    mean = truth + rng.normal(0, 0.3, (30, HOSTS, 4))
    variance = np.full(mean.shape, 0.09)
    mean[:, 3] = -np.sign(truth[:, 0]) * 3.0
    found = merge(mean, variance)
    assert found.compared.all()
    share = found.apart.mean(axis=(0, 2))
    assert share[3] > 0.9
    assert np.delete(share, 3).max() < 0.05


def test_in_a_large_site_it_takes_three_hosts() -> None:
    assert [quorum(hosts) for hosts in (1, 2, 4, 5, 1000)] == [1, 1, 1, 3, 3]
    variance = np.full((1, 3, 2), 0.1)
    variance[0, 2, 1] = np.inf
    found = merge(np.full((1, 3, 2), 0.5), variance, quorum=3)
    assert found.hosts.tolist() == [[3, 2]]
    assert np.isfinite(found.variance).tolist() == [[True, False]]
    assert found.mean[0] == pytest.approx([0.5, 0.0])


def test_hosts_together_know_what_one_host_knows_that_saw_all() -> None:
    """Six hosts with 40 visits each, and one with all 240 of them."""
    rng, effect = np.random.default_rng(2), np.array([0.0, 0.6, -0.4])
    whole, parts = Posteriors(3), [Posteriors(3) for _ in range(6)]
    one = np.zeros(1, np.int64)
    for number in range(240):
        arm = np.array([number // 6 % 3])
        value = effect[arm] + rng.normal(0, 0.3, 1)
        for each in (whole, parts[number % 6]):
            each.observe(one, arm, value, np.array([5.0]), np.array([number * 10.0]))
    told = [each.known(one, 2400.0) for each in parts]
    found = merge(np.stack([each.mean for each in told], 1), np.stack([each.variance for each in told], 1))
    seen = whole.known(one, 2400.0)
    assert np.abs(found.mean - seen.mean)[0, 1:].max() < 0.1
    assert (found.variance[0, 1:] >= seen.variance[0, 1:] * 0.5).all()
