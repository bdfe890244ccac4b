# SPDX-License-Identifier: Apache-2.0
"""The trainers' command line, with a task whose best policy is known."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.tiny_trainer import Tiny

from ltp_switcher.policies.runtime.export import load
from ltp_switcher.policies.training import command


def train(*arguments: object) -> int:
    parsed = command.parser("tiny", __doc__).parse_args([str(argument) for argument in arguments])
    return command.run(Tiny(), parsed)


def test_two_seeds_are_trained_and_the_better_one_is_exported(tmp_path: Path) -> None:
    out, weights = tmp_path / "out", tmp_path / "tiny.npz"
    assert train("--out", out, "--seeds", 4, 5, "--validate-every", 2, "--export", weights) == 0
    assert weights.with_name(f"{weights.stem}-curve.png").exists()
    results = json.loads((out / "results.json").read_text())
    rewards = {int(seed): outcome["figures"]["reward"] for seed, outcome in results.items()}
    networks, card = load(weights)
    assert card["seeds"][0] == max(rewards, key=rewards.__getitem__)
    assert card["results"]["reward"] == max(rewards.values())
    assert card["settings"]["step"] == 0.4
    assert not any(str(tmp_path) in str(value) for value in card.values())
    assert networks["actor"].step(np.zeros((3, 0), np.float32), np.ones((3, 1), np.float32))[1].shape == (
        3,
        1,
    )
    assert (out / "curve.png").read_bytes().startswith(b"\x89PNG")
    worse = min(rewards, key=rewards.__getitem__)
    again = ("--out", out, "--seeds", 4, 5, "--validate-every", 2, "--resume", "--export", weights)
    assert train(*again, "--choose", worse) == 0
    chosen = load(weights)[1]
    assert (chosen["seeds"][0], chosen["results"]["reward"]) == (worse, rewards[worse])


def test_a_resumed_command_gives_what_the_uninterrupted_one_gives(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert train("--out", whole, "--validate-every", 2) == 0
    assert train("--out", cut, "--validate-every", 2, "--episodes", 4) == 0
    assert train("--out", cut, "--validate-every", 2, "--resume") == 0
    first, second = (json.loads((out / "results.json").read_text())["1"] for out in (whole, cut))
    assert first["figures"] == second["figures"]


def test_seeds_do_not_depend_on_each_other(tmp_path: Path) -> None:
    assert train("--out", tmp_path / "both", "--seeds", 4, 5) == 0
    assert train("--out", tmp_path / "one", "--seeds", 5) == 0
    both, one = (json.loads((tmp_path / name / "results.json").read_text()) for name in ("both", "one"))
    assert both["5"]["figures"] == one["5"]["figures"]


def test_weights_of_an_older_run_are_never_taken_for_the_best(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose scores are all no number keeps its last weights, whatever lies in its folder."""
    used, fresh = tmp_path / "used", tmp_path / "fresh"
    assert train("--out", used, "--validate-every", 2) == 0
    monkeypatch.setattr(Tiny, "bonus", float("nan"))
    rewards = []
    for out in (used, fresh):
        assert train("--out", out, "--episodes", 1) == 0
        rewards.append(json.loads((out / "results.json").read_text())["1"]["figures"]["reward"])
    assert rewards[0] == rewards[1]


def test_a_run_with_other_settings_does_not_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Tiny, "bonus", 1e3)
    assert train("--out", tmp_path, "--episodes", 4) == 0
    monkeypatch.setattr(Tiny, "bonus", 0.0)
    assert train("--out", tmp_path, "--resume", "--export", tmp_path / "tiny.npz") == 1
    assert "other settings" in capsys.readouterr().err
    assert not (tmp_path / "tiny.npz").exists()
    assert train("--out", tmp_path, "--export", tmp_path / "tiny.npz") == 0, "a new one may"


def test_a_run_of_unknown_settings_does_not_go_on(tmp_path: Path) -> None:
    """As earlier versions left it."""
    assert train("--out", tmp_path, "--episodes", 4) == 0
    (tmp_path / "seed-1" / "begun.json").unlink()
    assert train("--out", tmp_path, "--resume") == 1


def test_the_card_names_the_revision_that_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command.artifacts, "revision", lambda: "first")
    assert train("--out", tmp_path, "--episodes", 4) == 0
    monkeypatch.setattr(command.artifacts, "revision", lambda: "second")
    assert train("--out", tmp_path, "--resume", "--export", tmp_path / "tiny.npz") == 0
    assert load(tmp_path / "tiny.npz")[1]["revision"] == "first"


def test_an_interrupted_run_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(command, "train", interrupted)
    assert train("--out", tmp_path) == 130
    assert "--resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong", [("--episodes", 0), ("--seeds", 1, 1), ("--validate-every", 0), ("--choose", 2)]
)
def test_wrong_arguments_are_named(
    wrong: tuple[object, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train("--out", tmp_path, *wrong) == 1
    assert str(wrong[0]) in capsys.readouterr().err
