# SPDX-License-Identifier: Apache-2.0
"""Simulator, rewards, estimators, arms and bandit give the committed numbers."""

from __future__ import annotations

import json

import pytest
from support.reference_runs import NUMBERS, RUNS


@pytest.mark.parametrize("name", RUNS)
def test_numbers_are_the_committed_ones(name: str) -> None:
    """See `support/reference_runs.py` for the way to change them."""
    assert RUNS[name]() == pytest.approx(json.loads(NUMBERS.read_text())[name], rel=1e-5, abs=1e-5)


def test_every_number_has_a_run() -> None:
    assert list(json.loads(NUMBERS.read_text())) == list(RUNS)
