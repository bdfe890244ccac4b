# SPDX-License-Identifier: Apache-2.0
"""The cache: a folder for everything that is fetched or computed, and can be made again."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def cache_dir() -> Path:
    """Return the folder of the cache: `$LTP_CACHE` if it is set, or else `.cache` in the checkout."""
    return Path(os.environ.get("LTP_CACHE") or REPOSITORY / ".cache")
