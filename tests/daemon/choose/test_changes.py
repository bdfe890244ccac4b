# SPDX-License-Identifier: Apache-2.0
"""The detectors of prefixes: when they are made, and how many there are."""

from __future__ import annotations

import numpy as np

from ltp_switcher.daemon.choose.visits.changes import Changes


def told(changes: Changes, prefixes: list[int], value: float, times: int, visits: int = 100) -> set[int]:
    """Let prefixes have visits; returns those that have changed."""
    numbers, found = np.array(prefixes), set()
    changes.grow(int(numbers.max()) + 1)
    for _ in range(times):
        changed = changes.update(numbers, np.full(numbers.size, visits), np.full(numbers.size, value))
        found |= set(numbers[changed].tolist())
    return found


def test_a_prefix_with_few_visits_has_no_detector() -> None:
    changes = Changes()
    told(changes, [3, 5], 0.0, 5, visits=2)
    assert len(changes) == 0
    told(changes, [5], 0.0, 1)
    assert len(changes) == 1


def test_prefixes_change_by_themselves() -> None:
    changes = Changes()
    assert told(changes, [0, 1, 2], 0.0, 40) == set()
    assert told(changes, [1], -2.3, 20) == {1}
    assert told(changes, [0, 2], 0.0, 40) == set()


def test_a_prefix_gets_the_detector_of_a_forgotten_one_without_its_past() -> None:
    changes = Changes(most=2)
    told(changes, [0, 1], 0.0, 40)
    told(changes, [2], 0.0, 40)
    assert len(changes) == 2
    changes.forget(np.array([0]))
    assert len(changes) == 1
    assert told(changes, [2], -2.3, 40) == set()
    assert len(changes) == 2
    assert told(changes, [2], 0.0, 40) == {2}


def test_all_detectors_together_take_little_memory() -> None:
    bank = Changes()._bank
    assert sum(part.nbytes for part in vars(bank).values() if isinstance(part, np.ndarray)) <= 40e6


def test_prefixes_beyond_the_detectors_go_without() -> None:
    changes = Changes(most=4)
    assert told(changes, list(range(10)), 0.0, 40) == set()
    assert len(changes) == 4
    assert told(changes, list(range(10)), -2.3, 20) == {0, 1, 2, 3}
