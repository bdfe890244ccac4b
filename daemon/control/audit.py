# SPDX-License-Identifier: Apache-2.0
"""The audit file: one line of JSON for each change that an operator made. Lines are only appended.

The daemon itself remembers only the last 100 changes, but this file has the changes of months. A file of
`BYTES_MAX` bytes is rotated, and `KEPT` older files stay beside it.
"""

from __future__ import annotations

import datetime
import itertools
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ltp_switcher.daemon.control.caller import Caller
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.control.overrides import Change
from ltp_switcher.errors import ArtifactError, reason
from ltp_switcher.files import STATE_MODE

FILE_NAME: Final = "audit.jsonl"
BYTES_MAX: Final = 4 << 20
"""Largest size of the file in bytes. It holds some 15,000 changes of a setting."""
KEPT: Final = 4


def change_json(change: Change) -> dict[str, Json]:
    """A change in the form of the audit file and of the control socket's answers."""

    def caller(of: Caller) -> Json:
        via = None if of.via is None else caller(of.via)
        return {"uid": of.uid, "pid": of.pid, "token": of.token, "via": via}

    when = datetime.datetime.fromtimestamp(change.time_s, datetime.UTC)
    return {
        "number": change.number,
        "time": when.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "what": change.what,
        "before": change.before,
        "after": change.after,
        "lasts": change.lasts,
        "caller": caller(change.caller),
    }


def append(path: Path, changes: Sequence[Change]) -> None:
    """Append changes to the file, and wait until they are on disk. Raises `ArtifactError` if this fails.

    Either all changes are written or none: on a full disk, a part that was written is cut off again. After a
    crash within a line, the next change begins on a new line.
    """
    text = b"".join(json.dumps(change_json(change)).encode() + b"\n" for change in changes)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_size + len(text) > BYTES_MAX:
            _rotate(path)
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(path, flags, STATE_MODE)
        try:
            os.fchmod(descriptor, STATE_MODE)
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                text = b"\n" + text
            try:
                if os.write(descriptor, text) != len(text):
                    raise OSError(0, "the disk is full")
                os.fsync(descriptor)
            except OSError:
                os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ArtifactError(f"{path} cannot be written: {reason(error)}") from error


def _rotate(path: Path) -> None:
    """Make room for a new file: the file becomes .1, .1 becomes .2, and so on. The oldest file is lost."""
    places = [path, *(path.with_name(f"{path.name}.{number}") for number in range(1, KEPT + 1))]
    for newer, older in reversed(list(itertools.pairwise(places))):
        if newer.exists():
            newer.replace(older)
