# SPDX-License-Identifier: Apache-2.0
"""Logging to stderr: with journald's priorities where journald reads it, with times where a person does."""

from __future__ import annotations

import logging
import os
import sys
from typing import Final

# sd-daemon(3)
_PRIORITIES: Final = {
    logging.DEBUG: "<7>",
    logging.INFO: "<6>",
    logging.WARNING: "<4>",
    logging.ERROR: "<3>",
    logging.CRITICAL: "<2>",
}


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
    root = logging.getLogger()
    root.handlers[:] = [handler]
    set_level(level)


def set_level(level: str) -> None:
    """Log at another level from now on."""
    logging.getLogger().setLevel(level.upper())
