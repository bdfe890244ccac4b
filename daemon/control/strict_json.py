# SPDX-License-Identifier: Apache-2.0
"""JSON as RFC 8259 defines it. Python's own parser also accepts texts that are not JSON."""

from __future__ import annotations

import json
import math
from typing import Final

from ltp_switcher.daemon.control.client import Json
from ltp_switcher.nesting import children

DEPTH_MAX: Final = 32
"""Deepest allowed nesting. All parts of the program that use the value later can handle far more."""


def parse(text: bytes) -> Json:
    """Parse a JSON text in UTF-8 into its value.

    Raises `ValueError` with the reason if the text is not JSON, is not UTF-8, or is nested deeper than
    `DEPTH_MAX`. The same happens for NaN, Infinity, a number that no float can hold, or half of a surrogate
    pair.
    """
    try:
        value: Json = json.loads(text.decode(), parse_constant=_constant, parse_float=_float, parse_int=_int)
        _check_depth(value)
        # A lone surrogate is the only text that UTF-8 cannot write.
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 at byte {error.start}") from error
    except UnicodeEncodeError as error:
        raise ValueError("half of a surrogate pair is no text") from error
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    return value


def _check_depth(value: Json) -> None:
    level: list[object] = [value]
    for _ in range(DEPTH_MAX + 1):
        level = [child for parent in level for child in children(parent)]
        if not level:
            return
    raise ValueError("it is nested too deep")


def _constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number


def _int(text: str) -> int:
    # A caller may turn a whole number into a float, so the number has to fit in one.
    _float(text)
    return int(text)
