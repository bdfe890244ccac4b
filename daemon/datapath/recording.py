# SPDX-License-Identifier: Apache-2.0
"""Recordings: each record of measurements with the arm that was chosen after it, in one growing .npy file.

The format is numpy's own, so `numpy.load` reads a finished file. If the daemon was killed, the file's header
still gives 0 rows; `read_recording` reads such a file, too.
"""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
import numpy.typing as npt

from ltp_switcher.arrays import ArmIds, Slots
from ltp_switcher.daemon.datapath import protocol
from ltp_switcher.daemon.datapath.layout import read_records
from ltp_switcher.daemon.datapath.types import RecordArray
from ltp_switcher.errors import ArtifactError, reason

_HEAD: Final = [
    ("step", "=u4"),  # Number of recorded steps before this one.
    ("slot", "=u2"),  # The flow's slot. After a flow's end the slot comes again with another cookie.
    ("chosen", "=u1"),  # Arm chosen for the coming step.
    ("reserved", "=u1"),
]
ROW_DTYPE: Final[np.dtype[np.void]] = np.dtype([*_HEAD, ("record", protocol.RECORD_DTYPE)])


class Recorder:
    """Writes a recording. Raises `ArtifactError` if the file cannot be written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows = 0
        self._step = 0
        try:
            self._file: BinaryIO = path.open("wb", buffering=1 << 20)
        except OSError as error:
            raise ArtifactError(f"cannot write the recording {path}: {error.strerror}") from error
        self._write_header()

    def append(self, slots: Slots, records: RecordArray, arms: ArmIds) -> None:
        """Add the records of one step of n flows, and the arms chosen after them. Each array has the shape
        (n,).
        """
        rows = np.zeros(len(records), ROW_DTYPE)
        rows["step"] = self._step
        rows["slot"] = slots
        rows["chosen"] = arms
        rows["record"] = records
        try:
            self._file.write(rows.tobytes())
            # A daemon that is killed does not close the file, so no rows may wait in a buffer.
            self._file.flush()
        except OSError as error:
            raise ArtifactError(f"cannot write the recording {self._path}: {error.strerror}") from error
        self._rows += len(rows)
        self._step += 1

    def close(self) -> None:
        """Write the number of rows, and close the file."""
        self._file.seek(0)
        self._write_header()
        self._file.close()

    def _write_header(self) -> None:
        # numpy pads a header so that the first axis may grow to any length in place.
        header = {"descr": np.lib.format.dtype_to_descr(ROW_DTYPE), "fortran_order": False}
        np.lib.format.write_array_header_2_0(self._file, {**header, "shape": (self._rows,)})


def read_recording(path: Path) -> npt.NDArray[np.void]:
    """Read the rows of a finished or cut-off recording, `ROW_DTYPE`, shape (rows,).

    The records of an older version are 0 in the members that came later.

    Raises `ArtifactError` if the file is no recording of this version or of an older one.
    """
    try:
        with path.open("rb") as file:
            if np.lib.format.read_magic(file) != (2, 0):
                raise ValueError("not a .npy file of version 2.0")
            _, _, dtype = np.lib.format.read_array_header_2_0(file)
            if not _begins_like_ours(dtype):
                raise ValueError("recorded by another version of this program")
            data = file.read()
    except (OSError, ValueError) as error:
        raise ArtifactError(f"cannot read the recording {path}: {reason(error)}") from error
    whole = len(data) // dtype.itemsize * dtype.itemsize
    return read_records(np.frombuffer(data[:whole], np.uint8), dtype.itemsize, ROW_DTYPE)


def _begins_like_ours(dtype: np.dtype[np.void]) -> bool:
    """Return whether the rows of a recording can be read: they have our members, or are older and lack the
    last members of `record`.
    """
    if dtype.names != ROW_DTYPE.names:
        return False
    own, told = ROW_DTYPE["record"], dtype["record"].names or ()
    older = np.dtype([(name, own[name]) for name in (own.names or ())[: len(told)]])
    return dtype == np.dtype([*_HEAD, ("record", older)])
