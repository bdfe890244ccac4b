# SPDX-License-Identifier: Apache-2.0
"""The log under abuse."""

from __future__ import annotations

import logging

from ltp_switcher.daemon.service.log import SomeOfMany


def record(line: int, at_s: float, level: int = logging.ERROR) -> logging.LogRecord:
    made = logging.LogRecord("x", level, "file.py", line, "failed: %s", ("why",), None)
    made.created = at_s
    return made


def test_one_fault_cannot_fill_the_log() -> None:
    some = SomeOfMany()
    passed = [some.filter(record(1, 100.0 + i * 0.001)) for i in range(50_000)]
    assert sum(passed) == 10
    assert some.filter(record(2, 101.0)), "another place is not silenced"
    assert all(some.filter(record(1, 101.0, logging.INFO)) for _ in range(100)), "nor is what is no warning"
    last = record(1, 161.0)
    assert some.filter(last)
    assert last.getMessage() == "failed: why (and 49990 more before)"
    again = record(1, 161.1)
    assert some.filter(again)
    assert again.getMessage() == "failed: why"
