# SPDX-License-Identifier: Apache-2.0
"""Each policy's trainer has the settings of its committed weights; its agent and its environment fit."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch

from ltp_switcher import policies
from ltp_switcher.policies.jury.train import JuryTrainer
from ltp_switcher.policies.ltp.train import LtpTrainer
from ltp_switcher.policies.owl import train as owl_train
from ltp_switcher.policies.runtime.arm import Law
from ltp_switcher.policies.runtime.inference import Network
from ltp_switcher.policies.spine import train as spine_train
from ltp_switcher.policies.spine.train import SpineTrainer
from ltp_switcher.policies.training.loop import Schedule

Leaves = dict[str, object]

TRAINERS: Mapping[str, Callable[[], object]] = {
    "ltp/ltp": lambda: LtpTrainer("ltp", "large"),
    "jury/jury": JuryTrainer,
    "spine/spine": lambda: SpineTrainer(Law.AIMD),
    "spine/spine-cubic": lambda: SpineTrainer(Law.CUBIC),
    "owl/owl": lambda: owl_train.trainer("owl"),
    "owl/owl-loss": lambda: owl_train.trainer("owl-loss"),
}
_SINCE: Mapping[str, Leaves] = {
    "ltp/ltp": {"td3.action_weight": 0.0, "td3.starts": False},
    "jury/jury": {"occupancy_memory": 200.0, "occupancy_memory_rtts": 15.0, "td3.starts": False},
    "spine/spine": {
        "td3.action_weight": 0.05,
        "td3.starts": True,
        "settle_after": 21_000,
        "settled_share": 0.5,
    },
    "spine/spine-cubic": {"td3.starts": True, "settle_after": 21_000, "settled_share": 0.0},
    "owl/owl": {},
    "owl/owl-loss": {"dqn.average": 0.9995, "environments": 66, "hidden_share": 0.5, "utility.scale": 4.5},
}
"""Settings that came or changed after the committed weights were trained."""
_OF_A_RUN = {"best_episode", "wall_s", "schedule"}
_MOVED = {"spine/spine": {"action_weight"}, "owl/owl-loss": {"region", "regions"}}
"""Keys of the card that have another name now."""


def leaves(tree: object, name: str = "") -> Leaves:
    """The values of nested mappings and lists, by their path."""
    if isinstance(tree, dict):
        parts = tree.items()
    elif isinstance(tree, list | tuple):
        parts = dict(enumerate(tree)).items()
    else:
        return {name: tree}
    return {
        k: v for key, part in parts for k, v in leaves(part, f"{name}.{key}" if name else str(key)).items()
    }


def card(name: str) -> dict[str, object]:
    return json.loads((Path(policies.__path__[0]) / f"{name}.json").read_text())


@pytest.mark.parametrize("name", TRAINERS)
def test_settings_are_the_card_s(name: str) -> None:
    trainer = TRAINERS[name]()
    ours, theirs = trainer.settings(), dict(card(name)["settings"])
    for moved in _MOVED.get(name, ()):
        theirs.pop(moved, None), ours.pop(moved, None)
    schedule = Schedule(**theirs["schedule"])
    told = leaves({key: value for key, value in theirs.items() if key not in _OF_A_RUN})
    changed = {key: value for key, value in leaves(ours).items() if told.get(key, "none") != value}
    assert changed == _SINCE[name]
    assert set(told) <= set(leaves(ours))
    if name != "owl/owl-loss":
        assert trainer.schedule == schedule


def test_owl_loss_trains_among_its_kind() -> None:
    """The card's region, whose recorded traces an LTE-like model's has replaced."""
    (region,) = TRAINERS["owl/owl-loss"]().settings()["regions"]
    assert {**region, "traces": 5} == leaves_of_region(card("owl/owl-loss")["settings"]["region"])


def leaves_of_region(region: dict[str, object]) -> dict[str, object]:
    return {key: tuple(value) if isinstance(value, list) else value for key, value in region.items()}


@pytest.mark.parametrize("name", TRAINERS)
def test_the_agent_fits_the_environment(name: str) -> None:
    trainer = TRAINERS[name]()
    environment = trainer.environment()
    seen = environment.reset(1)
    agent = trainer.agent(1, "cpu")
    agent.begin(environment.slots)
    actions = agent.act(seen)
    assert len(actions) == environment.slots
    after = environment.step(actions)
    assert np.isfinite(after.observations).all()
    assert np.isfinite(after.rewards[after.active]).all()


@pytest.mark.parametrize("name", TRAINERS)
def test_exported_networks_have_the_committed_ones_shapes(name: str) -> None:
    trainer = TRAINERS[name]()
    networks = trainer.networks(trainer.agent(1, "cpu"))
    committed = np.load(Path(policies.__path__[0]) / f"{name}.npz")
    shapes = {
        f"{part}/{key}": value.shape
        for part, (_, arrays) in networks.items()
        for key, value in arrays.items()
    }
    assert shapes == {key: committed[key].shape for key in committed if key in shapes}
    for layers, arrays in networks.values():
        assert Network(layers, arrays).input_size > 0


@pytest.mark.parametrize("name", ["ltp/ltp", "jury/jury"])
def test_a_seed_is_chosen_by_its_reward(name: str) -> None:
    trainer = TRAINERS[name]()
    assert trainer.score(trainer.agent(1, "cpu"), 0.25) == 0.25


@pytest.mark.parametrize(("variant", "bonus"), [("owl", "friendliness"), ("owl-loss", "equilibrium")])
def test_owls_are_chosen_by_their_claims_too(
    variant: str, bonus: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owl_train, bonus, lambda network: -0.125 if network.output_size == 7 else np.nan)
    trainer = owl_train.trainer(variant)
    assert trainer.score(trainer.agent(1, "cpu"), 0.25) == 0.125


@pytest.mark.parametrize(("law", "score"), [(Law.AIMD, 0.25 - 0.1 - 0.03), (Law.CUBIC, 0.25 - 0.1)])
def test_spines_are_chosen_by_friendliness_and_spine_by_steadiness(
    law: Law, score: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judge(value: float) -> Callable[[Callable[[float], object]], float]:
        return lambda arms: value if arms(0.2).law is law else np.nan

    monkeypatch.setattr(spine_train, "friendliness", judge(-0.1))
    monkeypatch.setattr(spine_train, "steadiness", judge(-0.03))
    trainer = SpineTrainer(law)
    assert trainer.score(trainer.agent(1, "cpu"), 0.25) == pytest.approx(score)


def test_friendliness_and_equilibrium_are_0_where_the_claim_is_met(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owl_train, "beside_cubic", lambda *_: np.array([1.0, np.e, 1.0 / np.e, 1.0]))
    assert owl_train.friendliness(None) == pytest.approx(-0.5 * 0.5)
    monkeypatch.setattr(owl_train, "from_equilibrium", lambda network, count, **_: 0.02 * count)
    assert owl_train.equilibrium(None) == pytest.approx(-0.05)


@pytest.mark.parametrize(
    ("text", "status"), [("0.5", 0), ("1", 0), ("0", 0), ("1.01", 2), ("-0.1", 2), ("x", 2)]
)
def test_a_penalty_is_0_to_1(text: str, status: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    penalties: list[float] = []
    monkeypatch.setattr(spine_train, "run", lambda trainer, _: penalties.append(trainer._penalty) or 0)
    arguments = ["--out", str(tmp_path), f"--pit-stop-penalty={text}"]
    if status:
        with pytest.raises(SystemExit) as error:
            spine_train.main(arguments)
        assert error.value.code == status
    else:
        assert spine_train.main(arguments) == 0
        assert penalties == [float(text)]


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)
