# SPDX-License-Identifier: Apache-2.0
"""The use of the machine by this process."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc/self")
_STARTED_S: Final = time.time()


def usage() -> dict[str, float]:
    """CPU time in s, memory in bytes, open files, and Unix time of the start; some may be unreadable."""
    times = os.times()
    found = {"cpu_seconds": times.user + times.system, "start_time_seconds": _STARTED_S}
    with contextlib.suppress(OSError, ValueError, IndexError):
        pages = int((_PROC / "statm").read_text().split()[1])
        found["resident_memory_bytes"] = float(pages * os.sysconf("SC_PAGE_SIZE"))
    with contextlib.suppress(OSError):
        found["open_fds"] = float(len(os.listdir(_PROC / "fd")))  # noqa: PTH208 # the descriptor of the list
    return found
