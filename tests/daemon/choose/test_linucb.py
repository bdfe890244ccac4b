# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from river.bandit import LinUCBDisjoint
from support.slots import begun

from ltp_switcher.daemon.choose.bandit.knowledge import Knowledge, Sums
from ltp_switcher.daemon.choose.bandit.linucb import REINVERT_EVERY, LinUCB

DIM = 5


def unit(rng: np.random.Generator, n: int) -> np.ndarray:
    z = rng.normal(size=(n, DIM))
    return z / np.linalg.norm(z, axis=1, keepdims=True)


def test_scores_equal_rivers_linucb() -> None:
    """river adds sigma with variance 1/beta + z' A^-1 z; with beta = 1 ours is that, less the noise."""
    rng = np.random.default_rng(0)
    arms = 4
    truth = rng.normal(size=(arms, DIM))
    bandit = begun(LinUCB(arms, DIM), 3)
    references = [LinUCBDisjoint(alpha=1.0, beta=1.0, seed=1) for _ in range(3)]
    for _ in range(400):
        z = unit(rng, 3)
        columns = rng.integers(0, arms, 3)
        rewards = (truth[columns] * z).sum(axis=1) + rng.normal(0, 0.1, 3)
        means, widths = bandit.means(np.arange(3), z), bandit.widths(np.arange(3), z)
        for row, reference in enumerate(references):
            context = dict(enumerate(z[row]))
            for arm in range(arms):
                model = reference._bayes_lin_regs[arm]
                if not model._idx:
                    continue
                guess = model.predict_one(context, with_dist=True)
                assert means[row, arm] == pytest.approx(guess.mu, abs=1e-8)
                assert widths[row, arm] ** 2 + 1 == pytest.approx(guess.sigma**2, abs=1e-8)
            reference.update(int(columns[row]), context, float(rewards[row]))
        bandit.update(np.arange(3), columns, z, rewards)


def test_chooses_as_river_does() -> None:
    rng = np.random.default_rng(4)
    arms = 3
    truth = rng.normal(size=(arms, DIM))
    bandit = begun(LinUCB(arms, DIM))
    reference = LinUCBDisjoint(alpha=1.0, beta=1.0, seed=1)
    row = np.zeros(1, np.intp)
    for arm in range(arms):
        z = unit(rng, 1)
        reference.update(arm, dict(enumerate(z[0])), 0.0)
        bandit.update(row, np.array([arm]), z, np.zeros(1))
    for _ in range(500):
        z = unit(rng, 1)
        ours = int((bandit.means(row, z) + np.sqrt(1 + bandit.widths(row, z) ** 2)).argmax())
        assert reference.pull(list(range(arms)), context=dict(enumerate(z[0]))) == ours
        value = float(truth[ours] @ z[0]) + rng.normal(0, 0.1)
        reference.update(ours, dict(enumerate(z[0])), value)
        bandit.update(row, np.array([ours]), z, np.array([value]))


@pytest.mark.parametrize("discount", [1.0, 0.97])
def test_stays_accurate_over_many_updates(discount: float) -> None:
    """Half a million updates of badly conditioned contexts; the inverse stays an inverse."""
    rng = np.random.default_rng(1)
    rows = 500
    bandit = begun(LinUCB(1, DIM, discount=discount), rows)
    skew = np.array([1.0, 1e-1, 1e-2, 1e-3, 1.0])
    theta = np.array([0.5, -1, 2, 0, 0.3])
    slots, column = np.arange(rows), np.zeros(rows, np.intp)
    for _ in range(1000):
        z = unit(rng, rows) * skew
        bandit.update(slots, column, z, z @ theta)
    product = bandit._A[:, 0] @ bandit._inverse[:, 0]
    np.testing.assert_allclose(product, np.broadcast_to(np.eye(DIM), product.shape), atol=1e-5)
    assert np.linalg.eigvalsh(bandit._A[:, 0]).min() > 0
    z = unit(rng, rows) * skew
    np.testing.assert_allclose(bandit.means(slots, z)[:, 0], z @ theta, atol=0.05 if discount == 1 else 0.2)


def test_inversions_are_spread() -> None:
    bandit = begun(LinUCB(1, DIM), REINVERT_EVERY)
    assert np.unique(bandit._since, return_counts=True)[1].max() <= 2


def test_discount_follows_a_change() -> None:
    rng = np.random.default_rng(2)
    steady, fading = begun(LinUCB(1, DIM)), begun(LinUCB(1, DIM, discount=0.95))
    row = np.zeros(1, np.intp)
    for t in range(900):
        z = unit(rng, 1)
        value = z @ np.ones(DIM) * (1.0 if t < 600 else -1.0)
        for bandit in (steady, fading):
            bandit.update(row, row, z, value)
    z = unit(rng, 1)
    wanted = float(-z[0].sum())
    assert abs(fading.means(row, z)[0, 0] - wanted) < 0.1 * abs(wanted)
    assert abs(steady.means(row, z)[0, 0] - wanted) > 0.5 * abs(wanted)


def test_widen_keeps_the_mean_and_loses_certainty() -> None:
    rng = np.random.default_rng(3)
    bandit = begun(LinUCB(2, DIM))
    row = np.zeros(1, np.intp)
    for _ in range(50):
        z = unit(rng, 1)
        for arm in (0, 1):
            bandit.update(row, np.array([arm]), z, z.sum(axis=1))
    z = unit(rng, 1)
    mean, width = bandit.means(row, z), bandit.widths(row, z)
    bandit.widen(row, 0.25)
    np.testing.assert_allclose(bandit.means(row, z), mean)
    np.testing.assert_allclose(bandit.widths(row, z), 2 * width)


