# SPDX-License-Identifier: Apache-2.0
"""A lab that answers at once, for tests of the commands over it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.raw_results import raw_files

from ltp_switcher.eval.run import results
from ltp_switcher.eval.run.live import Sample
from ltp_switcher.eval.run.scenario import Scenario


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, str, int]]:
    """Replace the lab; return the list of (scenario, scheme, seed) that it was asked to run."""
    runs: list[tuple[str, str, int]] = []

    def run_scenario(
        scenario: Scenario, *, seed: int, on_progress: Callable[[Sample], None], **_: object
    ) -> SimpleNamespace:
        scheme = scenario.flows[0].scheme
        runs.append((scenario.name, scheme, seed))
        for t_s in range(int(scenario.duration_s)):
            on_progress(Sample(float(t_s), scheme, 40.0, 45.0, 11.0, 2.0, t_s))
        files = raw_files(scenario, seed=seed, goodput_share=0.5 + 0.4 * (scheme == "switcher"))
        files["guest.json"] = json.dumps({"busy_instructions": 1_000_000_000}).encode()
        return SimpleNamespace(
            files=files, kernel="6.1.0-test", wall_s=1.25, virtual_s=scenario.duration_s + 2
        )

    monkeypatch.setenv("LTP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(results, "run_scenario", run_scenario)

    def run_inputs(scenario: Scenario, *, seed: int, kernel: str, place: str) -> SimpleNamespace:
        hashed = hashlib.sha256(f"{scenario.canonical()} {seed} {kernel} {place}".encode()).hexdigest()
        return SimpleNamespace(fingerprint=lambda: hashed)

    monkeypatch.setattr(results, "run_inputs", run_inputs)
    return runs
