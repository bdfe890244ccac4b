# SPDX-License-Identifier: Apache-2.0
"""The parts of the decision log that a report needs, kept in memory and updated from the files.

A row of 271 bytes takes some 100 bytes here, because the prefix is a number, and missing RTT samples take no
room.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeVar

import numpy as np
from numpy.typing import NDArray

from ltp_switcher.arrays import ArmIds, Bools, Float32s, Floats, UInt64s
from ltp_switcher.daemon.gain.log import Reader, Skipped, read_names
from ltp_switcher.daemon.gain.rows import ROW_DTYPE, RTT_SAMPLES, Rows

Scalar = TypeVar("Scalar", bound=np.generic)
BYTES_MAX: Final = 800_000_000
"""Total size in bytes of the newest files of a log that are read. They take some 350 MB of memory."""
_DTYPES: Final = {
    **{name: ROW_DTYPE[name] for name in (
        "time_s", "duration_s", "busy_s", "cookie", "arm", "ran", "kind", "group", "active", "ended",
        "reward", "acked_bytes", "life_s",
    )},
    # Numbers of blocks and packets fit into these types.
    "block": np.dtype("i4"), "delivered": np.dtype("f4"), "retrans": np.dtype("f4"),
    "lost": np.dtype("f4"),
    "prefix": np.dtype("i4"), "samples": np.dtype("u1"),
}  # fmt: skip
_ROOM: Final = 1.25
"""Factor of growth. When the room for rows is used up, it becomes this multiple of the rows."""


class _Numbers(dict[bytes, int]):
    """Numbers of names from 0 on. A name that is looked up for the first time gets the next one."""

    def __missing__(self, name: bytes) -> int:
        self[name] = number = len(self)
        return number


class Columns:
    """Rows of a decision log by column, oldest first. Each array has the shape (n,), and has the same meaning
    and unit as the field of this name in `ROW_DTYPE`.
    """

    time_s: Floats
    duration_s: Float32s
    busy_s: Float32s
    cookie: UInt64s
    arm: ArmIds
    ran: ArmIds
    kind: NDArray[np.uint8]
    group: NDArray[np.uint8]
    active: Bools
    ended: Bools
    block: NDArray[np.int32]
    reward: Float32s
    acked_bytes: Floats
    delivered: Float32s
    retrans: Float32s
    lost: Float32s
    life_s: Float32s
    prefix: NDArray[np.int32]
    """Index of each row's prefix in `prefixes`."""
    samples: NDArray[np.uint8]
    """Number of RTT samples of each row."""

    def __init__(self) -> None:
        self.prefixes = _Numbers()
        """Number of each prefix, in the order in which the prefixes first appeared."""
        self._size = self._n_rtt = 0
        self._store: dict[str, NDArray[np.generic]] = {
            name: np.empty(0, dtype) for name, dtype in _DTYPES.items()
        }
        self._rtt_us: Float32s = np.empty(0, np.float32)
        self._show()

    @classmethod
    def of(cls, rows: Rows) -> Columns:
        """Make the columns of these rows of a log, shape (n,)."""
        made = cls()
        made.append(rows)
        return made

    def __len__(self) -> int:
        return self._size

    @property
    def rtt_us(self) -> Float32s:
        """The RTT samples of all rows in µs, the ones of the oldest row first. `samples` has the number of
        samples of each row.
        """
        return self._rtt_us[: self._n_rtt]

    def reserve(self, rows: int) -> None:
        """Reserve room for this number of rows. Unused room takes no memory."""
        if rows > len(self._store["prefix"]):
            for name, values in self._store.items():
                self._store[name] = _roomy(values, self._size, rows)
            self._rtt_us = _roomy(self._rtt_us, self._n_rtt, rows * RTT_SAMPLES)
            self._show()

    def append(self, rows: Rows) -> None:
        """Add rows, shape (n,)."""
        begin, end = self._size, self._size + len(rows)
        if end > len(self._store["prefix"]):
            self.reserve(int(end * _ROOM))
        # The samples are copied first, because numpy selects slowly from a field of rows.
        rtt_us = np.ascontiguousarray(rows["rtt_us"])
        known = np.isfinite(rtt_us)
        values = rtt_us[known]
        self._rtt_us[self._n_rtt : self._n_rtt + values.size] = values
        self._n_rtt += values.size
        for name in _DTYPES.keys() & {*(ROW_DTYPE.names or ())} - {"prefix"}:
            self._store[name][begin:end] = rows[name]
        numbers = map(self.prefixes.__getitem__, rows["prefix"].tolist())
        self._store["prefix"][begin:end] = np.fromiter(numbers, np.int32, len(rows))
        self._store["samples"][begin:end] = known.view(np.uint8) @ np.ones(RTT_SAMPLES, np.uint8)
        self._size = end
        self._show()

    def drop(self, rows: int) -> None:
        """Forget this number of the oldest rows, and the prefixes that no other row has."""
        gone = int(self.samples[:rows].sum(dtype=np.int64))
        self._rtt_us[: self._n_rtt - gone] = self._rtt_us[gone : self._n_rtt]
        for values in self._store.values():
            values[: self._size - rows] = values[rows : self._size]
        self._size, self._n_rtt = self._size - rows, self._n_rtt - gone
        used, self._store["prefix"][: self._size] = np.unique(self.prefix[: self._size], return_inverse=True)
        names = list(self.prefixes)
        self.prefixes = _Numbers((names[number], place) for place, number in enumerate(used.tolist()))
        self._show()

    def _show(self) -> None:
        for name, values in self._store.items():
            setattr(self, name, values[: self._size])


def _roomy(values: NDArray[Scalar], used: int, size: int) -> NDArray[Scalar]:
    """Return an array of this size that begins with the first `used` values."""
    made = np.empty(size, values.dtype)
    made[:used] = values[:used]
    return made


class KeptLog:
    """The rows of a decision log's folder, or of one of its files, as columns that are kept in memory."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._forget()

    def _forget(self) -> None:
        self._reader = Reader(self._place, BYTES_MAX)
        self._rows: dict[Path, int] = {}
        self.columns = Columns()
        self.names: dict[int, str] = {}
        """Names of the arms by id."""

    @property
    def skipped(self) -> Skipped:
        """Counts of the parts of the log that could not be read."""
        return self._reader.skipped

    def refresh(self) -> bool:
        """Add the rows that are new in the log, and drop the rows of files that were deleted. Returns whether
        anything changed.

        Raises `ArtifactError` if nothing can be read, or if the names of the arms cannot be read.
        """
        before, skipped = len(self.columns), self.skipped if self._rows else None
        self.columns.reserve(before + self._reader.bytes_ahead() // ROW_DTYPE.itemsize)
        for file, rows in self._reader.news():
            self.columns.append(rows)
            self._rows[file] = self._rows.get(file, 0) + len(rows)
        changed = len(self.columns) > before
        gone = [file for file in self._rows if file not in self._reader.files]
        if gone != list(self._rows)[: len(gone)]:
            # Another program removed a file from the middle.
            self._forget()
            return self.refresh()
        if gone:
            self.columns.drop(sum(self._rows.pop(file) for file in gone))
        if changed or gone or not self.names:
            self.names = read_names(self._place)
        return changed or bool(gone) or skipped != self.skipped
