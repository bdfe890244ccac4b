# SPDX-License-Identifier: Apache-2.0
"""The bench of a liar sees a loss where there is one."""

from __future__ import annotations

import numpy as np
import pytest
from fleet import world

SEED, HOSTS, VISITS = 12, 6, 40


def test_a_site_that_takes_the_word_of_two_hosts_loses_by_a_liar(monkeypatch: pytest.MonkeyPatch) -> None:
    lies = -3 * world.truth(SEED)
    honest, beside_liar = (world._site(SEED, HOSTS, VISITS, told) for told in (None, np.clip(lies, -6, 6)))
    assert beside_liar > 0.99 * honest
    monkeypatch.setattr(world, "quorum", lambda hosts: 2)
    assert world._site(SEED, HOSTS, VISITS, np.clip(lies, -6, 6)) < 0.97 * honest


def test_an_interval_tells_the_mean_of_the_seeds_and_the_worst_of_them() -> None:
    mean, low, high, worst = world._loss(np.array([-1.0, 0.0, 1.0, 2.0]))
    assert (mean, worst) == (0.5, 2.0)
    assert -1.0 < low < mean < high < worst
    assert world._loss(np.full(5, 0.25)) == [0.25] * 4
