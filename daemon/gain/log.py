# SPDX-License-Identifier: Apache-2.0
"""A log on disk, of decisions or outcomes. A thread writes the log's rows in frames. When a file is full, the
log goes on in a new file. The oldest files are deleted if it needs their room.

Files are numbered, and rows are in the order in which they were written, whatever the clock says. A frame
(`frames`) holds the rows of about a second. A damaged frame is counted and left out.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np

from ltp_switcher.daemon.gain.frames import CONTENT_MAX, HEADER_BYTES, Scan, packed
from ltp_switcher.daemon.gain.rows import ROW_DTYPE, Rows
from ltp_switcher.errors import ArtifactError, reason
from ltp_switcher.files import write_atomically

log = logging.getLogger(__name__)

FOLDER: Final = "decisions"
"""The log's folder in the state directory."""
NAMES_FILE: Final = "arms.json"
_FILES: Final = 16
"""Least number of files of a full log. With 16 files, a full log holds at least 15/16 of its bound."""
_FILE_BYTES: Final = 64_000_000
"""Largest size of a file."""
_GATHER_S: Final = 1.0
"""Time in seconds for which rows wait for further rows, so that they share a frame."""
_WAITING_MAX: Final = 1 << 17
"""Largest number of rows that may wait for the disk. Further rows are dropped."""
_PIECE_BYTES: Final = 4 << 20
"""Number of bytes that are read at a time."""


@dataclass(frozen=True, slots=True)
class Form:
    """The form of a log: the type of its rows, the names of its files, and the setting of its size."""

    name: str
    """First part of the names of the log's files. It also names the log's rows in messages."""
    dtype: np.dtype[np.void]
    setting: str
    """Name of the setting that bounds the log's size. If the setting is 0, there is no log."""
    earlier: Mapping[np.dtype[np.void], Callable[[Rows], Rows]] = field(default_factory=dict)
    """Row types of earlier versions that can still be read, each with a function that turns such rows into
    present ones.
    """

    @property
    def layout(self) -> int:
        """Number that identifies the layout of a row. Another version of the program may use
        another layout.
        """
        return _layout(self.dtype)

    def rows(self, layout: int, content: memoryview) -> Rows | None:
        """Return the rows in the content of a frame with this layout, shape (n,); None if the layout is not
        known, or the content does not consist of whole rows.
        """
        if layout == self.layout:
            return _of_bytes(content, self.dtype)
        for dtype, read_as in self.earlier.items():
            if layout == _layout(dtype):
                rows = _of_bytes(content, dtype)
                return None if rows is None else read_as(rows)
        return None

    @property
    def frame_rows(self) -> int:
        """Largest number of rows in a frame."""
        return CONTENT_MAX // self.dtype.itemsize

    def files_of(self, folder: Path) -> list[Path]:
        """The files of a log, oldest first. Raises `OSError` if the folder cannot be read."""
        found = [path for path in folder.iterdir() if self.number(path)] if folder.is_dir() else []
        return sorted(found, key=self.number)

    def number(self, path: Path) -> int:
        """The number of a file of the log; 0 for any other file."""
        begin, dash, number = path.stem.partition("-")
        named = begin + dash == f"{self.name}-" and path.suffix == ".log"
        return int(number) if named and number.isascii() and number.isdecimal() else 0

    def foreign_files(self, folder: Path) -> list[Path]:
        """Return the files of the log that an earlier version of the program wrote, which had no frames."""
        return sorted(folder.glob(f"{self.name}-*.npy"))


DECISIONS: Final = Form(FOLDER, ROW_DTYPE, "gain.log_mb")


