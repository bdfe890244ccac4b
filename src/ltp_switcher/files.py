# SPDX-License-Identifier: Apache-2.0
"""Files that programs rewrite. A file is replaced as a whole, by one process at a time, and is never lost.

A program that reads a file, changes its content and writes it back does all three under `locked`. A program
that only reads needs no lock: thanks to `write_atomically` it sees the old content or the new content.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Final

from ltp_switcher.errors import ArtifactError, ArtifactMissingError, reason

log = logging.getLogger(__name__)

STATE_MODE: Final = 0o640
"""File mode of the daemon's files: the daemon's user may write them, and its group may read them."""

LOCK_WAIT_S: Final = 10.0
"""Time to wait for another program that rewrites the same file, in seconds."""
_LOOK_S: Final = 0.02


@contextmanager
def locked(path: Path, wait_s: float = LOCK_WAIT_S) -> Iterator[None]:
    """Hold the lock on a file while the caller rewrites the file. Other programs and threads that call this
    function wait.

    The lock is flock(2) on a hidden file beside `path`, because a rewrite replaces `path` itself. The hidden
    file is never removed. Only its owner may open it. Otherwise anyone who may read it could hold the lock
    and keep the writers waiting.

    Raises:
        ArtifactError: the lock cannot be made, or others hold it for more than `wait_s` seconds.
    """
    lock = path.with_name(f".{path.name}.lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {error.strerror} ({lock})") from error
    try:
        _wait_for(descriptor, path, time.monotonic() + wait_s)
        yield
    finally:
        os.close(descriptor)


def write_atomically(
    path: Path, content: bytes, *, mode: int | None = None, group: int | None = None
) -> None:
    """Replace a file's content as a whole: a crash leaves the old file or the new one.

    The new file gets `mode` and `group` (an id). If one of them is None, the system's default applies.

    Raises:
        ArtifactError: the file cannot be written.
    """
    partial = path.with_name(path.name + ".partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with partial.open("wb") as file:
            # The permissions come before the content.
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            if group is not None:
                os.fchown(file.fileno(), -1, group)
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
        # The rename itself is on disk only when the directory is.
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {reason(error)}") from error


def read_whole(path: Path, bytes_max: int) -> bytes:
    """Return the content of a file of at most `bytes_max` bytes.

    Raises:
        ArtifactMissingError: there is no such file.
        ArtifactError: the file is not a regular file, is larger, or cannot be read.
    """
    with opened(path, bytes_max) as file:
        # The file may grow meanwhile.
        return file.read(bytes_max)


@contextmanager
def opened(path: Path, bytes_max: int) -> Iterator[BinaryIO]:
    """Open a file of at most `bytes_max` bytes for reading. The function raises the errors of `read_whole`,
    also for reads within the context.
    """
    try:
        # Without O_NONBLOCK a pipe in its place would wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - by its descriptor
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise ArtifactError("it is no regular file")
            if status.st_size > bytes_max:
                raise ArtifactError(
                    f"it has {status.st_size} bytes, and no release writes more than {bytes_max}"
                )
            yield file
    except FileNotFoundError as error:
        raise ArtifactMissingError("there is no such file") from error
    except OSError as error:
        raise ArtifactError(reason(error)) from error


def set_aside(path: Path) -> Path:
    """Rename a file that cannot be used, so that a new file can take its place. Return the new path."""
    aside = path.with_name(f"{path.name}.corrupt-{time.time_ns()}")
    try:
        path.replace(aside)
    except OSError as error:
        log.warning("cannot set %s aside: %s", path, error.strerror)
    return aside


def _wait_for(descriptor: int, path: Path, until_s: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until_s:
                raise ArtifactError(
                    f"{path} cannot be written: another program has been writing it for too long; "
                    f"`fuser {path.with_name(f'.{path.name}.lock')}` names it"
                ) from None
            time.sleep(_LOOK_S)
        else:
            return
