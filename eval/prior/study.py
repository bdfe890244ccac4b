# SPDX-License-Identifier: Apache-2.0
"""Scores of the arms that the models pick on unseen paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Ints
from ltp_switcher.eval.prior.models import MODELS, Prediction
from ltp_switcher.eval.prior.rows import Rows
from ltp_switcher.eval.suite.score import Mean, geometric_mean

FOLDS: Final = 10
LEVEL: Final = 0.8
LEVEL_Z: Final = NormalDist().inv_cdf(0.5 + LEVEL / 2)
"""Number of standard deviations around a prediction within which a share `LEVEL` of the labels should lie."""
ROWS_MIN: Final = 2
"""Least number of rows to which a model is fitted."""
GUARD_Z: Final = 1.0
"""Number of standard deviations by which an arm's expected gain over the baseline must exceed 0 for a
switch."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """The log gains that a model predicts for every path, and their standard deviations. The model has
    learned from the paths of other folds.

    Both arrays have the shape (paths, schemes).
    """

    gains: Floats
    deviations: Floats


@dataclass(frozen=True, slots=True)
class Score:
    """A comparison of one way to pick an arm by a flow's first seconds with the best arm. The measure is the
    picked arm's reward after these seconds over the best arm's.
    """

    way: str
    pick: Mapping[str, Mean]
    """Geometric mean of the picked arm's reward over the best arm's, over `all` paths and over the paths of
    each kind.
    """
    top_two: Mean | None
    """Like `pick` over all paths, for the better of the two arms that a model ranks first. It is None for
    other ways to pick.
    """
    coverage: Mapping[str, float]
    """Share of the true gains that lie within the model's intervals of level `LEVEL`, over `all` paths and
    each kind.
    """


def predict(rows: Rows, model: str, over: int, seed: int = 1) -> Predicted:
    """Predict the log gains of all schemes over the scheme with index `over`.

    Each fold of paths is left out once, and predicted from the others.
    """
    fold = np.random.default_rng(seed).permutation(len(rows.paths)) % min(FOLDS, len(rows.paths))
    gains, deviations = np.zeros((2, *rows.logs.shape))
    for scheme in range(len(rows.schemes)):
        if scheme != over:
            labels = rows.logs[:, scheme] - rows.logs[:, over]
            gains[:, scheme], deviations[:, scheme] = left_out(
                model, rows.features, labels, rows.noise[:, scheme], fold
            )
    return Predicted(gains, deviations)


def left_out(model: str, features: Floats, labels: Floats, noise: Floats, fold: Ints) -> Prediction:
    """Predict the labels of each fold from the labels of all other folds.

    Args:
        model: a model of `MODELS`.
        features: shape (paths, features); a path with a NaN gets no prediction and is not used for fitting.
        labels: shape (paths,).
        noise: variances of the labels, shape (paths,).
        fold: number of each path's fold, shape (paths,).

    Returns:
        Means and standard deviations, NaN where there is no prediction.
    """
    means, deviations = np.full((2, *labels.shape), np.nan)
    known = np.isfinite(features).all(axis=1)
    for n in np.unique(fold).tolist():
        out, fitted = known & (fold == n), known & (fold != n)
        if out.any() and np.count_nonzero(fitted) >= ROWS_MIN:
            mean, spread = features[fitted].mean(axis=0), features[fitted].std(axis=0) + 1e-9
            scaled = (features - mean) / spread
            means[out], deviations[out] = MODELS[model](
                scaled[fitted], labels[fitted], noise[fitted], scaled[out]
            )
    return means, deviations


def scores(rows: Rows, baseline: str = "") -> list[Score]:
    """Score every model, every single arm, and the `baseline` scheme if there is one.

    The baseline is scored twice: alone, and guarded by each model. The guarded baseline gives way to an arm
    only where the model is sure of a gain.

    Args:
        rows: rows of all arms, and of the baseline.
        baseline: a scheme that is no arm, so it does not count for the best arm.
    """
    only = rows.only(lambda scheme: scheme != baseline)
    best = only.logs.max(axis=1)
    found = [
        Score(scheme, _shares(rows, rows.logs[:, n] - best), None, {})
        for n, scheme in enumerate(rows.schemes)
    ]
    for model in MODELS:
        said = predict(only, model, over=0)
        ranked = ranking(only, said)
        found.append(
            Score(
                model,
                _shares(rows, ranked[:, 0] - best),
                geometric_mean(np.exp(ranked[:, :2].max(axis=1) - best).tolist()),
                _coverage(only, said),
            )
        )
    if baseline:
        for model in MODELS:
            found.append(_guarded(rows, rows.schemes.index(baseline), model, best))
    return found


def ranking(rows: Rows, said: Predicted) -> Floats:
    """Return the log rewards of the schemes, shape (paths, schemes), with the scheme of the largest predicted
    gain first.
    """
    return np.take_along_axis(rows.logs, np.argsort(-said.gains, axis=1), axis=1)


def _guarded(rows: Rows, over: int, model: str, best: Floats) -> Score:
    """Score the baseline, with an arm in its place where the model's lower bound of the arm's gain is above
    0.
    """
    said = predict(rows, model, over)
    bound = said.gains - GUARD_Z * said.deviations
    bound[:, over] = 0.0
    picked = np.take_along_axis(rows.logs, bound.argmax(axis=1)[:, None], axis=1)[:, 0]
    return Score(
        f"{rows.schemes[over]}, guarded {model}",
        _shares(rows, picked - best),
        None,
        _coverage(rows, said, over),
    )


def _shares(rows: Rows, logs: Floats) -> dict[str, Mean]:
    return {name: geometric_mean(np.exp(logs[mask]).tolist()) for name, mask in _groups(rows).items()}


def _coverage(rows: Rows, said: Predicted, over: int = 0) -> dict[str, float]:
    others = [n for n in range(len(rows.schemes)) if n != over]
    labels = rows.logs[:, others] - rows.logs[:, [over]]
    within = np.abs(labels - said.gains[:, others]) <= LEVEL_Z * said.deviations[:, others]
    return {name: float(within[mask].mean()) for name, mask in _groups(rows).items()}


def _groups(rows: Rows) -> dict[str, Bools]:
    kinds = np.array(rows.kinds)
    return {"all": np.ones(kinds.size, np.bool_), **{kind: kinds == kind for kind in sorted(set(rows.kinds))}}
