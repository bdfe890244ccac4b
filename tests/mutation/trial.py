# SPDX-License-Identifier: Apache-2.0
"""Plant one fault in a copy of the tree, and run the tests that reach it."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mutation import tree
from mutation.faults import Mutant
from mutation.reach import Reach

_START_S: Final = 20
"""CPU seconds within which pytest starts and collects, four times over."""
_SLOWER: Final = 5
"""A fault that makes the tests this many times slower counts as caught."""
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_PASSED, _BROKEN, _INTERRUPTED, _USAGE, _NOTHING = 0, 1, 2, 4, 5
"""Exit statuses of pytest."""


@dataclass(frozen=True)
class Outcome:
    """What came of a fault. by: the test that caught it, or why it was not caught."""

    mutant: Mutant
    caught: bool
    by: str
    wall_s: float


def attempt(mutant: Mutant, base: Path, reach: Reach) -> Outcome:
    """Plant a fault and run its tests until one fails.

    Args:
        mutant: the fault.
        base: a working copy without faults.
        reach: which tests reach it.
    """
    began = time.monotonic()
    tests = reach.tests(mutant.path, mutant.change)
    if not tests:
        return Outcome(mutant, False, "no test reaches it", 0.0)
    limit_s = _START_S + _SLOWER * sum(reach.seconds[test] for test in tests)
    verdict = False, ""
    with tree.mutated_copy(base, mutant.path, mutant.text) as copy:
        for part in tree.parts(tests):
            ended = tree.pytest(copy, part, limit_s, ["-x"])
            if ended.status == _USAGE:
                # The fault changed the names of the tests' parameters.
                without = [f"--deselect={test}" for test in sorted(reach.failing)]
                ended = tree.pytest(copy, _files(part), limit_s, ["-x", *without])
            verdict = _judge(ended, len(tests))
            if verdict[0]:
                break
    return Outcome(mutant, *verdict, time.monotonic() - began)


def _files(tests: Sequence[str]) -> list[str]:
    return sorted({test.partition("::")[0] for test in tests})


def _judge(ended: tree.Ended, tests: int) -> tuple[bool, str]:
    """Whether the fault was caught, and by which test."""
    if ended.status is None:
        return True, "time or memory"
    if ended.status in (_PASSED, _NOTHING):
        return False, f"{tests} tests pass"
    failed = _FAILED.search(ended.output)
    if ended.status in (_BROKEN, _INTERRUPTED) and failed:
        return True, failed[1]
    if "Timeout (" in ended.output:
        return True, "time or memory"
    raise RuntimeError(f"pytest ended with status {ended.status}: {ended.output[-2000:]}")
