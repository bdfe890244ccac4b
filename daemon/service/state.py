# SPDX-License-Identifier: Apache-2.0
"""Learned state on disk: one .npz file. The file is written whole or not at all, and checked
when it is read.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltp_switcher import artifacts
from ltp_switcher.artifacts import Arrays
from ltp_switcher.daemon.step.counters import Statistics
from ltp_switcher.errors import ArtifactError, ArtifactMissingError
from ltp_switcher.files import STATE_MODE

log = logging.getLogger(__name__)

FILE_NAME: Final = "state.npz"
FORMAT_VERSION: Final = 1


def write_state(path: Path, arrays: Arrays) -> None:
    """Write arrays with a version and a checksum. After a crash the disk has either the old file or the new
    one.

    Raises `ArtifactError` if the file cannot be written.
    """
    artifacts.write(path, arrays, {}, version=FORMAT_VERSION, mode=STATE_MODE)


def read_state(path: Path) -> dict[str, NDArray[np.generic]] | None:
    """Read the arrays that `write_state` wrote; None if there is no file.

    Raises `ArtifactError` if the file is corrupt, has another version, or cannot be read.
    """
    try:
        arrays, _ = artifacts.read(
            path, what="learned state", version=FORMAT_VERSION, remedy="none was saved"
        )
    except ArtifactMissingError:
        return None
    return arrays


class Saver:
    """Saves state in a thread of its own, so that no step waits for a disk. `statistics` counts saves and
    failures.
    """

    def __init__(self, path: Path, statistics: Statistics) -> None:
        self._path = path
        self._statistics = statistics
        self._thread: threading.Thread | None = None

    @property
    def saving(self) -> bool:
        """Whether a save is under way."""
        return self._thread is not None and self._thread.is_alive()

    def start(self, arrays: Arrays) -> None:
        """Save these arrays in the thread. Nobody may change them after this call. If another save still
        runs, do nothing.
        """
        if not self.saving:
            self._thread = threading.Thread(target=self._save, args=(arrays,), name="save", daemon=True)
            self._thread.start()

    def finish(self, arrays: Arrays) -> None:
        """Save these arrays now, after the end of any save that is under way."""
        if self._thread is not None:
            self._thread.join()
        self._save(arrays)

    def _save(self, arrays: Arrays) -> None:
        try:
            write_state(self._path, arrays)
            self._statistics.saves += 1
        except ArtifactError as error:
            self._statistics.save_failures += 1
            log.warning("learned state was not saved: %s", error)
