# SPDX-License-Identifier: Apache-2.0
"""Logging to the journal with fields if stderr leads to the journal, and to stderr with times otherwise."""

from __future__ import annotations

import logging
import os
import sys
from typing import Final

from ltp_switcher.daemon.service import journald

LIKE_MAX: Final = 10
LIKE_S: Final = 60.0


class SomeOfMany(logging.Filter):
    """Lets through at most `LIKE_MAX` warnings or errors in `LIKE_S` seconds from one place of the code.

    So a client that provokes errors cannot fill the disk. The next record that passes says how many were
    dropped.
    """

    def __init__(self) -> None:
        super().__init__()
        self._since_s: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log this record."""
        if record.levelno < logging.WARNING:
            return True
        place = (record.pathname, record.lineno)
        begun_s, count = self._since_s.get(place, (record.created, 0))
        if record.created - begun_s >= LIKE_S:
            if count > LIKE_MAX:
                record.msg = f"{record.getMessage()} (and {count - LIKE_MAX} more before)"
                record.args = ()
            begun_s, count = record.created, 0
        self._since_s[place] = (begun_s, count + 1)
        return count < LIKE_MAX


class _JournalFormatter(logging.Formatter):
    """Puts the priority of sd-daemon(3) before each line on stderr."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        prefix = f"<{journald.PRIORITIES.get(record.levelno, journald.NOTICE)}>"
        return "\n".join(prefix + line for line in text.splitlines())


def set_up(level: str) -> None:
    """Log from `level` up (debug, info, warning, error): to the journal if stderr leads there, or else to
    stderr.
    """
    handler: logging.Handler = logging.StreamHandler(sys.stderr)
    if "JOURNAL_STREAM" in os.environ:
        handler.setFormatter(_JournalFormatter("%(message)s"))
        if journald.reads(sys.stderr.fileno()):
            handler = journald.JournalHandler(handler, journald.identifier())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(SomeOfMany())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_level(level)


def set_level(level: str) -> None:
    """Log from another level up from now on."""
    logging.getLogger().setLevel(level.upper())
