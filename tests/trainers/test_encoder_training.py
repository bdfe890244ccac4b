# SPDX-License-Identifier: Apache-2.0
"""The encoder's training learns to use its memory, and numpy and PyTorch compute the same."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from ltp_switcher.encoder import GRUEncoder, load
from ltp_switcher.encoder.dataset import Sequence, save_sequence
from ltp_switcher.encoder.gru import GRUEncoder as Numpy
from ltp_switcher.encoder.model_torch import TorchEncoder
from ltp_switcher.encoder.train import main


def path(seed: int, split: str, steps: int = 300) -> Sequence:
    """The reward of arms 1 and 2 depends on what an input was some steps ago: only a memory can tell."""
    rng = np.random.default_rng(seed)
    inputs = np.zeros((steps, 75), np.float32)
    inputs[:, 0] = np.repeat(rng.choice([-1, 1], steps // 20), 20)
    arm = np.repeat(rng.integers(1, 3, steps // 10), 10).astype(np.uint8)
    inputs[np.arange(steps), 54 + arm] = 1
    past = np.roll(inputs[:, 0], 3)
    reward = (0.5 + 0.3 * past * np.where(arm == 1, 1, -1)).astype(np.float32)
    return Sequence(inputs, arm, reward, np.append(True, arm[1:] != arm[:-1]), split)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for i, split in enumerate(["train"] * 4 + ["validation", "test"]):
        save_sequence(tmp_path / f"{split}-{i}.npz", path(i, split))
    return tmp_path


def test_learns_and_is_repeatable_to_the_byte(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = [data / "out" / name for name in ("a.npz", "b.npz")]
    for file in files:
        assert main(["--data", str(data), "--out", str(file), "--json"]) == 0
    *_, told = capsys.readouterr().out.splitlines()
    assert json.loads(told)["results"]["mean of each arm"]["r2"] < 0.1
    assert files[0].read_bytes() == files[1].read_bytes()
    artifact = load(files[0])
    results = artifact.metadata["results"]
    assert isinstance(results, dict)
    assert results["linear in the encoder's context"]["r2"] > 0.5
    assert results["mean of each arm"]["r2"] < 0.1
    # Arms that no path ran have no say in the state.
    assert np.abs(artifact.weights["gru_weight_ih"][:, 57:]).max() == 0
    assert GRUEncoder(artifact).output_size == 16


def test_numpy_equals_pytorch() -> None:
    torch.manual_seed(0)
    model = TorchEncoder(75, 21)
    from ltp_switcher.encoder import Artifact

    none = np.zeros((21, 17, 17)), np.zeros((21, 17)), np.zeros(21)
    encoder = Numpy(Artifact(model.arrays(), *none))
    inputs = torch.randn(3, 500, 75) * 2
    with torch.no_grad():
        wanted, _ = model(inputs)
    state = encoder.initial_state(3)
    for t in range(500):
        state, z = encoder.step(state, inputs[:, t].numpy())
        np.testing.assert_allclose(z, wanted[:, t], atol=1e-5)