def test_discount_makes_an_arm_left_alone_uncertain_again() -> None:
    """And an update after a long time equals that of a model that faded step by step."""
    rng = np.random.default_rng(11)
    bandit = begun(LinUCB(2, DIM, discount=0.9))
    row = np.zeros(1, np.intp)
    A, b = np.eye(DIM), np.zeros(DIM)
    for t in range(60):
        z = unit(rng, 1)
        arm = 0 if t < 20 or t == 59 else 1
        A, b = 0.9 * A + 0.1 * np.eye(DIM), 0.9 * b
        if arm == 0:
            A, b = A + z.T @ z, b + z[0]
        before = bandit.widths(row, z)[0, 0]
        bandit.update(row, np.array([arm]), z, np.ones(1))
        if arm == 1:
            assert bandit.widths(row, z)[0, 0] >= before
    z = unit(rng, 1)
    assert bandit.counts(row)[0, 0] == pytest.approx(1, abs=0.2)
    assert bandit.means(row, z)[0, 0] == pytest.approx(float(z[0] @ np.linalg.solve(A, b)), abs=0.05)


def knowledge(trained: float = 0, everyone: float = 10, prefix: float = 20, most: int = 1024) -> Knowledge:
    nothing = Sums(np.zeros((2, DIM, DIM)), np.zeros((2, DIM)), np.zeros(2))
    return Knowledge(nothing, trained, everyone, prefix, most)


def test_a_new_flow_starts_from_its_paths_knowledge() -> None:
    rng = np.random.default_rng(6)
    shared = knowledge()
    here, there = shared.open("192.0.2.0/24"), shared.open("198.51.100.0/24")
    for _ in range(60):
        z = unit(rng, 4)
        columns = np.array([0, 1, 0, 1])
        shared.add(np.array([here, here, there, there]), columns, z, z[:, 0] * np.array([1, 1, -1, -1]))
    bandit = begun(LinUCB(2, DIM), 2)
    for slot, row in enumerate((here, there)):
        start = shared.start(row)
        bandit.start(np.array([slot]), start.A[None], start.b[None], start.counts[None])
    z = np.eye(DIM)[:1].repeat(2, axis=0)
    means = bandit.means(np.arange(2), z)
    assert (means[0] > 0.3).all()
    assert (means[1] < -0.3).all()


def test_pooled_sums_are_the_sums_of_the_updates() -> None:
    rng = np.random.default_rng(7)
    shared = knowledge(everyone=1e6, prefix=1e6)
    rows = np.array([shared.open(f"p{i}") for i in (0, 1, 1, 2, 0, 1)])
    columns = np.array([0, 1, 1, 0, 1, 0])
    z, rewards = rng.normal(size=(6, DIM)), rng.normal(size=6)
    shared.add(rows, columns, z, rewards)
    for level, members in ((0, np.ones(6, bool)), (rows[1], rows == rows[1])):
        for arm in range(2):
            chosen = members & (columns == arm)
            np.testing.assert_allclose(shared._A[level, arm], z[chosen].T @ z[chosen], atol=1e-12)
            np.testing.assert_allclose(shared._b[level, arm], rewards[chosen] @ z[chosen], atol=1e-12)
            assert shared._counts[level, arm] == chosen.sum()


def test_knowledge_stays_bounded() -> None:
    shared = knowledge(everyone=5, prefix=5, most=3)
    first = shared.open("busy")
    for i in range(20):
        row = shared.open(f"p{i}")
        shared.add(np.full(30, row), np.zeros(30, np.intp), np.ones((30, DIM)), np.ones(30))
        shared.close(np.array([row]))
    assert len(shared._rows) == 3
    assert shared.open("busy") == first
    assert shared._counts.max() <= 8 * 5 + 30
    assert shared.start(first).counts.max() <= 10


def test_state_round_trip_and_refusals() -> None:
    rng = np.random.default_rng(8)
    shared = knowledge()
    row = shared.open("192.0.2.0/24")
    shared.add(np.array([row]), np.array([1]), rng.normal(size=(1, DIM)), np.ones(1))
    arrays = shared.state()
    other = knowledge()
    other.restore(arrays)
    again = other.start(other.open("192.0.2.0/24"))
    np.testing.assert_array_equal(again.A, shared.start(row).A)
    for i in range(10):
        other.open(f"more {i}")
    with pytest.raises(ValueError, match="fit"):
        other.restore({**arrays, "b": arrays["b"][:, :, :2]})
    broken = arrays["A"].copy()
    broken[0, 0, 0, 0] = np.nan
    with pytest.raises(ValueError, match="finite"):
        other.restore({**arrays, "A": broken})


def test_no_more_prefixes_are_saved_than_are_kept() -> None:
    """Open flows keep their prefixes beyond the limit; a saved state has those that were used last."""
    shared = knowledge(most=3)
    for number in range(5):
        shared.open(f"192.0.{number}.0/24")
    state = shared.state()
    assert state["prefixes"].tolist() == ["192.0.2.0/24", "192.0.3.0/24", "192.0.4.0/24"]
    assert len(state["A"]) == len(state["b"]) == len(state["counts"]) == 4
    knowledge(most=3).restore(state)
