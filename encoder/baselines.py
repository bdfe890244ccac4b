# SPDX-License-Identifier: Apache-2.0
"""Simple predictors of an arm's reward, and the scores that compare them with the encoder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ltp_switcher.arrays import Floats
from ltp_switcher.encoder.dataset import Sequence, weights


@dataclass(frozen=True, slots=True)
class Scores:
    """Scores of a predictor of rewards.

    `error` is the weighted mean squared error. `r2` is the share of the rewards' variance that the predictor
    explains over all paths, and `within_r2` the share that it explains within single paths.
    """

    error: float
    r2: float
    within_r2: float


def fit_means(sequences: list[Sequence], arms: int) -> Floats:
    """Return the mean reward of each arm id, shape (arms,), with the `weights` of the steps.

    An arm without data gets the weighted mean over the steps of all arms.
    """
    total, count = np.zeros(arms), np.zeros(arms)
    for sequence in sequences:
        weight = weights(sequence)
        np.add.at(total, sequence.arm, weight * np.nan_to_num(sequence.reward))
        np.add.at(count, sequence.arm, weight)
    return np.where(count > 0, total / np.maximum(count, 1e-9), total.sum() / count.sum())


def fit_linear(sequences: list[Sequence], arms: int, ridge: float = 10.0) -> Floats:
    """Fit a ridge regression of the reward on the raw inputs for each arm id.

    Returns the regressions' weights, shape (arms, inputs).
    """
    inputs = sequences[0].inputs.shape[1]
    out = np.zeros((arms, inputs))
    for arm in range(arms):
        A, b = ridge * np.eye(inputs), np.zeros(inputs)
        for sequence in sequences:
            weight = np.where(sequence.arm == arm, weights(sequence), 0.0)
            x = sequence.inputs.astype(np.float64)
            A += (x * weight[:, None]).T @ x
            b += (weight * np.nan_to_num(sequence.reward)) @ x
        out[arm] = np.linalg.solve(A, b)
    return out


def score(sequences: list[Sequence], predict: Callable[[Sequence], NDArray[np.floating]]) -> Scores:
    """Score a predictor: compare its predictions with the rewards of the arms that ran.

    `predict` takes a path's sequence and returns the predicted rewards, shape (steps,).
    """
    rewards = [np.nan_to_num(s.reward).astype(np.float64) for s in sequences]
    told = [np.asarray(predict(s), np.float64) for s in sequences]
    weight = [weights(s).astype(np.float64) for s in sequences]

    in_all = sum(float(w.sum()) for w in weight)

    def mean_square(values: list[Floats]) -> float:
        return sum(float((w * v**2).sum()) for w, v in zip(weight, values, strict=True)) / in_all

    def centred(values: list[Floats]) -> list[Floats]:
        return [v - (w * v).sum() / w.sum() for w, v in zip(weight, values, strict=True)]

    errors = [t - r for t, r in zip(told, rewards, strict=True)]
    mean = sum(float((w * r).sum()) for w, r in zip(weight, rewards, strict=True)) / in_all
    error = mean_square(errors)
    return Scores(
        error=error,
        r2=1.0 - error / mean_square([r - mean for r in rewards]),
        within_r2=1.0 - mean_square(centred(errors)) / mean_square(centred(rewards)),
    )
