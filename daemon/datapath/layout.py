# SPDX-License-Identifier: Apache-2.0
"""Reads the packed records of a module that is older or newer than the daemon.

New members go to the end of a record, with a new version. So the records of a newer module begin with all
that the daemon knows, and the records of an older module lack their last members. Such members are 0.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ltp_switcher.daemon.datapath.protocol import RECORD_VERSION
from ltp_switcher.errors import ModuleVersionError

OLDEST: Final = 4
"""The oldest version of records that the daemon reads. Records of earlier versions have another order."""


def check_layout(version: int, size: int, own_size: int) -> None:
    """Check that the daemon can read the module's records of `size` bytes. The daemon's own records have
    `own_size` bytes.

    Raises:
        ModuleVersionError: the version is too old, or the size does not fit it. A newer record may not be
            shorter than the daemon's, and an older one not longer.
    """
    fits = {-1: size <= own_size, 0: size == own_size, 1: size >= own_size}
    if version < OLDEST or not size or not fits[(version > RECORD_VERSION) - (version < RECORD_VERSION)]:
        raise ModuleVersionError(version, size, RECORD_VERSION, own_size)


def read_records(content: npt.NDArray[np.uint8], size: int, dtype: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """Return the records in `content`, shape (records,). `content` has the shape (bytes,), and each record of
    the module has `size` bytes.

    If `size` is the size of `dtype`, the result is a view of `content`. Otherwise it is a copy. The copy
    leaves out members that the daemon does not know, and is 0 in members that the module does not have.
    """
    if size == dtype.itemsize:
        return content.view(dtype)
    told = content.reshape(-1, size)
    common = min(size, dtype.itemsize)
    known = np.zeros((len(told), dtype.itemsize), np.uint8)
    known[:, :common] = told[:, :common]
    return known.reshape(-1).view(dtype)
