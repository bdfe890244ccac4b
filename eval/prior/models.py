# SPDX-License-Identifier: Apache-2.0
"""Regressions. Each returns predictions of labels and their standard deviations, both of shape (rows,)."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from sklearn.ensemble import GradientBoostingRegressor

from ltp_switcher.arrays import Floats

Prediction = tuple[Floats, Floats]
"""Means and standard deviations of the labels of paths that the model has not seen."""
Model = Callable[[Floats, Floats, Floats, Floats], Prediction]
"""A function that takes the features, labels and label noise of known rows, and the features of new rows. It
returns the means and deviations of the new rows' labels. Features have mean 0 and variance 1.
"""

BETWEEN: Final = (0.003, 0.01, 0.03, 0.1, 0.3)
"""Candidate variances of the labels of paths with equal features. The marginal likelihood
chooses among them.
"""
LINEAR: Final = (0.003, 0.02, 0.1)
"""Candidate variances of a standardised feature's weight. The marginal likelihood chooses among them."""
CURVED: Final = (0.03, 0.2, 1.0)
"""Candidate variances of the nonlinear part. The marginal likelihood chooses among them."""
LENGTHS: Final = (2.5, 6.0)
"""Candidate length scales of the nonlinear part, as distances between features."""
INTERCEPT: Final = 4.0
SIDE: Final = 0.2
"""Least share of the rows on either side of the threshold in `stump`."""


def mean(features: Floats, labels: Floats, noise: Floats, others: Floats) -> Prediction:
    """Predict the mean of the labels for any features."""
    of = np.full(others.shape[0], labels.mean())
    return of, np.full_like(of, labels.std(ddof=1))


def ridge(features: Floats, labels: Floats, noise: Floats, others: Floats) -> Prediction:
    """Predict by ridge regression with equal weights for all rows. The marginal likelihood chooses the
    penalty among candidates.
    """
    return _best(
        features, labels, np.zeros_like(noise), others, itertools.product(LINEAR, (0.0,), (1.0,), BETWEEN)
    )


def stump(features: Floats, labels: Floats, noise: Floats, others: Floats) -> Prediction:
    """Predict by one threshold on one feature: the mean of the labels on each side. The feature and the
    threshold are the ones with the least squared error.

    A side has at least the share `SIDE` of the rows. Without such a threshold, the prediction is the mean.
    """
    best, chosen = np.inf, None
    for column, values in enumerate(features.T):
        for edge in np.unique(values)[1:].tolist():
            above = values >= edge
            if SIDE * above.size <= np.count_nonzero(above) <= (1.0 - SIDE) * above.size:
                left = labels[~above].var() * (~above).sum() + labels[above].var() * above.sum()
                if left < best:
                    best, chosen = left, (column, edge, above)
    if chosen is None:
        return mean(features, labels, noise, others)
    column, edge, above = chosen
    of = np.where(others[:, column] >= edge, labels[above].mean(), labels[~above].mean())
    return of, np.full_like(of, np.sqrt(best / max(labels.size - 2, 1)))


def prior(features: Floats, labels: Floats, noise: Floats, others: Floats) -> Prediction:
    """Predict by a Gaussian process with a linear and a nonlinear part.

    A row's weight is 1 / (variance between paths + the label's own noise), so that the deviations are
    calibrated. LinUCB with the same kernel has these means and widths.
    """
    return _best(features, labels, noise, others, itertools.product(LINEAR, CURVED, LENGTHS, BETWEEN))


def boosting(features: Floats, labels: Floats, noise: Floats, others: Floats) -> Prediction:
    """Predict by scikit-learn's gradient boosting. The deviation comes from the errors on the fitted rows."""
    model = GradientBoostingRegressor(
        n_estimators=150, max_depth=3, learning_rate=0.05, subsample=0.7, min_samples_leaf=5, random_state=1
    )
    model.fit(features, labels)
    of: Floats = model.predict(others)
    return of, np.full_like(of, float((labels - model.predict(features)).std(ddof=1)))


MODELS: Final[Mapping[str, Model]] = {
    "mean": mean,
    "stump": stump,
    "ridge": ridge,
    "boosting": boosting,
    "prior": prior,
}


def _best(
    features: Floats,
    labels: Floats,
    noise: Floats,
    others: Floats,
    grid: itertools.product[tuple[float, ...]],
) -> Prediction:
    """The prediction of the Gaussian process whose variances make the labels most likely."""
    best, chosen = -np.inf, None
    square = _square(features, features)
    for linear, curved, length, between in grid:
        kernel = _kernel(features @ features.T, square, linear, curved, length)
        lower = np.linalg.cholesky(kernel + np.diag(between + noise))
        white = np.linalg.solve(lower, labels)
        evidence = -0.5 * float(white @ white) - float(np.log(np.diag(lower)).sum())
        if evidence > best:
            best, chosen = evidence, (linear, curved, length, between, lower, white)
    if chosen is None:
        raise ValueError("no variances to choose from")
    linear, curved, length, between, lower, white = chosen
    across = np.linalg.solve(
        lower, _kernel(features @ others.T, _square(features, others), linear, curved, length)
    )
    of: Floats = across.T @ white
    own = INTERCEPT + linear * (others**2).sum(axis=1) + curved + between + np.median(noise)
    return of, np.sqrt(np.maximum(own - (across**2).sum(axis=0), 1e-9))


def _square(first: Floats, second: Floats) -> Floats:
    """Squared distances, shape (rows of the first, rows of the second)."""
    square: Floats = ((first[:, None, :] - second[None, :, :]) ** 2).sum(axis=2)
    return square


def _kernel(product: Floats, square: Floats, linear: float, curved: float, length: float) -> Floats:
    kernel: Floats = INTERCEPT + linear * product + curved * np.exp(-square / (2 * length**2))
    return kernel
