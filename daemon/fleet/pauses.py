# SPDX-License-Identifier: Apache-2.0
"""The pauses between exchanges."""

from __future__ import annotations

from typing import Final

JITTER: Final = 0.2
"""Share by which the time between exchanges varies, so that hosts do not come all at once."""
LONGEST: Final = 10.0
"""Longest time between exchanges while they fail, in periods."""


def pause_s(period_s: float, failures: int, chance: float) -> float:
    """Time until the next exchange: longer and longer while they fail. `chance`: 0 to 1, by lot."""
    longer = min(2.0 ** min(failures, 32), LONGEST)
    return period_s * longer * (1.0 + JITTER * (2.0 * chance - 1.0))
