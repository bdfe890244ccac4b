# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest
from river import drift
from river.drift.adwin import AdaptiveWindowing
from support.slots import begun

from ltp_switcher.daemon.choose.change_detection import AdwinBank


def streams(seed: int, n: int, length: int) -> np.ndarray:
    """Noisy streams of order 1 with steps, ramps and constants, shape (length, n)."""
    rng = np.random.default_rng(seed)
    out = np.empty((length, n))
    for i in range(n):
        level = np.repeat(rng.normal(0, 1.5, size=1 + length // 300), 300)[:length]
        ramp = np.linspace(0, rng.normal(0), length) * (i % 3 == 0)
        noise = rng.normal(0, rng.choice([0.0, 0.05, 0.5]), length)
        out[:, i] = (level if i % 4 else level[0]) + ramp + noise
    return out


@pytest.mark.parametrize("seed", range(3))
def test_detects_at_the_same_updates_as_river(seed: int) -> None:
    values = streams(seed, 12, 3000)
    bank = begun(AdwinBank(), 12)
    reference = [
        AdaptiveWindowing(delta=0.002, clock=32, max_buckets=5, min_window_length=5, grace_period=10)
        for _ in range(12)
    ]
    rows = np.arange(12)
    detections = 0
    for step in values:
        expected = [ref.update(float(v)) for ref, v in zip(reference, step, strict=True)]
        found = bank.update(rows, step)
        np.testing.assert_array_equal(found, expected)
        detections += int(found.sum())
        np.testing.assert_array_equal(bank.width, [ref.get_width() for ref in reference])
        np.testing.assert_allclose(bank.total, [ref.get_total() for ref in reference], atol=1e-8)
    assert detections > 20


def test_with_a_reset_after_each_change_it_is_rivers_wrapper() -> None:
    values = streams(7, 8, 2500)
    bank = begun(AdwinBank(), 8)
    reference = [drift.ADWIN(delta=0.002) for _ in range(8)]
    rows = np.arange(8)
    for step in values:
        for ref, v in zip(reference, step, strict=True):
            ref.update(float(v))
        found = bank.update(rows, step)
        np.testing.assert_array_equal(found, [ref.drift_detected for ref in reference])
        bank.reset(rows[found])


def test_maximum_is_that_of_the_window() -> None:
    rng = np.random.default_rng(3)
    bank = begun(AdwinBank(), 2)
    history: list[np.ndarray] = []
    for t in range(1200):
        values = rng.normal([0.0, 3.0 if t < 600 else 1.0], 0.1)
        history.append(values)
        bank.update(np.arange(2), values)
        widths = bank.width.astype(int)
        expected = [max(h[i] for h in history[-widths[i] :]) for i in range(2)]
        np.testing.assert_allclose(bank.maximum(np.arange(2)), expected)
    assert widths[1] < 700


def test_shedding_leaves_nothing_of_the_old_level() -> None:
    rng = np.random.default_rng(9)
    row = np.zeros(1, np.intp)
    keeping, shedding = begun(AdwinBank()), begun(AdwinBank(shed=True))
    for t in range(800):
        value = rng.normal([1.0 if t < 404 else 0.0], 0.03)
        keeping.update(row, value)
        shedding.update(row, value)
    assert keeping.maximum(row)[0] > 0.8
    assert shedding.maximum(row)[0] < 0.2
    assert shedding.width[0] > 350


def test_rows_are_independent_and_growable() -> None:
    rng = np.random.default_rng(5)
    values = rng.normal(0, 1, (400, 3))
    together, apart = begun(AdwinBank()), begun(AdwinBank(), 3)
    together.reset(np.array([1, 2]))
    order = np.array([2, 0, 1])
    for step in values:
        together.update(order, step[order])
        for i in range(3):
            apart.update(np.array([i]), step[i : i + 1])
    np.testing.assert_array_equal(together.width, apart.width)
    np.testing.assert_allclose(together.total, apart.total)
    together.reset(np.array([1]))
    assert together.maximum(np.arange(3))[1] == -np.inf
    assert together.width[1] == 0


def test_a_window_ends_at_its_last_level() -> None:
    from ltp_switcher.daemon.choose import change_detection

    bank = begun(AdwinBank(clock=10**9))
    row = np.zeros(1, np.intp)
    bank._used[0] = change_detection.MAX_BUCKETS
    bank.width[0] = (change_detection._SIZES * change_detection.MAX_BUCKETS).sum()
    before = bank.width[0]
    bank.update(row, np.array([1.0]))
    assert bank.width[0] < before
    assert bank._used[0].max() <= change_detection.MAX_BUCKETS
