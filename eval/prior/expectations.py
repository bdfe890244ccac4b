# SPDX-License-Identifier: Apache-2.0
"""Predict each arm's reward from the numbers of the daemon's path model, and judge the choices by these
predictions.

Each path has one row: its numbers as the daemon knows them after the first seconds, and the log of each arm's
reward relative to LTP's from then on. The rewards come from twins, which are runs of each arm alone on the
same path. Each kind of path is left out once. So each prediction is for a kind that the model has not seen.
An arm is unknown on a path where a number that it needs was not observed. An unknown arm is not chosen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Ints
from ltp_switcher.daemon.choose.chooser import Number
from ltp_switcher.eval.prior.rows import measured
from ltp_switcher.eval.prior.study import GUARD_Z, Predicted, left_out
from ltp_switcher.eval.run.scenario import PACKET_BYTES
from ltp_switcher.eval.run.series import FlowSeries
from ltp_switcher.eval.suite.paths import family
from ltp_switcher.eval.suite.score import Mean, geometric_mean

BASELINE: Final = "ltp"
MODELS: Final = ("mean", "stump", "ridge")
"""Names of the models of `prior.models` that a person can interpret."""
KIND: Final = "kind"
"""Name of the model that predicts the mean of the other paths of the same kind. A daemon cannot use it,
because it does not know the kind."""
SCORED: Final = (*MODELS[1:], KIND)
"""Names of the models that get an R². The mean of the other kinds has an R² of 0."""


def _product_pkts(number: Floats) -> Floats:
    return number[:, Number.RATE] * number[:, Number.PROPAGATION] * 1e-6 / PACKET_BYTES


FEATURES: Final[Mapping[str, Callable[[Floats], Floats]]] = {
    "log rate": lambda number: np.log(number[:, Number.RATE]),
    "log propagation RTT": lambda number: np.log(number[:, Number.PROPAGATION]),
    "log bandwidth-delay product": lambda number: np.log(_product_pkts(number)),
    "log variation of the rate": lambda number: np.log(number[:, Number.VARIATION] + 0.02),
    "log ACK gap / RTT": lambda number: np.log(number[:, Number.ACK_GAP] / number[:, Number.PROPAGATION]),
    "log loss without a queue": lambda number: np.log(number[:, Number.QUIET_LOSS] + 1e-4),
    "log buffer / product": lambda number: np.log(number[:, Number.BUFFER] / _product_pkts(number)),
}
"""Features of paths by name: functions from the numbers, shape (paths, numbers), to the feature, shape
(paths,)."""
_COMMON: Final = tuple(name for name in FEATURES if name != "log buffer / product")
NEEDS: Final[Mapping[str, Sequence[str]]] = {
    "cubic": tuple(FEATURES), "westwood": tuple(FEATURES),
}  # fmt: skip
"""The features that an arm needs. Arms without an entry need all features except the buffer's, which is known
only after the buffer was full.
"""


@dataclass(frozen=True, slots=True)
class Twins:
    """A set of paths: the numbers of each path, and the reward of each arm there.

    Attributes:
        paths: names of the paths.
        arms: names of the arms; the first is `BASELINE`.
        features: features in the order of `FEATURES`, shape (paths, features); NaN where not observed.
        logs: log of each arm's mean reward after the numbers are read, shape (paths, arms).
        noise: variance of the difference of each log from `BASELINE`'s, shape (paths, arms).
    """

    paths: Sequence[str]
    arms: Sequence[str]
    features: Floats
    logs: Floats
    noise: Floats

    @property
    def kinds(self) -> Sequence[str]:
        """The kind of each path."""
        return [family(path) for path in self.paths]


@dataclass(frozen=True, slots=True)
class Expectation:
    """The quality of a model's predictions of an arm's log reward relative to `BASELINE`'s, on kinds of path
    that the model has not seen.
    """

    arm: str
    model: str
    known: int
    """Number of paths on which all features that the arm needs are observed."""
    r2: float
    """R²: 1 minus the model's squared error over the squared error of predicting the mean of the other kinds;
    NaN if the latter is 0, as without paths.
    """


@dataclass(frozen=True, slots=True)
class Choice:
    """A way to choose an arm by a flow's first seconds, and the reward of the chosen arms after these
    seconds.
    """

    way: str
    over_baseline: Mean
    by_kind: Mean
    """The geometric mean of the rewards over `BASELINE`'s, with an interval from bootstrap draws of whole
    kinds.
    """
    over_best: Mean
    worst: str
    worst_ratio: float
    """The least ratio of the chosen arm's reward to `BASELINE`'s. The field `worst` names its path."""
    left: int
    """Number of paths on which another arm than `BASELINE` is chosen."""


def twins(
    numbers: Mapping[str, Floats],
    series: Mapping[str, Sequence[FlowSeries]],
    arms: Sequence[str],
    look_s: float,
) -> Twins:
    """Put the numbers of paths and the rewards of arms together.

    Args:
        numbers: the path's numbers in the order of `Number`, shape (numbers,), by path.
        series: the flow under each arm, by path.
        arms: names of the arms; the first is `BASELINE`.
        look_s: time at which the numbers are read, in seconds. Rewards count from this time on.
    """
    found = [measured(series[path], look_s) for path in numbers]
    return Twins(
        tuple(numbers),
        tuple(arms),
        features(np.array(list(numbers.values()))),
        np.array([logs for logs, _ in found]),
        np.array([noise for _, noise in found]),
    )


def features(numbers: Floats) -> Floats:
    """Return the features of paths, in the order of `FEATURES`, shape (paths, features).

    Args:
        numbers: shape (paths, numbers), NaN where not observed.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        made = np.stack([of(numbers) for of in FEATURES.values()], axis=1)
    return np.where(np.isfinite(made), made, np.nan)


