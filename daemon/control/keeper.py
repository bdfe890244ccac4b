# SPDX-License-Identifier: Apache-2.0
"""Keeps the overrides on disk, in a thread of its own, so that no step waits for a disk."""

from __future__ import annotations

import logging
import queue
import threading
from pathlib import Path

from ltp_switcher.daemon.control import audit, kept
from ltp_switcher.daemon.control.overrides import Overrides
from ltp_switcher.errors import ArtifactError

log = logging.getLogger(__name__)


class Save:
    """A write to disk by another thread. `done` may be asked at any time."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self.error = ""
        """Reason of the latest failure; empty if there was none."""

    @property
    def done(self) -> bool:
        """Whether the write has ended, with or without success."""
        return self._event.is_set()

    def end(self, error: str = "") -> None:
        """End the write. `error` is the reason for a failure, and empty after a success."""
        self.error = error
        self._event.set()


class Keeper:
    """Writes the latest overrides to a file. Overrides that arrive during a write are written together.

    Without a `path` nothing is written. `damaged` has files that could not be read; see `kept.write`. Changes
    with a number above `audited` also go into the audit file beside `path`.
    """

    def __init__(self, path: Path | None, damaged: tuple[Path, ...] = (), audited: int = 0) -> None:
        self._path = path
        self._audited = audited
        self._damaged = damaged
        self._queue: queue.SimpleQueue[tuple[Overrides, Save] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def save(self, overrides: Overrides) -> Save:
        """Write these overrides to the file, in another thread. Nobody may change the object
        after this call.
        """
        save = Save()
        if self._path is None:
            save.end()
            return save
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._work, args=(self._path,), name="overrides", daemon=True
            )
            self._thread.start()
        self._queue.put((overrides, save))
        return save

    def close(self) -> None:
        """Finish the waiting writes, and end the thread."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _work(self, path: Path) -> None:
        while (entry := self._queue.get()) is not None:
            batch = [entry]
            end = False
            while not self._queue.empty():
                more = self._queue.get()
                if more is None:
                    end = True
                    break
                batch.append(more)
            error = ""
            try:
                self._audit(path, batch[-1][0])
                kept.write(path, batch[-1][0], self._damaged)
                self._damaged = ()
            except ArtifactError as failure:
                error = str(failure)
                log.warning("overrides were not saved: %s", error)
            for _, save in batch:
                save.end(error)
            if end:
                return

    def _audit(self, path: Path, overrides: Overrides) -> None:
        new = [change for change in overrides.changes if change.number > self._audited]
        if new:
            audit.append(path.with_name(audit.FILE_NAME), new)
            self._audited = new[-1].number
