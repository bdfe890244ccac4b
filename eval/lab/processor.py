# SPDX-License-Identifier: Apache-2.0
"""One processor for each virtual machine, and its threads in an order that keeps runs identical.

When the guest idles, QEMU's main thread moves virtual time on to the next timer. Between the guest's
halt and the moment its last instructions are counted there is a window in which the main thread,
if it happens to be awake, moves time too far by those instructions: some 50 ns, once in a
million halts. With both threads on one processor and the main thread ahead of the guest's, the main
thread is never awake then.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def own_processor() -> Iterator[int]:
    """Give the number of a processor that no other lab uses, or, if there is none, of any."""
    allowed = sorted(os.sched_getaffinity(0))
    for number in allowed:
        # Of the whole machine, for labs of several checkouts share its processors.
        with (Path(tempfile.gettempdir()) / f"ltp-lab-processor-{number}").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                continue
            yield number
            return
    yield allowed[os.getpid() % len(allowed)]


def settle(pid: int, processor: int) -> None:
    """Put a QEMU that has just started on `processor`, its main thread ahead of those it will make.

    Where the system forbids the latter (it needs root or CAP_SYS_NICE), nothing is done about it,
    and a run may differ from its twin by nanoseconds.
    """
    os.sched_setaffinity(pid, {processor})
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(pid, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(1))
