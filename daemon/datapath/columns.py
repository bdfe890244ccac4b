# SPDX-License-Identifier: Apache-2.0
"""Reads many fields of many records at once.

With few flows, the cost of a step depends on the number of array operations. A record consists of whole
64-bit words, so one operation reads all fields of one width.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats
from ltp_switcher.daemon.datapath.protocol import RECORD_DTYPE
from ltp_switcher.daemon.datapath.types import RecordArray
from ltp_switcher.errors import InvalidValueError

_WORDS: Final = RECORD_DTYPE.itemsize // 8


class Columns:
    """Reads the same fields of all records, in the kernel's units.

    Args:
        names: fields of `RECORD_DTYPE`, with the 64-bit fields before the 32-bit ones. "rtt_stat.sum" names a
            part of a field, and "echo.0.lost" a part of the first item of `echo`.

    Raises:
        InvalidValueError: a field has another width, or comes in another order.
    """

    def __init__(self, *names: str) -> None:
        places = [_place(name) for name in names]
        widths = [width for _, width in places]
        if set(widths) - {4, 8} or widths != sorted(widths, reverse=True):
            raise InvalidValueError("names", list(names), "fields of 64 bits, then fields of 32 bits")
        self._words = np.array([offset // 8 for offset, width in places if width == 8], np.intp)
        self._halves = np.array([offset // 4 for offset, width in places if width == 4], np.intp)

    def read(self, records: RecordArray) -> Floats:
        """Return the fields of n records in the kernel's units, shape (n, fields)."""
        n = len(records)
        records = np.ascontiguousarray(records)
        words = records.view(np.uint64).reshape(n, _WORDS).take(self._words, axis=1)
        if not self._halves.size:
            return words.astype(np.float64)
        halves = records.view(np.uint32).reshape(n, 2 * _WORDS).take(self._halves, axis=1)
        return np.concatenate((words, halves), axis=1, dtype=np.float64)


def _place(name: str) -> tuple[int, int]:
    """Return the offset and the width of a field in a record, in bytes."""
    dtype: np.dtype[np.generic] = RECORD_DTYPE
    offset = 0
    for part in name.split("."):
        if dtype.subdtype is not None:
            dtype, _ = dtype.subdtype
            offset += int(part) * dtype.itemsize
        else:
            dtype, start = dict(dtype.fields or {})[part][:2]
            offset += start
    return offset, dtype.itemsize
