# SPDX-License-Identifier: Apache-2.0
"""LinUCB on the numbers of paths: a prior that helps where they tell something, and else does no harm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ltp_switcher.daemon.choose.chooser import Number
from ltp_switcher.daemon.choose.visits.learner import Learner
from ltp_switcher.daemon.choose.visits.paths import Paths
from ltp_switcher.daemon.choose.visits.posterior import Effects
from ltp_switcher.errors import ArtifactError

ARMS = 3
PREFIXES = 60
NUMBERS = len(Number)
WIDER = Effects(np.array([[0.0, -0.2, -0.4]]), np.array([[0.0, 0.01, 0.01]]))
BETWEEN = 0.25
EVERY = np.arange(PREFIXES)


def numbers(seed: int, rows: int = PREFIXES) -> np.ndarray:
    return np.exp(np.random.default_rng(seed).normal(3.0, 1.0, (rows, NUMBERS)))


def effects(of: np.ndarray, slope: float, seed: int = 1) -> Effects:
    """Arm 1 follows the ACK gap, and arm 2 nothing."""
    z = np.log(of[:, Number.ACK_GAP]) - 3.0
    mean = WIDER.mean + np.random.default_rng(seed).normal(0.0, 0.3, (len(of), ARMS))
    mean[:, 1] += slope * z
    mean[:, 0] = 0.0
    return Effects(mean, np.broadcast_to([0.0, 0.05, 0.05], mean.shape))


def learned(of: np.ndarray, known: Effects) -> Paths:
    paths = Paths(ARMS)
    paths.grow(PREFIXES + 2)
    paths.tell(EVERY, of)
    paths.learn(WIDER, known, EVERY, BETWEEN)
    return paths


def prior_of(paths: Paths, row: np.ndarray) -> Effects:
    """The prior of a new prefix with this path."""
    new = np.array([PREFIXES])
    paths.forget(new)
    paths.tell(new, row[None])
    return paths.prior(new, WIDER)


def test_the_prior_of_a_new_prefix_follows_the_number_that_tells() -> None:
    of = numbers(1)
    paths = learned(of, effects(of, 0.8))
    usual = np.exp(np.full(NUMBERS, 3.0))
    far = usual.copy()
    far[Number.ACK_GAP] = np.exp(5.0)
    near, unlike = prior_of(paths, usual), prior_of(paths, far)
    assert unlike.mean[0, 1] - near.mean[0, 1] == pytest.approx(1.6, abs=0.4)
    assert abs(unlike.mean[0, 2] - near.mean[0, 2]) < 0.3
    # The decision's own has no effect.
    assert unlike.mean[0, 0] == unlike.variance[0, 0] == 0


def test_where_numbers_tell_nothing_the_prior_is_the_wider_level() -> None:
    of = numbers(2)
    paths = learned(of, effects(of, 0.0))
    found = [prior_of(paths, row) for row in numbers(3, 50)]
    assert np.abs([one.mean - WIDER.mean for one in found]).mean() < 0.05
    assert np.mean([one.variance - WIDER.variance for one in found]) < 0.02


def test_a_path_that_was_not_observed_has_the_wider_level() -> None:
    of = numbers(1)
    paths = learned(of, effects(of, 0.8))
    found = prior_of(paths, np.full(NUMBERS, np.nan))
    assert np.array_equal(found.mean, WIDER.mean)
    assert np.array_equal(found.variance, WIDER.variance)
    # Nor does a learner that no path was told to know more.
    assert np.array_equal(Paths(ARMS).prior(np.zeros(0, np.int64), WIDER).mean, np.zeros((0, ARMS)))


def test_a_path_unlike_all_others_is_less_sure() -> None:
    of = numbers(1)
    paths = learned(of, effects(of, 0.8))
    usual = np.exp(np.full(NUMBERS, 3.0))
    unlike = usual * np.exp(2.5)
    assert prior_of(paths, unlike).variance[0, 1] > 3 * prior_of(paths, usual).variance[0, 1]


def test_one_liar_in_twenty_claims_little() -> None:
    """Its path is unusual, and it says of arm 2 all that a value can."""
    of = numbers(1)
    of[::20] *= np.exp(3.0)
    known = effects(of, 0.8)
    lies = Effects(known.mean.copy(), known.variance)
    lies.mean[::20, 2] = 6.0
    usual = np.exp(np.full(NUMBERS, 3.0))
    honest, lied = (prior_of(learned(of, one), usual).mean for one in (known, lies))
    assert np.abs(lied - honest).max() < 0.15


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.sampled_from([0.0, 1e-9, 1.0, 1e12, np.nan]), min_size=8, max_size=8), min_size=1,
                max_size=6), st.floats(-6, 6))  # fmt: skip
def test_any_numbers_give_a_prior(rows: list[list[float]], mean: float) -> None:
    of, each = np.array(rows), np.arange(len(rows))
    paths = Paths(ARMS)
    paths.grow(len(rows))
    paths.tell(each, of)
    known = Effects(np.full((len(rows), ARMS), mean), np.full((len(rows), ARMS), np.inf))
    known.variance[::2] = 0.01
    paths.learn(WIDER, known, each, BETWEEN)
    found = paths.prior(each, WIDER)
    assert np.isfinite(found.mean).all()
    assert (found.variance >= WIDER.variance).all()


def test_the_numbers_last_told_count() -> None:
    of = numbers(1)
    paths = learned(of, effects(of, 0.8))
    before, after = prior_of(paths, of[0]), of[1]
    new = np.array([PREFIXES])
    for _ in range(400):
        paths.tell(new, after[None])
    moved = paths.prior(new, WIDER).mean
    assert not np.allclose(moved, before.mean)
    assert np.allclose(moved, paths.prior(np.array([1]), WIDER).mean, atol=0.01)


def test_paths_last_over_a_restart_and_wrong_ones_are_refused() -> None:
    learner = Learner(ARMS)
    learner.tell_paths(EVERY, numbers(1))
    state = learner.state()
    again = Learner(ARMS)
    again.restore(state)
    assert np.array_equal(again.state()["path_sum"], state["path_sum"])
    # An earlier release has saved no paths.
    older = Learner(ARMS)
    older.restore({name: array for name, array in state.items() if not name.startswith("path_")})
    assert not older.state()["path_count"].any()
    for name, wrong in (("path_sum", np.nan), ("path_count", -1.0)):
        with pytest.raises(ArtifactError):
            Learner(ARMS).restore({**state, name: np.full_like(state[name], wrong)})
    with pytest.raises(ArtifactError):
        Learner(ARMS).restore({**state, "path_sum": state["path_sum"][:-1]})
