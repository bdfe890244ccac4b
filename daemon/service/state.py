# SPDX-License-Identifier: Apache-2.0
"""Learned state on disk: one .npz, written whole or not at all, checked when it is read."""

from __future__ import annotations

import hashlib
import io
import logging
import os
import threading
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from ltp_switcher.errors import ArtifactError

log = logging.getLogger(__name__)

FILE_NAME: Final = "state.npz"
FORMAT_VERSION: Final = 1
_VERSION_KEY: Final = "format_version"
_DIGEST_KEY: Final = "sha256"

Arrays = Mapping[str, np.ndarray]


def write_state(path: Path, arrays: Arrays) -> None:
    """Write arrays with version and checksum. A crash leaves the old file or the new one.

    Raises `ArtifactError` where the file cannot be written.
    """
    content = io.BytesIO()
    own = {_VERSION_KEY: np.array(FORMAT_VERSION), _DIGEST_KEY: np.array(_digest(arrays))}
    np.savez(content, **{**arrays, **own})  # type: ignore[arg-type]
    write_atomically(path, content.getvalue())


def read_state(path: Path) -> dict[str, np.ndarray] | None:
    """The arrays that `write_state` wrote; None where there is no file.

    Raises `ArtifactError` where it is corrupt, of another version, or cannot be read.
    """
    try:
        content = io.BytesIO(path.read_bytes())
        with np.load(content, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except FileNotFoundError:
        return None
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise ArtifactError(f"{path} cannot be read: {error}") from error
    version, digest = arrays.pop(_VERSION_KEY, None), arrays.pop(_DIGEST_KEY, None)
    if version is None or version.shape or version != FORMAT_VERSION:
        raise ArtifactError(f"{path} has format version {version}; this program reads {FORMAT_VERSION}")
    if digest is None or str(digest) != _digest(arrays):
        raise ArtifactError(f"{path} is corrupt: its checksum does not match")
    return arrays


def set_aside(path: Path) -> Path:
    """Move a file that cannot be used out of the way, and return its new place."""
    aside = path.with_name(f"{path.name}.corrupt-{time.time_ns()}")
    try:
        path.replace(aside)
    except OSError as error:
        log.warning("cannot set %s aside: %s", path, error.strerror)
    return aside


def write_atomically(path: Path, content: bytes) -> None:
    """Replace a file's content as a whole. Raises `ArtifactError`."""
    new = path.with_name(path.name + ".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
        # The rename itself is on disk only when the directory is.
        directory = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise ArtifactError(f"cannot write {path}: {error.strerror}") from error


class Saver:
    """Saves in a thread of its own, so that no step waits for a disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread: threading.Thread | None = None
        self.saves = 0
        self.failures = 0

    @property
    def saving(self) -> bool:
        """Whether a save is under way."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, arrays: Arrays) -> None:
        """Save these arrays, which nobody may change from now on; left out while another save runs."""
        if not self.saving:
            self._thread = threading.Thread(target=self._save, args=(arrays,), name="save", daemon=True)
            self._thread.start()

    def finish(self, arrays: Arrays) -> None:
        """Save now, after the save that may be under way."""
        if self._thread is not None:
            self._thread.join()
        self._save(arrays)

    def _save(self, arrays: Arrays) -> None:
        try:
            write_state(self._path, arrays)
            self.saves += 1
        except ArtifactError as error:
            self.failures += 1
            log.warning("learned state was not saved: %s", error)


def _digest(arrays: Arrays) -> str:
    total = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        total.update(f"{name}:{array.dtype.str}:{array.shape}:".encode())
        total.update(array.tobytes())
    return total.hexdigest()
