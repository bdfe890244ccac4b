# SPDX-License-Identifier: Apache-2.0
"""Extra fields of log lines, by which an operator can search the journal: `journalctl LTP_COOKIE=…`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

_ATTRIBUTE: Final = "ltp_fields"


def fields(**values: object) -> dict[str, dict[str, str]]:
    """Return the argument `extra` of a log call: `cookie=7` becomes the field LTP_COOKIE.

    >>> fields(cookie=7)
    {'ltp_fields': {'LTP_COOKIE': '7'}}
    """
    return {_ATTRIBUTE: {f"LTP_{name.upper()}": str(value) for name, value in values.items()}}


def fields_of(record: logging.LogRecord) -> Mapping[str, str]:
    """Return the fields that a log call gave to `record` by its argument `extra`."""
    found: dict[str, str] = getattr(record, _ATTRIBUTE, {})
    return found
