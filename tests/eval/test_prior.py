# SPDX-License-Identifier: Apache-2.0
"""Picks by one look at BBR's start: features, labels, models, and their scores on left-out paths."""

import numpy as np
import pytest

from ltp_switcher.eval.cli import main as cli
from ltp_switcher.eval.prior import study
from ltp_switcher.eval.prior.models import MODELS
from ltp_switcher.eval.prior.rows import FEATURES, Rows, features
from ltp_switcher.eval.prior.study import Score, predict, scores
from ltp_switcher.eval.run.series import FlowSeries

PATHS = 80


@pytest.fixture(autouse=True)
def few_folds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five folds in place of ten: half of the fits, from nearly as many paths."""
    monkeypatch.setattr(study, "FOLDS", 5)


def series(goodput_mbps: np.ndarray, rtt_ms: np.ndarray, lost_pkts: np.ndarray) -> FlowSeries:
    one = np.ones(goodput_mbps.size)
    return FlowSeries(
        0, "bbr", np.arange(one.size) * 0.1, goodput_mbps, rtt_ms, rtt_ms, rtt_ms, one, goodput_mbps,
        lost_pkts, 100 * one - lost_pkts, 0 * one, one, one, ("bbr",) * one.size,
    )  # fmt: skip


def rows(seed: int = 1, noise: float = 0.05) -> Rows:
    """Vegas gains where the first feature is high, LTP where the second is. The rule is near the best."""
    rng = np.random.default_rng(seed)
    seen = rng.normal(size=(PATHS, len(FEATURES)))
    logs = np.zeros((PATHS, 4))
    logs[:, 1], logs[:, 2] = seen[:, 0], seen[:, 1]
    logs[:, 1:3] += rng.normal(scale=noise, size=(PATHS, 2))
    logs[:, 3] = logs[:, :3].max(axis=1) - 0.02
    names = tuple(f"p-{n}" for n in range(PATHS))
    kinds = ("static", "trace") * (PATHS // 2)
    return Rows(names, kinds, seen, ("bbr", "vegas", "ltp", "rule"), logs, np.full((PATHS, 4), noise**2))


def score(found: list[Score], way: str) -> Score:
    return next(one for one in found if one.way == way)


def test_the_features_of_a_steady_flow_and_of_one_with_a_queue_and_losses() -> None:
    one = np.ones(60)
    steady = dict(zip(FEATURES, features(series(10 * one, 40 * one, 0 * one), 2.5), strict=True))
    assert steady["log lowest RTT"] == pytest.approx(np.log(40))
    assert steady["log rate"] == pytest.approx(np.log(10))
    assert steady["log round trips"] == pytest.approx(np.log(2500 / 40))
    assert steady["log mean RTT / lowest"] == steady["loss, %"] == steady["spread of the log rate"] == 0
    queued = np.where(np.arange(60) < 15, 40.0, 80.0)
    lost = np.where(np.arange(60) < 15, 1.0, 5.0)
    found = dict(zip(FEATURES, features(series(10 * one, queued, lost), 2.5), strict=True))
    assert found["log largest RTT / lowest"] == pytest.approx(np.log(2))
    assert found["log last second's RTT / lowest"] == pytest.approx(np.log(2))
    assert found["loss near the lowest RTT, %"] == pytest.approx(1.0)
    assert found["loss, %"] == pytest.approx(100 * 65 / 2500)


def test_nothing_after_the_look_is_a_feature() -> None:
    one = np.ones(60)
    later = np.where(np.arange(60) < 25, 40.0, 400.0)
    first = features(series(10 * one, 40 * one, 0 * one), 2.5)
    assert first.tolist() == features(series(10 * one, later, 0 * one), 2.5).tolist()


def test_models_that_see_the_cause_pick_well_and_the_mean_does_not() -> None:
    found = scores(rows(), "rule")
    assert score(found, "mean").pick["all"].value < 0.7
    for model in ("ridge", "prior"):
        assert score(found, model).pick["all"].value > 0.97
    assert score(found, "boosting").pick["all"].value > 0.85
    assert score(found, "rule").pick["trace"].value == pytest.approx(np.exp(-0.02))


def test_labels_that_the_features_do_not_explain_are_not_learnt() -> None:
    """The folds are apart: a model that saw the left-out labels would pick the best arm here, too."""
    of = rows()
    shuffled = Rows(
        of.paths,
        of.kinds,
        np.random.default_rng(9).normal(size=of.features.shape),
        of.schemes,
        of.logs,
        of.noise,
    )
    found = scores(shuffled, "rule")
    for model in MODELS:
        assert score(found, model).pick["all"].value < 0.75


def test_intervals_hold_the_share_of_labels_that_they_say() -> None:
    covered = []
    for seed in (1, 2):
        of = rows(seed, noise=0.3)
        said = predict(of, "prior", over=0)
        off = np.abs(of.logs - said.gains)[:, 1:3] / said.deviations[:, 1:3]
        covered.append(np.mean(off < 1.28))
    assert 0.7 < np.mean(covered) < 0.9


def test_a_guarded_baseline_is_left_only_where_another_arm_is_surely_better() -> None:
    of = rows()
    worse = of.logs.copy()
    worse[:, 3] -= np.where(of.features[:, 2] > 0, 1.0, 0.0)
    found = scores(Rows(of.paths, of.kinds, of.features, of.schemes, worse, of.noise), "rule")
    assert score(found, "rule").pick["all"].value < 0.75
    assert (
        score(found, "rule, guarded prior").pick["all"].value > score(found, "rule").pick["all"].value + 0.1
    )


def test_predictions_over_another_scheme_are_differences() -> None:
    of = rows()
    said = predict(of, "prior", over=3)
    assert not said.gains[:, 3].any()
    truth = of.logs - of.logs[:, [3]]
    assert np.abs(said.gains - truth)[:, 1:3].mean() < 0.5


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--schemes", "bbr"], "one other arm or more"),
        (["--schemes", "bbr,ltp,rule,random"], "at most one that is no arm"),
        (["--set", "nowhere"], "a folder with scenario files"),
    ],
)
def test_errors_say_what_is_allowed(
    options: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["prior", "--set", "test", *options]) == 1
    assert said in capsys.readouterr().err
