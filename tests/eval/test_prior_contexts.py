# SPDX-License-Identifier: Apache-2.0
"""The encoder's context of a look as further features: made ones that help, and some that do not."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from support.recorded import Recorded
from support.rule_flows import run

from ltp_switcher.encoder.gru import GRUEncoder
from ltp_switcher.errors import ArtifactError
from ltp_switcher.eval.cli import ablate, prior
from ltp_switcher.eval.cli.main import main
from ltp_switcher.eval.prior import contexts, study
from ltp_switcher.eval.prior.contexts import Over, compared, context, looked, scores_with
from ltp_switcher.eval.prior.models import MODELS, Prediction
from ltp_switcher.eval.prior.rows import FEATURES, Rows
from ltp_switcher.eval.run.results import Job
from ltp_switcher.eval.run.scenario import Flow, Link, Scenario
from ltp_switcher.eval.run.series import FlowSeries
from ltp_switcher.eval.suite.ablation import recording_of

PATHS = 60
RNG = np.random.default_rng(4)
CAUSE = RNG.normal(size=(PATHS, 3))
"""The causes of the arms' rewards, of which the plain features know nothing."""
ENCODER = GRUEncoder.from_file()


def rows() -> Rows:
    """Vegas gains by the first cause, LTP by the second."""
    logs = np.concatenate([np.zeros((PATHS, 1)), CAUSE[:, :2]], axis=1)
    return Rows(
        tuple(f"p-{n}" for n in range(PATHS)),
        ("static", "trace") * (PATHS // 2),
        RNG.normal(size=(PATHS, len(FEATURES))),
        ("bbr", "vegas", "ltp"),
        logs + RNG.normal(scale=0.05, size=logs.shape),
        np.full(logs.shape, 0.0025),
    )


ROWS = rows()


@pytest.fixture(autouse=True)
def few_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four folds in place of ten, and the models that come to nothing here left out."""
    few = {name: MODELS[name] for name in ("mean", "ridge", "prior")}
    monkeypatch.setattr(study, "FOLDS", 4)
    monkeypatch.setattr(study, "MODELS", few)
    monkeypatch.setattr(contexts, "SEEING", ("ridge", "prior"))


def ratio(found: Sequence[Over], way: str) -> Over:
    return next(one for one in found if one.way == way)


def test_a_context_that_knows_the_cause_helps_beside_the_features_and_alone() -> None:
    found = compared(ROWS, CAUSE)
    for name in ("prior, with GRU", "prior, GRU alone", "ridge, with GRU"):
        one = ratio(found, name)
        assert one.over == name.split(",")[0]
        assert one.ratio.low > 1.2
    assert ratio(found, "prior").over == "mean"
    assert ratio(found, "prior").ratio.low < 1.0 < ratio(found, "prior").ratio.high
    scored = {one.way: one.pick["all"].value for one in scores_with(ROWS, CAUSE)}
    assert scored["prior, GRU alone"] > 0.95
    assert scored["prior, with GRU"] > 0.9


def test_a_context_of_noise_does_not_help() -> None:
    noise = np.random.default_rng(6).normal(size=(PATHS, 16))
    found = compared(ROWS, noise)
    for name in ("prior, with GRU", "prior, GRU alone", "ridge, with GRU"):
        assert ratio(found, name).ratio.low < 1.0
    assert all(one.pick["all"].value < 0.75 for one in scores_with(ROWS, noise))


def test_a_context_that_names_its_path_tells_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each context is of one path alone, so only a model that has seen the path's labels can gain by it."""
    names = 9.0 * np.eye(PATHS)
    fair = {one.way: one.pick["all"].value for one in scores_with(ROWS, names)}
    assert fair["prior, GRU alone"] < 0.75

    def leaking(
        model: str, features: np.ndarray, labels: np.ndarray, noise: np.ndarray, fold: np.ndarray
    ) -> Prediction:
        scaled = (features - features.mean(axis=0)) / features.std(axis=0)
        return MODELS[model](scaled, labels, noise, scaled)

    monkeypatch.setattr(study, "left_out", leaking)
    leaked = {one.way: one.pick["all"].value for one in scores_with(ROWS, names)}
    assert leaked["prior, GRU alone"] > 0.95


def test_a_guarded_baseline_is_scored_with_contexts_too() -> None:
    of = Rows(
        ROWS.paths, ROWS.kinds, ROWS.features, (*ROWS.schemes, "rule"),
        np.concatenate([ROWS.logs, np.full((PATHS, 1), -1.0)], axis=1),
        np.full((PATHS, 4), 0.0025),
    )  # fmt: skip
    ways = [one.way for one in scores_with(of, CAUSE, "rule")]
    assert "rule, guarded prior, with GRU" in ways
    assert not [way for way in ways if "mean" in way or way.startswith("bbr")]


def recording() -> np.ndarray:
    """Four seconds of a flow whose RTT grows after two seconds."""
    chooser = Recorded()
    run(lambda t: 40.0 if t < 2.0 else 90.0, chooser=chooser, duration_s=4.0)
    return np.concatenate(chooser.rows)


def test_a_context_is_of_the_end_of_the_look_and_knows_nothing_later() -> None:
    of = recording()
    age_s = (of["record"]["time_ns"] - of["record"]["time_ns"][0]) * 1e-9
    found = context(of, 1.5, ENCODER)
    assert found.shape == (ENCODER.output_size,)
    np.testing.assert_array_equal(found, context(of[age_s <= 1.5], 1.5, ENCODER))
    later = context(of, 3.5, ENCODER)
    assert np.abs(later - found).max() > 0.05
    # The first step's own context is still that of an empty state; the mean does not hold it.
    assert np.abs(context(of[:1], 1.5, ENCODER) - found).max() > 0.01


def test_a_flow_that_fell_silent_has_the_context_of_its_last_steps() -> None:
    of = recording()
    age_s = (of["record"]["time_ns"] - of["record"]["time_ns"][0]) * 1e-9
    silent = of[age_s <= 1.2]
    assert np.isfinite(context(silent, 2.5, ENCODER)).all()
    with pytest.raises(ArtifactError, match="no step"):
        context(of[:0], 2.5, ENCODER)


def job(name: str = "a", rate_mbps: float = 20.0) -> Job:
    link = Link(rate_mbps=rate_mbps, rtt_ms=40.0, buffer_bdp=1.0)
    return Job(Scenario(name, 12.0, link, (Flow("bbr", 0.0, 12.0),)), seed=201)


def test_a_look_is_short_and_knows_one_arm() -> None:
    of = looked(job(), 4.0)
    settings = dict(of.scenario.settings)
    assert (of.scenario.duration_s, of.scenario.flows[0].stop_s, of.seed) == (4.0, 4.0, 201)
    assert (settings["pool.arms"], settings["kernel.default_arm"]) == (("bbr",), "bbr")


def test_two_paths_of_one_name_have_two_recordings() -> None:
    files = {recording_of(of) for of in (job(), job(rate_mbps=30.0), looked(job(), 4.0), job("b"))}
    assert len(files) == 4


@dataclass
class Result:
    """A flow of `steps` bins under one arm."""

    job: Job

    @property
    def series(self) -> tuple[FlowSeries, ...]:
        one = np.ones(60)
        goodput_mbps = one * (5.0 if self.job.scheme == "bbr" else 20.0) * self.job.scenario.link.rate_mbps
        return (
            FlowSeries(
                0, "", np.arange(60) * 0.1, goodput_mbps, 40 * one, 40 * one, 40 * one, one, one,
                0 * one, 100 * one, 0 * one, one, one, ("",) * 60,
            ),
        )  # fmt: skip


def test_the_command_records_each_look_once_and_shows_the_rows(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran: list[str] = []

    def run_batch(jobs: Sequence[Job], *_: object, use_cache: bool, **__: object) -> list[Result]:
        for of in jobs:
            file = Path(dict(of.scenario.settings)["daemon.record"])
            if use_cache and file.exists():
                continue
            ran.append(of.scenario.name)
            with file.open("wb") as to:
                np.lib.format.write_array(to, recording(), version=(2, 0))
        return [Result(of) for of in jobs]

    monkeypatch.setenv("LTP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(ablate, "run_batch", run_batch)
    monkeypatch.setattr(prior, "is_made", lambda _: True)
    monkeypatch.setattr(prior, "run_job", lambda of, use_cache: Result(of))
    (tmp_path / "set").mkdir()
    for n in range(20):
        (tmp_path / "set" / f"static-{n}.toml").write_text(
            f'name = "static-{n}"\nduration_s = 12\n[link]\nrate_mbps = {10 + n}\nrtt_ms = 40\n'
            'buffer_bdp = 1\n[[flow]]\nscheme = "switcher"\n'
        )
    command = ["prior", "--set", str(tmp_path / "set"), "--schemes", "bbr,vegas"]
    assert main([*command, "--contexts", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sorted(ran) == sorted(f"static-{n}" for n in range(20))
    ways = [one["way"] for one in found["scores"]]
    assert {"mean", "prior", "prior, with GRU", "prior, GRU alone"} <= set(ways)
    (one,) = [one for one in found["compared"] if one["way"] == "prior, with GRU"]
    assert (one["over"], one["ratio"]["value"], one["ratio"]["paths"]) == ("prior", 1.0, 20)
    assert main([*command, "--contexts"]) == 0
    assert "GRU alone" in capsys.readouterr().out
    assert len(ran) == 20
    assert main([*command, "--json"]) == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["compared"] == []
    assert plain["scores"] == [one for one in found["scores"] if "GRU" not in one["way"]]
