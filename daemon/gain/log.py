# SPDX-License-Identifier: Apache-2.0
"""The decision log on disk: `.npy` files of rows, written in a thread, rotated, bounded in size."""

from __future__ import annotations

import json
import logging
import queue
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from ltp_switcher.daemon.gain.rows import ROW_DTYPE, Rows
from ltp_switcher.errors import ArtifactError
from ltp_switcher.files import write_atomically

log = logging.getLogger(__name__)

FOLDER: Final = "decisions"
"""The log's place in the state directory."""
NAMES_FILE: Final = "arms.json"
FILES: Final = 16
"""The log is rotated in so many files. So it holds at least 15/16 of its bound once it is full."""
_HEADER_BYTES: Final = 4096
"""At most."""
_BATCHES_MAX: Final = 256
"""Batches that may wait for the disk. Further ones are dropped."""


class DecisionWriter:
    """Writes rows to files of `folder`, which together stay within `bytes_max`.

    No caller waits for the disk. Where it cannot be written, rows are dropped, with a warning once.
    `names` are the arms' by id.
    """

    def __init__(self, folder: Path, bytes_max: int, names: Mapping[int, str]) -> None:
        self._folder = folder
        self._bytes_max = bytes_max
        self._names = dict(names)
        self._file_rows = max(1, (bytes_max // FILES - _HEADER_BYTES) // ROW_DTYPE.itemsize)
        self._queue: queue.Queue[Rows | None] = queue.Queue(_BATCHES_MAX)
        self._thread: threading.Thread | None = None
        self.dropped = 0
        """Rows that were not written."""

    def append(self, rows: Rows) -> None:
        """Write these rows, which nobody may change from now on."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="decisions", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait(rows)
        except queue.Full:
            self.dropped += len(rows)

    def close(self) -> None:
        """Finish what is under way."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        file: _File | None = None
        warned = False
        while (rows := self._queue.get()) is not None:
            try:
                while len(rows):
                    if file is None:
                        file = self._begin()
                    room = self._file_rows - file.rows
                    file.append(rows[:room])
                    rows = rows[room:]
                    if file.rows >= self._file_rows:
                        file.close()
                        file = None
                warned = False
            except (OSError, ArtifactError) as error:
                self.dropped += len(rows)
                if not warned:
                    log.warning("decisions are not logged: %s", error)
                warned, file = True, None
        if file is not None:
            file.close()

    def _begin(self) -> _File:
        """A new file; the oldest ones make room for it."""
        self._folder.mkdir(parents=True, exist_ok=True)
        names = json.dumps({str(arm): name for arm, name in self._names.items()})
        write_atomically(self._folder / NAMES_FILE, names.encode())
        files = files_of(self._folder)
        total = sum(file.stat().st_size for file in files)
        for file in files:
            if total <= self._bytes_max - self._bytes_max // FILES:
                break
            total -= file.stat().st_size
            file.unlink()
        return _File(self._folder / f"decisions-{time.time_ns():020d}.npy")


class _File:
    """One growing file; its header is right once it is closed."""

    def __init__(self, path: Path) -> None:
        self.rows = 0
        self._file: BinaryIO = path.open("wb", buffering=0)
        self._write_header()

    def append(self, rows: Rows) -> None:
        self._file.write(rows.tobytes())
        self.rows += len(rows)

    def close(self) -> None:
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        header = {"descr": np.lib.format.dtype_to_descr(ROW_DTYPE), "fortran_order": False}
        np.lib.format.write_array_header_2_0(self._file, {**header, "shape": (self.rows,)})


def files_of(folder: Path) -> list[Path]:
    """The files of a log, oldest first."""
    return sorted(folder.glob("decisions-*.npy"))


def read(place: Path, since_s: float = 0.0) -> Iterator[Rows]:
    """The rows of a log's folder or of one file, file by file, from Unix time `since_s` on.

    A file of another version of the program is left out with a warning. Raises `ArtifactError` where
    nothing can be read.
    """
    files = [place] if place.is_file() else files_of(place)
    if not files:
        raise ArtifactError(f"{place} holds no decisions: the daemon logs them while gain.log_mb is above 0")
    for file in files:
        rows = _read_file(file)
        if rows is not None:
            yield rows[rows["time_s"] >= since_s]


def load(place: Path, fields: Sequence[str]) -> Rows:
    """These fields of all rows of a log, in one array, shape (n,). Raises `ArtifactError` as `read` does.

    A whole row has twice the size of what a report needs, and a log may have a million rows.
    """
    dtype = np.dtype([(name, ROW_DTYPE[name]) for name in fields])
    files = [place] if place.is_file() else files_of(place)
    room = sum(file.stat().st_size // ROW_DTYPE.itemsize for file in files)
    found, count = np.zeros(room, dtype), 0
    for rows in read(place):
        # The daemon may have written on, or have begun another file.
        rows = rows[: room - count]
        for name in fields:
            found[name][count : count + len(rows)] = rows[name]
        count += len(rows)
    return found[:count]


def read_names(place: Path) -> dict[int, str]:
    """The names of the arms by id. Raises `ArtifactError` where the log has none."""
    path = (place if place.is_dir() else place.parent) / NAMES_FILE
    try:
        return {int(arm): str(name) for arm, name in json.loads(path.read_text()).items()}
    except (OSError, ValueError, AttributeError) as error:
        raise ArtifactError(f"the names of the log's arms cannot be read: {error}") from error


def _read_file(path: Path) -> Rows | None:
    try:
        with path.open("rb") as file:
            if np.lib.format.read_magic(file) != (2, 0):
                raise ValueError("not a .npy file of version 2.0")
            _, _, dtype = np.lib.format.read_array_header_2_0(file)
            if dtype != ROW_DTYPE:
                log.warning("%s is left out: another version of ltp-switcher wrote it", path)
                return None
            data = file.read()
    except (OSError, ValueError) as error:
        raise ArtifactError(f"cannot read the decisions {path}: {error}") from error
    # The last row of a file that was cut off may be cut, too.
    return np.frombuffer(data[: len(data) // ROW_DTYPE.itemsize * ROW_DTYPE.itemsize], ROW_DTYPE)
