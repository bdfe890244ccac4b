# SPDX-License-Identifier: Apache-2.0
"""Several runs at once: the error of one ends the others, and is told."""

from __future__ import annotations

from pathlib import Path

import pytest
from rich.console import Console
from support.quick_run import quick_runs

from ltp_switcher.errors import LabError
from ltp_switcher.eval.run import batch
from ltp_switcher.eval.run.executor import Here


def test_the_error_of_a_run_is_told_whichever_run_ends_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise LabError("the guest has no memory left")

    def reversed_order(futures: dict[object, int]) -> list[object]:
        """The runs that were not begun come first, as they may where all have ended."""
        return [*futures][::-1]

    monkeypatch.setattr(batch, "run_job", fail)
    monkeypatch.setattr(batch, "as_completed", reversed_order)
    jobs = quick_runs(tmp_path, ["bbr", "cubic", "vegas"])
    with pytest.raises(LabError, match="no memory left"):
        batch.run_batch(jobs, Console(quiet=True), use_cache=True, executor=Here(1))
