# SPDX-License-Identifier: Apache-2.0
"""Seeds that the workers of a real Dask cluster on the loopback train."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.dask_cluster import end, scheduler, worker
from support.tiny_trainer import Tiny

from ltp_switcher.policies.runtime.export import load
from ltp_switcher.policies.training import command, elsewhere

distributed = pytest.importorskip("distributed")


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A scheduler with two workers: its address."""
    with scheduler(tmp_path) as found, contextlib.ExitStack() as stack:
        for _ in range(2):
            stack.callback(end, worker(found, tmp_path))
        with distributed.Client(found, set_as_default=False) as client:
            client.wait_for_workers(2)
        yield found


def train(*arguments: object) -> int:
    parsed = command.parser("tiny", None).parse_args([str(argument) for argument in arguments])
    return command.run(Tiny(), parsed)


def figures(out: Path) -> dict[str, dict[str, float]]:
    results = json.loads((out / "results.json").read_text())
    return {seed: outcome["figures"] for seed, outcome in results.items()}


def test_a_cluster_trains_the_same_as_this_machine(tmp_path: Path, address: str) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    usual = ("--seeds", 4, 5, 6, "--validate-every", 2)
    assert train("--out", here, *usual, "--export", tmp_path / "here.npz") == 0
    assert train("--out", there, *usual, "--export", tmp_path / "there.npz", "--cluster", address) == 0
    assert figures(there) == figures(here)
    (first, card), (second, other) = (load(tmp_path / f"{name}.npz") for name in ("here", "there"))
    assert card["seeds"] == other["seeds"]
    inputs = np.linspace(-1.0, 1.0, 8, dtype=np.float32)[:, None]
    state = np.zeros((8, 0), np.float32)
    answers = [networks["actor"].step(state, inputs)[1] for networks in (first, second)]
    np.testing.assert_array_equal(*answers)
    for seed in (4, 5, 6):
        names = {path.name for path in (there / f"seed-{seed}").iterdir()}
        assert names == {path.name for path in (here / f"seed-{seed}").iterdir()}


def test_a_seed_with_a_checkpoint_goes_on_here(
    tmp_path: Path, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train("--out", tmp_path, "--seeds", 4, "--episodes", 4) == 0
    capsys.readouterr()
    assert train("--out", tmp_path, "--seeds", 4, 5, "--resume", "--cluster", address) == 0
    told = capsys.readouterr().err
    assert "seed 5: trained" in told
    assert "seed 4: trained" not in told


def test_another_trainer_is_another_task(monkeypatch: pytest.MonkeyPatch) -> None:
    def name() -> str:
        return elsewhere.Seed(Tiny(), None, 5, "cpu", 1).fingerprint()

    first = name()
    assert name() == first
    assert elsewhere.Seed(Tiny(), None, 5, "cpu", 2).fingerprint() != first
    monkeypatch.setattr(Tiny, "bonus", 1.0)
    assert name() != first


def test_no_scheduler_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert train("--out", tmp_path, "--cluster", "scheduler:8786") == 1
    assert "--cluster" in capsys.readouterr().err
