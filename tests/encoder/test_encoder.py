# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest
from support.bandit_world import random_artifact

from ltp_switcher.encoder import Artifact, GRUEncoder, load, save
from ltp_switcher.errors import ArtifactError


def naive_step(artifact: Artifact, h: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """GRU of Cho et al. 2014 in the form of PyTorch's documentation, one flow, float64."""
    w = {name: value.astype(np.float64) for name, value in artifact.weights.items()}
    size = len(h)

    def gate(i: int) -> tuple[np.ndarray, np.ndarray]:
        rows = slice(i * size, (i + 1) * size)
        return (
            w["gru_weight_ih"][rows] @ x + w["gru_bias_ih"][rows],
            w["gru_weight_hh"][rows] @ h + w["gru_bias_hh"][rows],
        )

    r = 1 / (1 + np.exp(-sum(gate(0))))
    z = 1 / (1 + np.exp(-sum(gate(1))))
    ours, theirs = gate(2)
    h = (1 - z) * np.tanh(ours + r * theirs) + z * h
    middle = np.maximum(w["fc1_weight"] @ h + w["fc1_bias"], 0)
    return h, np.tanh(w["fc2_weight"] @ middle + w["fc2_bias"])


def test_inference_equals_the_definition_over_a_long_sequence() -> None:
    artifact = random_artifact()
    encoder = GRUEncoder(artifact)
    rng = np.random.default_rng(1)
    state = encoder.initial_state(5)
    naive = np.zeros((5, encoder.hidden_size))
    for _ in range(300):
        x = rng.normal(size=(5, 75)).astype(np.float32) * 3
        state, z = encoder.step(state, x)
        rows = [naive_step(artifact, naive[i], x[i].astype(np.float64)) for i in range(5)]
        naive = np.array([row[0] for row in rows])
        np.testing.assert_allclose(z, [row[1] for row in rows], atol=1e-5)
    assert z.dtype == state.dtype == np.float32


def test_extreme_inputs_do_not_overflow() -> None:
    encoder = GRUEncoder(random_artifact())
    state, z = encoder.step(encoder.initial_state(1), np.full((1, 75), 1e6, np.float32))
    assert np.isfinite(state).all()
    assert np.abs(z).max() <= 1


def test_file_round_trip_is_exact_and_repeatable(tmp_path: Path) -> None:
    artifact = random_artifact(3)
    first, second = tmp_path / "a.npz", tmp_path / "b.npz"
    assert save(first, artifact) == save(second, artifact)
    assert first.read_bytes() == second.read_bytes()
    loaded = load(first)
    for name, weight in artifact.weights.items():
        np.testing.assert_array_equal(loaded.weights[name], weight)
    assert loaded.digest == artifact.digest
    assert loaded.metadata["seed"] == 3


def test_a_bad_file_is_refused_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "encoder.npz"
    with pytest.raises(ArtifactError, match="make train-encoder"):
        load(path)
    path.write_bytes(b"not an archive")
    with pytest.raises(ArtifactError, match="cannot be read"):
        load(path)
    save(path, random_artifact())
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ArtifactError, match="cannot be read"):
        load(path)
    with np.load(save_and(path)) as file:
        arrays = {name: file[name] for name in file.files}
    arrays["fc2_bias"] = arrays["fc2_bias"] + 1
    np.savez(path, **arrays)
    with pytest.raises(ArtifactError, match="checksum"):
        load(path)


def save_and(path: Path) -> Path:
    save(path, random_artifact())
    return path


def test_weights_that_do_not_fit_together_are_refused() -> None:
    artifact = random_artifact()
    weights = {**artifact.weights, "fc1_bias": np.zeros(3, np.float32)}
    with pytest.raises(ArtifactError, match="fc1_bias"):
        GRUEncoder(Artifact(weights, artifact.prior_A, artifact.prior_b, artifact.prior_counts))
