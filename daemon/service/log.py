# SPDX-License-Identifier: Apache-2.0
"""Logging to stderr: with journald's priorities where journald reads it, with times where a person does."""

from __future__ import annotations

import logging
import os
import sys
from typing import Final

LIKE_MAX: Final = 10
LIKE_S: Final = 60.0
# sd-daemon(3)
_PRIORITIES: Final = {
    logging.DEBUG: "<7>",
    logging.INFO: "<6>",
    logging.WARNING: "<4>",
    logging.ERROR: "<3>",
    logging.CRITICAL: "<2>",
}


class SomeOfMany(logging.Filter):
    """Lets at most `LIKE_MAX` warnings or errors from one place of the code through in `LIKE_S` seconds.

    So a client that provokes errors cannot fill the disk. The next one that passes says how many did not.
    """

    def __init__(self) -> None:
        super().__init__()
        self._since_s: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to log it."""
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
    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        prefix = _PRIORITIES.get(record.levelno, "<5>")
        return "\n".join(prefix + line for line in text.splitlines())


def set_up(level: str) -> None:
    """Log to stderr at `level` (debug, info, warning, error)."""
    handler = logging.StreamHandler(sys.stderr)
    if "JOURNAL_STREAM" in os.environ:
        handler.setFormatter(_JournalFormatter("%(message)s"))
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    handler.addFilter(SomeOfMany())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_level(level)


def set_level(level: str) -> None:
    """Log at another level from now on."""
    logging.getLogger().setLevel(level.upper())
