# SPDX-License-Identifier: Apache-2.0
"""The encoder's context of a flow's first seconds, as further features of the models that pick an arm.

A flow begins under BBR alone, and the daemon records its steps. The steps pass the same features and the same
encoder as in the daemon. The encoder is a recurrent network (GRU); its outputs are the context.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt

from ltp_switcher.arrays import Floats
from ltp_switcher.daemon.choose.bandit.replay import replay
from ltp_switcher.daemon.settings.schema import LearningSection
from ltp_switcher.encoder.gru import GRUEncoder
from ltp_switcher.errors import ArtifactError
from ltp_switcher.eval.prior.models import MODELS
from ltp_switcher.eval.prior.rows import LOOKS_WITH, Rows
from ltp_switcher.eval.prior.study import Score, predict, ranking, scores
from ltp_switcher.eval.report.contexts import encode
from ltp_switcher.eval.report.engine_agreement import shortened
from ltp_switcher.eval.run.results import Job
from ltp_switcher.eval.suite.score import Mean, geometric_mean

LAST_S: Final = 0.5
"""Length in seconds of the look's end over which a context is averaged."""
BLIND: Final = "mean"
"""The model that sees no features."""
SEEING: Final = tuple(model for model in MODELS if model != BLIND)
WITH, ALONE = "with GRU", "GRU alone"


@dataclass(frozen=True, slots=True)
class Over:
    """The reward of one way to pick an arm over the reward of another way, on the same paths."""

    way: str
    over: str
    ratio: Mean
    """The geometric mean, with an interval from drawing the paths anew."""


def looked(job: Job, seconds: float) -> Job:
    """Return the run of the job's first seconds, in which the daemon measures the flow and keeps it on
    `LOOKS_WITH`.
    """
    settings = (("pool.arms", (LOOKS_WITH,)), ("kernel.default_arm", LOOKS_WITH))
    scenario = job.scenario.with_scheme("random").with_settings(settings)
    return replace(job, scenario=shortened(scenario, seconds), daemon="beside")


def context(rows: npt.NDArray[np.void], look_s: float, encoder: GRUEncoder) -> Floats:
    """Return the mean context over the last `LAST_S` seconds of a look, shape (outputs,).

    Args:
        rows: the recording of one flow, `ROW_DTYPE`, shape (steps,), in the order of time.
        look_s: length of the look in seconds, from the flow's first step on.
        encoder: the encoder of the daemon.

    Raises:
        ArtifactError: the recording has no step.
    """
    if not len(rows):
        raise ArtifactError("a recording has no step of its flow; make the run again")
    age_s = (rows["record"]["time_ns"] - rows["record"]["time_ns"][0]) * 1e-9
    seen = age_s <= look_s
    inputs = replay(rows["record"][seen], rows["chosen"][seen], LearningSection())["inputs"]
    ended = age_s[seen] > min(look_s, float(age_s[seen][-1])) - LAST_S
    mean: Floats = encode(encoder, inputs.astype(np.float64))[ended].mean(axis=0)
    return mean


def feature_sets(of: Rows, contexts: Floats) -> Mapping[str, Rows]:
    """Return the rows twice: with the plain features and the contexts, and with the contexts alone.

    Args:
        of: rows with the plain features.
        contexts: context of each path, shape (paths, outputs).
    """
    return {
        WITH: replace(of, features=np.hstack([of.features, contexts])),
        ALONE: replace(of, features=contexts),
    }


def scores_with(of: Rows, contexts: Floats, baseline: str = "") -> list[Score]:
    """Return the scores of the models that see contexts (outputs of the encoder), once with the plain
    features and once without.
    """
    return [
        replace(score, way=f"{score.way}, {name}")
        for name, rows in feature_sets(of, contexts).items()
        for score in scores(rows, baseline)
        if score.way.split()[-1] in SEEING
    ]


def compared(of: Rows, contexts: Floats) -> list[Over]:
    """Compare each model on plain features with the model `BLIND`, which sees none. Then compare each model
    on contexts with the same model on plain features.

    Args:
        of: rows of arms alone, with the plain features.
        contexts: context of each path, shape (paths, outputs).
    """

    def picked(rows: Rows, model: str) -> Floats:
        return ranking(rows, predict(rows, model, over=0))[:, 0]

    none, seeing = picked(of, BLIND), feature_sets(of, contexts)
    found = []
    for model in SEEING:
        plain = picked(of, model)
        found.append(_over(model, BLIND, plain - none))
        for name, rows in seeing.items():
            found.append(_over(f"{model}, {name}", model, picked(rows, model) - plain))
    return found


def _over(way: str, over: str, logs: Floats) -> Over:
    return Over(way, over, geometric_mean(np.exp(logs).tolist()))
