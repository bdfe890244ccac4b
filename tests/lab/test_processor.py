# SPDX-License-Identifier: Apache-2.0
"""The processors of labs that run side by side."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest

from ltp_switcher.eval.lab.processor import own_processor


def test_labs_spread_evenly_over_the_processors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    allowed = os.sched_getaffinity(0)
    with ExitStack() as stack:
        used = Counter(stack.enter_context(own_processor()) for _ in range(3 * len(allowed)))
        assert used == dict.fromkeys(allowed, 3)
    # A lab that has ended leaves its place to the next one.
    with own_processor() as again:
        assert again == min(allowed)
