# SPDX-License-Identifier: Apache-2.0
"""The log under abuse."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from ltp_switcher.daemon.service.log import SomeOfMany, set_up


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


@pytest.fixture
def root() -> Iterator[logging.Logger]:
    """The root logger, put back at the end."""
    logger = logging.getLogger()
    handlers, level = logger.handlers[:], logger.level
    yield logger
    logger.handlers[:] = handlers
    logger.setLevel(level)


@pytest.mark.parametrize(("journal", "line"), [("8:1", "<3>lost\n"), ("", " ERROR lost\n")])
def test_the_log_goes_to_stderr_as_its_reader_wants_it(
    root: logging.Logger,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    journal: str,
    line: str,
) -> None:
    """Priority 3 is an error (syslog(3))."""
    monkeypatch.delenv("JOURNAL_STREAM", raising=False)
    if journal:
        monkeypatch.setenv("JOURNAL_STREAM", journal)
    set_up("warning")
    for _ in range(100):
        root.error("lost")
    root.info("found")
    lines = capfd.readouterr().err.splitlines(keepends=True)
    assert len(lines) == 10
    assert all(one.endswith(line) for one in lines)