def expected(of: Twins, model: str) -> Predicted:
    """Predict the log of each arm's reward over the reward of `BASELINE`: shape (paths, arms).

    A model learns from the paths of all other kinds than the predicted path's kind. The model `KIND` learns
    from the other paths of the same kind instead. The prediction is NaN where the arm is unknown.
    """
    gains, deviations = np.zeros((2, *of.logs.shape))
    fold = _fold(of)
    for arm in range(1, len(of.arms)):
        labels = of.logs[:, arm] - of.logs[:, 0]
        gains[:, arm], deviations[:, arm] = (
            _siblings(labels, fold)
            if model == KIND
            else left_out(model, of.features[:, _columns(of.arms[arm])], labels, of.noise[:, arm], fold)
        )
    return Predicted(gains, deviations)


def expectations(of: Twins) -> list[Expectation]:
    """Return how well each model of `SCORED` predicts each arm."""
    plain = expected(of, MODELS[0]).gains
    found = []
    for model in SCORED:
        said = expected(of, model).gains
        for arm, name in list(enumerate(of.arms))[1:]:
            known = np.isfinite(said[:, arm]) & np.isfinite(plain[:, arm])
            labels = (of.logs[:, arm] - of.logs[:, 0])[known]
            missed, spread = (float(((labels - by[known, arm]) ** 2).sum()) for by in (said, plain))
            r2 = 1.0 - missed / spread if spread > 0 else np.nan
            found.append(Expectation(name, model, int(known.sum()), r2))
    return found


def choices(of: Twins) -> list[Choice]:
    """Return the rewards of several ways to choose: each single arm, the arm that each model expects the most
    of, and the best arm of each path.

    A way named `surely` leaves `BASELINE` only where the expected gain is `GUARD_Z` standard deviations above
    0.
    """
    paths = np.arange(len(of.paths))
    found = [_choice(of, name, np.full(paths.size, arm)) for arm, name in enumerate(of.arms)]
    for model in (*MODELS, KIND):
        said = expected(of, model)
        for word, z in (("", 0.0), (", surely", GUARD_Z)):
            bound = said.gains - z * said.deviations
            found.append(
                _choice(of, f"{model}{word}", np.where(np.isnan(bound), -np.inf, bound).argmax(axis=1))
            )
    found.append(_choice(of, "best arm", of.logs.argmax(axis=1)))
    return found


def _choice(of: Twins, way: str, arm: Ints) -> Choice:
    got = of.logs[np.arange(arm.size), arm]
    over, of_best = np.exp(got - of.logs[:, 0]), np.exp(got - of.logs.max(axis=1))
    worst = int(over.argmin())
    return Choice(
        way,
        geometric_mean(over.tolist()),
        geometric_mean(over.tolist(), units=of.kinds),
        geometric_mean(of_best.tolist()),
        of.paths[worst],
        float(over[worst]),
        int((arm > 0).sum()),
    )


def _siblings(labels: Floats, fold: Ints) -> tuple[Floats, Floats]:
    """The mean of the other labels in the fold, NaN where there is none, and the deviation of all labels."""
    count = np.bincount(fold)[fold] - 1
    others = np.full(labels.shape, np.nan)
    np.divide(np.bincount(fold, labels)[fold] - labels, count, out=others, where=count > 0)
    return others, np.full(labels.shape, labels.std())


def _columns(arm: str) -> list[int]:
    return [list(FEATURES).index(name) for name in NEEDS.get(arm, _COMMON)]


def _fold(of: Twins) -> Ints:
    return np.unique(of.kinds, return_inverse=True)[1]
