# SPDX-License-Identifier: Apache-2.0
"""Fields of a log line besides its text, by which the journal can be searched: `journalctl LTP_COOKIE=…`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

_ATTRIBUTE: Final = "ltp_fields"


def fields(**values: object) -> dict[str, dict[str, str]]:
    """The argument `extra` of a log call: `cookie=7` becomes the field LTP_COOKIE.

    >>> fields(cookie=7)
    {'ltp_fields': {'LTP_COOKIE': '7'}}
    """
    return {_ATTRIBUTE: {f"LTP_{name.upper()}": str(value) for name, value in values.items()}}


def fields_of(record: logging.LogRecord) -> Mapping[str, str]:
    """The fields that a log call gave its record."""
    found: dict[str, str] = getattr(record, _ATTRIBUTE, {})
    return found
