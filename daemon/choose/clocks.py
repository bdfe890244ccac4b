# SPDX-License-Identifier: Apache-2.0
"""The clocks by which memories of prefixes outlive the daemon.

Records tell CLOCK_MONOTONIC, which begins anew when the machine boots. So the saved state tells Unix time.
"""

from __future__ import annotations

import time


def clocks() -> tuple[int, int]:
    """CLOCK_MONOTONIC, by which records tell the time, and how far Unix time is ahead of it, both in ns."""
    now_ns = time.monotonic_ns()
    return now_ns, time.time_ns() - now_ns
