# SPDX-License-Identifier: Apache-2.0
"""Where the evaluation looks for files and keeps what it has computed."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SCENARIOS = Path(__file__).resolve().parents[1] / "scenarios"


def cache_dir() -> Path:
    """Folder of everything that can be computed again: `$LTP_CACHE`, else `.cache` in the repository."""
    return Path(os.environ.get("LTP_CACHE") or REPOSITORY / ".cache")