class LogWriter:
    """Writes the rows of a log to files in `folder`. The files together stay within `bytes_max`.

    No caller waits for the disk. While the disk cannot be written, rows are dropped, and one warning is
    logged. `names` has the arms' names by id.
    """

    def __init__(self, form: Form, folder: Path, bytes_max: int, names: Mapping[int, str]) -> None:
        self._form = form
        self._folder = folder
        self._bytes_max = bytes_max
        self._names = dict(names)
        self._file_bytes = min(bytes_max // _FILES, _FILE_BYTES)
        self._changed = threading.Condition()
        self._waiting: deque[Rows] = deque()
        self._rows_waiting = 0
        self._closing = False
        self._thread: threading.Thread | None = None
        self._number = 0
        self._lost = 0
        self.logged = 0
        """Number of rows that were written."""
        self.dropped = 0
        """Number of rows that were not written."""

    def append(self, rows: Rows) -> None:
        """Write these rows soon, in the writer's thread. Nobody may change the array after this call."""
        with self._changed:
            fit = rows[: _WAITING_MAX - self._rows_waiting]
            self.dropped += len(rows) - len(fit)
            if not len(fit):
                return
            self._waiting.append(fit)
            before, self._rows_waiting = self._rows_waiting, self._rows_waiting + len(fit)
            if not before or self._rows_waiting >= self._form.frame_rows:
                self._changed.notify()
        if self._thread is None:
            self._closing = False
            self._thread = threading.Thread(target=self._work, name=self._form.name, daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Write the rows that still wait, and end the thread."""
        if self._thread is not None:
            with self._changed:
                self._closing = True
                self._changed.notify()
            self._thread.join()
            self._thread = None

    def _work(self) -> None:
        file: _File | None = None
        while (rows := self._gathered()) is not None:
            try:
                while len(rows):
                    if file is None:
                        file = self._begin()
                    part = rows[: min(self._form.frame_rows, file.room(self._file_bytes))]
                    file.append(part)
                    self.logged += len(part)
                    rows = rows[len(part) :]
                    if not file.room(self._file_bytes):
                        file.close()
                        file = None
            except (OSError, ArtifactError) as error:
                self._drop(len(rows), error)
                if file is not None and not file.whole:
                    file.close()
                    file = None
            else:
                self._tell_of_loss()
        if file is not None:
            file.close()

    def _gathered(self) -> Rows | None:
        """Wait for rows, and return the rows of about a second; None once the log closes and no row waits."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closing)
            self._changed.wait_for(
                lambda: self._rows_waiting >= self._form.frame_rows or self._closing, _GATHER_S
            )
            found, self._rows_waiting = list(self._waiting), 0
            self._waiting.clear()
        return np.concatenate(found) if found else None

    def _drop(self, count: int, error: Exception) -> None:
        with self._changed:
            self.dropped += count
        if not self._lost:
            log.warning("%s are not logged: %s", self._form.name, error)
        self._lost += count

    def _tell_of_loss(self) -> None:
        if self._lost:
            log.warning("%s are logged again; %d were not", self._form.name, self._lost)
        self._lost = 0

    def _begin(self) -> _File:
        """Begin a new file. The oldest files are deleted if the new one needs their room."""
        self._folder.mkdir(parents=True, exist_ok=True)
        files = self._form.files_of(self._folder)
        self._number = max([self._number, *map(self._form.number, files)]) + 1
        # The files of earlier versions are deleted first.
        files = [*self._form.foreign_files(self._folder), *files]
        total = sum(file.stat().st_size for file in files)
        for file in files:
            if total <= self._bytes_max - self._file_bytes:
                break
            total -= file.stat().st_size
            file.unlink()
        names = json.dumps({str(arm): name for arm, name in self._names.items()})
        write_atomically(self._folder / NAMES_FILE, names.encode())
        return _File(self._form, self._folder / f"{self._form.name}-{self._number:012d}.log")


class _File:
    """One growing file of frames. A frame is in it as a whole or not at all."""

    def __init__(self, form: Form, path: Path) -> None:
        self._form = form
        self._frames = self._bytes = 0
        self.whole = True
        """Whether nothing but whole frames is in the file."""
        self._file: BinaryIO = path.open("xb", buffering=0)

    def room(self, bytes_max: int) -> int:
        """Return the number of rows that a frame may have so that the file stays within `bytes_max`. In an
        empty file, it is at least one.
        """
        room = max(bytes_max - self._bytes - HEADER_BYTES, 0) // self._form.dtype.itemsize
        return max(room, int(not self._frames))

    def append(self, rows: Rows) -> None:
        """Write a frame. If there is no room for it, remove the written part from the file, and raise
        `OSError`.
        """
        frame = memoryview(packed(self._form.layout, self._frames, rows.tobytes()))
        done = 0
        try:
            # A disk that fills up takes a part of the frame, and refuses the rest at the next call.
            while done < len(frame):
                done += self._file.write(frame[done:])
        except OSError:
            self._take_back()
            raise
        self._frames += 1
        self._bytes += len(frame)

    def close(self) -> None:
        self._file.close()

    def _take_back(self) -> None:
        self.whole = False
        with contextlib.suppress(OSError):
            self._file.truncate(self._bytes)
            self._file.seek(self._bytes)
            self.whole = True


class DecisionWriter(LogWriter):
    """A `LogWriter` for the log of decisions."""

    def __init__(self, folder: Path, bytes_max: int, names: Mapping[int, str]) -> None:
        super().__init__(DECISIONS, folder, bytes_max, names)


@dataclass(slots=True)
class Skipped:
    """Counts of the parts of a log that a reader left out."""

    damaged: int = 0
    """Number of damaged frames. A frame has the rows of about a second."""
    foreign: int = 0
    """Number of files that another version of the program wrote."""
    old: int = 0
    """Number of the oldest files that were left out, because a reader takes only the newest part of the log.
    """

    def __add__(self, other: Skipped) -> Skipped:
        """The counts of two logs together."""
        return Skipped(self.damaged + other.damaged, self.foreign + other.foreign, self.old + other.old)


class Reader:
    """Reads the rows in a log's folder or in one of its files. Later calls read only the rows that were
    added.

    Args:
        place: the folder or the file.
        bytes_max: largest total size of the files that are read, the newest first.
        form: the form of the log.
    """

    def __init__(self, place: Path, bytes_max: float = float("inf"), form: Form = DECISIONS) -> None:
        self._form = form
        self._place = place
        self._bytes_max = bytes_max
        self._old = 0
        self._scans: dict[Path, Scan] = {}
        self._foreign: set[Path] = set()
        self._unfinished = 0

    @property
    def files(self) -> list[Path]:
        """The files that were read and still exist, in their order."""
        return list(self._scans)

    @property
    def skipped(self) -> Skipped:
        """Counts of the parts of the log that were left out."""
        damaged = sum(scan.damaged for scan in self._scans.values())
        return Skipped(damaged + self._unfinished, len(self._foreign), self._old)

    def bytes_ahead(self) -> int:
        """Return the rough number of bytes that the next call of `news` reads. Raises `ArtifactError` if the
        log cannot be read.
        """
        return sum(_size(file) - self._scans.get(file, Scan()).offset for file in self._found())

    def news(self) -> Iterator[tuple[Path, Rows]]:
        """Yield the rows that were added since the last call, in the order of writing. Each item has a file,
        and some of its rows.

        Raises `ArtifactError` if nothing can be read.
        """
        files = self._found()
        self._scans = {file: self._scans.get(file, Scan()) for file in files}
        self._foreign &= {*files, *self._form.foreign_files(self._place)}
        for file in files:
            for rows in self._read(file, final=file != files[-1]):
                yield file, rows
        if self._place.is_file() and self._scans[self._place].nothing:
            raise ArtifactError(
                f"{self._place} is no file of the log of {self._form.name}, or damaged throughout"
            )

    def _found(self) -> list[Path]:
        try:
            if self._place.is_file():
                return [self._place]
            files = self._form.files_of(self._place)
        except OSError as error:
            raise ArtifactError(f"{self._place} cannot be read: {error.strerror}") from error
        self._foreign.update(self._form.foreign_files(self._place))
        if not files and not self._foreign:
            raise _none_error(self._place, self._form)
        room, kept = self._bytes_max, len(files)
        while kept and (room := room - _size(files[kept - 1])) >= 0:
            kept -= 1
        # The newest file is read in any case.
        self._old = min(kept, len(files) - 1) if files else 0
        return files[self._old :]

    def _read(self, path: Path, *, final: bool) -> Iterator[Rows]:
        """Read the new rows of a file. If it is not `final`, rows may still be added to it."""
        scan = self._scans[path]
        try:
            with path.open("rb") as file:
                file.seek(scan.offset)
                data = b""
                while piece := file.read(_PIECE_BYTES):
                    data += piece
                    before = scan.offset
                    yield from self._rows(path, scan.frames(data, final=False))
                    data = data[scan.offset - before :]
                if final:
                    yield from self._rows(path, scan.frames(data, final=True))
                else:
                    self._unfinished = int(bool(data) or scan.lost)
        except FileNotFoundError:
            # The file was deleted meanwhile, to make room for a newer one.
            return
        except OSError as error:
            raise ArtifactError(f"cannot read the {self._form.name} {path}: {error.strerror}") from error

    def _rows(self, path: Path, frames: Iterator[tuple[int, memoryview]]) -> Iterator[Rows]:
        parts = []
        for layout, content in frames:
            rows = self._form.rows(layout, content)
            if rows is not None:
                parts.append(rows)
            elif path not in self._foreign:
                self._foreign.add(path)
                log.warning("%s is left out: another version of ltp-switcher wrote it", path)
        if parts:
            yield np.concatenate(parts)


@cache
def _layout(dtype: np.dtype[np.void]) -> int:
    return zlib.crc32(repr(np.lib.format.dtype_to_descr(dtype)).encode())


def _of_bytes(content: memoryview, dtype: np.dtype[np.void]) -> Rows | None:
    """Return the rows in a frame's content; None if the content does not consist of whole rows."""
    return None if len(content) % dtype.itemsize else np.frombuffer(content, dtype)


def _size(path: Path) -> int:
    """Return the size of a file in bytes; 0 if the file was deleted to make room for a newer one."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_size
    return 0


def read(
    place: Path, since_s: float = 0.0, skipped: Skipped | None = None, form: Form = DECISIONS
) -> Iterator[Rows]:
    """Read the rows of a log's folder, or of one of its files, from Unix time `since_s` on. The rows come in
    parts, each with the shape (n,).

    Parts that are damaged or were written by another version are left out. After the last rows, `skipped` has
    their counts. Raises `ArtifactError` if nothing can be read.
    """
    reader = Reader(place, form=form)
    for _, rows in reader.news():
        yield rows[rows["time_s"] >= since_s]
    found = reader.skipped
    if skipped is not None:
        skipped.damaged, skipped.foreign, skipped.old = found.damaged, found.foreign, found.old


def read_names(place: Path, form: Form = DECISIONS) -> dict[int, str]:
    """Read the names of the arms by id from the log's folder, or from the folder of a file of the log. Raises
    `ArtifactError` if there is no log, or if the log has no names.
    """
    folder = place if place.is_dir() else place.parent
    path = folder / NAMES_FILE
    try:
        return {int(arm): str(name) for arm, name in json.loads(path.read_text()).items()}
    except (OSError, ValueError, AttributeError) as error:
        if isinstance(error, FileNotFoundError) and not form.files_of(folder):
            raise _none_error(place, form) from error
        raise ArtifactError(
            f"{path}, the names of the log's arms, cannot be read: {reason(error)}"
        ) from error


def _none_error(place: Path, form: Form) -> ArtifactError:
    return ArtifactError(
        f"{place} holds no {form.name}: the daemon logs them while {form.setting} is above 0"
    )
