# SPDX-License-Identifier: Apache-2.0
"""Gives each virtual machine one processor, and orders its threads so that equal runs stay identical.

When the guest idles, QEMU's main thread moves virtual time on to the next timer. There is a short window
between the guest's halt and the moment at which its last instructions are counted. If the main thread is
awake in this window, it moves time too far by those instructions: some 50 ns, once in a million halts. If
both threads are on one processor, and the main thread goes first, the main thread is never awake then.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

PLACES: Final = 16
"""Number of labs on each processor whose places are told apart."""


@contextlib.contextmanager
def own_processor() -> Iterator[int]:
    """Give the number of a processor that no other lab uses or, if all are used, one that the fewest use."""
    allowed = sorted(os.sched_getaffinity(0))
    for place, number in itertools.product(range(PLACES), allowed):
        # The locks are for the whole machine, because labs of several checkouts share its processors.
        path = Path(tempfile.gettempdir()) / f"ltp-lab-processor-{number}-{place}"
        try:
            lock = _opened(path)
        except PermissionError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            continue
        try:
            yield number
        finally:
            os.close(lock)
        return
    yield allowed[threading.get_native_id() % len(allowed)]


def _opened(path: Path) -> int:
    """Open a file to lock it, and make it if it is missing. The file is opened for reading alone, because it
    may belong to another user.
    """
    with contextlib.suppress(FileExistsError):
        # O_CREAT alone would fail: under /tmp the kernel refuses it for another user's file.
        return os.open(path, os.O_RDONLY | os.O_CREAT | os.O_EXCL, 0o644)
    return os.open(path, os.O_RDONLY)


def settle(pid: int, processor: int) -> None:
    """Put a QEMU that has just started on `processor`, with its main thread ahead of its later threads.

    The order needs root or CAP_SYS_NICE. If the system forbids it, the order stays as it is, and equal runs
    may differ by nanoseconds.
    """
    os.sched_setaffinity(pid, {processor})
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(pid, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
