# SPDX-License-Identifier: Apache-2.0
"""The picture of the encoder's contexts: paths that lie apart have a silhouette near 1, equal ones near 0."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from ltp_switcher.encoder.gru import GRUEncoder
from ltp_switcher.errors import ArtifactError, LtpSwitcherError
from ltp_switcher.eval.cli import main as cli
from ltp_switcher.eval.cli import output
from ltp_switcher.eval.report import contexts
from ltp_switcher.eval.report.contexts import draw_contexts, encode, measure_contexts, place
from ltp_switcher.eval.run.bundled import find_scenario

RNG = np.random.default_rng(3)
NOISE = [RNG.normal(size=(700, 5)) for _ in range(3)]
APART = [points * 0.1 + 5.0 * i for i, points in enumerate(NOISE)]


def test_paths_apart_and_paths_alike(tmp_path: Path) -> None:
    found = place(("a", "b", "c"), NOISE, APART)
    assert min(found.silhouettes.values()) > 0.9
    assert max(abs(value) for value in found.raw_silhouettes.values()) < 0.1
    assert np.bincount(found.path).tolist() == [200, 200, 200]
    assert found.place.shape == (600, 2)
    centres = np.array([found.place[found.path == i].mean(axis=0) for i in range(3)])
    spread = max(float(found.place[found.path == i].std()) for i in range(3))
    assert np.linalg.norm(centres[0] - centres[2]) > spread
    draw_contexts(tmp_path / "contexts.png", found)
    assert (tmp_path / "contexts.png").stat().st_size > 10_000


def test_a_scenario_of_several_flows_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "collect_path", lambda *_: b"")
    monkeypatch.setattr(contexts, "replay_file", lambda *_: [{}, {}])
    scenarios, encoder = [find_scenario("lossy")], GRUEncoder.from_file()
    with pytest.raises(ArtifactError, match="lossy must have one flow, not 2"):
        measure_contexts(scenarios, encoder, Console(quiet=True), seed=1, kernel="6.1")


def test_a_start_does_not_count() -> None:
    late = [np.concatenate([np.full((200, 5), 99.0), points]) for points in APART]
    assert min(place(("a", "b", "c"), late, late).silhouettes.values()) > 0.9


def test_steps_pass_the_encoder_in_their_order() -> None:
    encoder = GRUEncoder.from_file()
    inputs = RNG.normal(size=(4, encoder.input_size))
    seen = encode(encoder, inputs)
    hidden = encoder.initial_state(1)
    for t in range(4):
        hidden, expected = encoder.step(hidden, inputs[t : t + 1].astype(np.float32))
        np.testing.assert_array_equal(seen[t : t + 1], expected)
    assert not np.array_equal(encode(encoder, inputs[::-1])[-1], seen[-1])


def test_only_these_pictures_need_scikit_learn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "find_spec", lambda name: None if name == "sklearn" else object())
    output.need_pictures()
    with pytest.raises(LtpSwitcherError, match="scikit-learn"):
        output.need_pictures(placed=True)


def test_one_path_has_nothing_to_be_told_from(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["contexts", "fixed"]) == 1
    assert "two scenarios or more" in capsys.readouterr().err


@pytest.mark.lab
def test_contexts_of_two_real_flows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(contexts, "SECONDS", 5.0)
    assert cli.main(["contexts", "low-capacity", "lossy", "--out", str(tmp_path)]) == 0
    assert "silhouette" in capsys.readouterr().out
    assert (tmp_path / "contexts.png").exists()
    assert '"low-capacity"' in (tmp_path / "contexts.json").read_text()
