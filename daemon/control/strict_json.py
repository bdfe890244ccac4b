# SPDX-License-Identifier: Apache-2.0
"""JSON as RFC 8259 defines it. Python's own parser also accepts texts that are not JSON."""

from __future__ import annotations

import json
import math

from ltp_switcher.daemon.control.client import Json


def parse(text: bytes) -> Json:
    """The value of a JSON text in UTF-8.

    Raises `ValueError`, which says why: no JSON, not UTF-8, nested too deep, NaN, Infinity, a number that
    no float or no int of Python can hold, or half of a surrogate pair.
    """
    try:
        value: Json = json.loads(text.decode(), parse_constant=_constant, parse_float=_float)
        # A lone surrogate is the only text that UTF-8 cannot write.
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 at byte {error.start}") from error
    except UnicodeEncodeError as error:
        raise ValueError("half of a surrogate pair is no text") from error
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    return value


def _constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON number")


def _float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"the number {text[:20]} is too large")
    return number
