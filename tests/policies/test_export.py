# SPDX-License-Identifier: Apache-2.0
"""Weight files and inference in numpy."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.stacks import STACKS

from ltp_switcher import artifacts, policies
from ltp_switcher.errors import ArtifactError
from ltp_switcher.layers import Cell, Gru, gru_cell
from ltp_switcher.policies.runtime.export import Card, load, save
from ltp_switcher.policies.runtime.inference import Layer, Network

CARD = Card("test", "make train-test", "0" * 40, (1, 2, 3), {"discount": 0.98}, {"reward": 1.0}, ("None.",))


def random_weights(layers: tuple[Layer, ...], inputs: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    arrays = {}
    for number, layer in enumerate(layers):
        rows = {"dense": 1, "gru": 3, "lstm": 4}[layer.kind] * layer.size
        shapes = {"weight": (rows, inputs), "weight_ih": (rows, inputs), "weight_hh": (rows, layer.size)}
        for name in layer.parameters:
            arrays[f"{number}.{name}"] = rng.normal(0, 0.3, shapes.get(name, (rows,))).astype(np.float32)
        inputs = layer.size
    return arrays


@pytest.mark.parametrize("stack", STACKS)
def test_flows_of_a_batch_do_not_touch_each_other(stack: str) -> None:
    network = Network(STACKS[stack], random_weights(STACKS[stack], 5, 3))
    rng = np.random.default_rng(4)
    state = rng.normal(size=(9, network.state_size)).astype(np.float32)
    inputs = rng.normal(size=(9, 5)).astype(np.float32)
    after, outputs = network.step(state, inputs)
    for flow in range(9):
        one, output = network.step(state[flow : flow + 1], inputs[flow : flow + 1])
        np.testing.assert_allclose(one[0], after[flow], atol=1e-5)
        np.testing.assert_allclose(output[0], outputs[flow], atol=1e-5)


@pytest.mark.parametrize("stack", STACKS)
def test_many_flows_go_through_in_blocks_and_each_as_if_alone(stack: str) -> None:
    network = Network(STACKS[stack], random_weights(STACKS[stack], 5, 3))
    rng = np.random.default_rng(4)
    state = rng.normal(size=(1000, network.state_size)).astype(np.float32)
    inputs = rng.normal(size=(1000, 5)).astype(np.float32)
    given = state.copy(), inputs.copy()
    after, outputs = network.step(state, inputs)
    alone = [network.step(state[flow : flow + 1], inputs[flow : flow + 1]) for flow in range(1000)]
    np.testing.assert_allclose(after, np.concatenate([one for one, _ in alone]), atol=1e-5)
    np.testing.assert_allclose(outputs, np.concatenate([one for _, one in alone]), atol=1e-5)
    np.testing.assert_array_equal(state, given[0])
    np.testing.assert_array_equal(inputs, given[1])


def test_a_gru_for_many_flows_is_the_same_gru() -> None:
    rng = np.random.default_rng(7)
    cell = Cell(*(rng.normal(size=shape).astype(np.float32) for shape in ((24, 3), (24, 8), (24,), (24,))))
    x, hidden = (rng.normal(size=(40, size)).astype(np.float32) for size in (3, 8))
    np.testing.assert_allclose(Gru(cell).step(x, hidden), gru_cell(x, hidden, cell), atol=1e-6)


def test_a_policy_comes_back_as_it_was_saved(tmp_path: Path) -> None:
    path = tmp_path / "test.npz"
    weights = {name: random_weights(layers, 5, 5) for name, layers in STACKS.items()}
    checksum = save(path, {name: (STACKS[name], weights[name]) for name in STACKS}, CARD)
    networks, card = load(path)
    assert card["seeds"] == [1, 2, 3]
    inputs = np.ones((2, 5), np.float32)
    for name, layers in STACKS.items():
        before = Network(layers, weights[name])
        np.testing.assert_array_equal(
            networks[name].step(networks[name].initial_state(2), inputs)[1],
            before.step(before.initial_state(2), inputs)[1],
        )
    assert json.loads(path.with_suffix(".json").read_text())["sha256"] == checksum
    first = path.read_bytes()
    save(path, {name: (STACKS[name], weights[name]) for name in STACKS}, CARD)
    assert path.read_bytes() == first


def test_a_missing_file_says_how_to_get_it(tmp_path: Path) -> None:
    committed = Path(policies.__path__[0]) / "spine" / "spine-of-old.npz"
    with pytest.raises(ArtifactError, match="make train-spine"):
        load(committed)
    with pytest.raises(ArtifactError, match="check the path"):
        load(tmp_path / "ltp.npz")


def test_nobody_is_told_to_unpickle_a_file(tmp_path: Path) -> None:
    (tmp_path / "ltp.npz").write_bytes(b"no archive")
    with pytest.raises(ArtifactError, match="no file of policy weights") as caught:
        load(tmp_path / "ltp.npz")
    assert "pickle" not in str(caught.value)


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "test.npz"
    save(path, {"mlp": (STACKS["mlp"], random_weights(STACKS["mlp"], 5, 5))}, CARD)
    whole = bytearray(path.read_bytes())
    for place in (len(whole) // 3, len(whole) // 2):
        damaged = bytearray(whole)
        damaged[place] ^= 0x10
        path.write_bytes(damaged)
        with pytest.raises(ArtifactError, match=r"test\.npz"):
            load(path)
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ArtifactError, match="cannot be read"):
        load(path)


def test_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "test.npz"
    artifacts.write(path, {"a": np.zeros(1)}, {}, version=99)
    with pytest.raises(ArtifactError, match="version 99"):
        load(path)


def test_reserved_names_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="reserved"):
        artifacts.write(tmp_path / "x.npz", {"checksum": np.zeros(1)}, {}, version=1)


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    weights = random_weights(STACKS["gru"], 5, 5)
    with pytest.raises(ArtifactError, match=r"lack 1\.weight_hh"):
        Network(STACKS["gru"], {name: value for name, value in weights.items() if name != "1.weight_hh"})
    with pytest.raises(ArtifactError, match=r"2\.weight has shape"):
        Network(STACKS["gru"], {**weights, "2.weight": np.zeros((3, 3), np.float32)})
    weights["0.weight"][0, 0] = np.nan
    with pytest.raises(ArtifactError, match="not finite"):
        save(tmp_path / "x.npz", {"gru": (STACKS["gru"], weights)}, CARD)
