# SPDX-License-Identifier: Apache-2.0
"""Estimates the reward of another policy from logged decisions and their propensities.

IPS (inverse propensity scoring) weights each logged reward by a ratio: the probability of its arm under the
other policy over the probability under the logged one. IPS is unbiased if the logged policy could draw every
arm that the other policy takes. SNIPS divides by the sum of the weights, for a small bias and a much smaller
variance (Swaminathan and Joachims, NIPS 2015).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats
from ltp_switcher.daemon.gain.effect import CLUSTERS_MIN, t_quantile
from ltp_switcher.daemon.gain.rows import Kind, Rows
from ltp_switcher.errors import ConfigError, LtpSwitcherError

UNIFORM: Final = "uniform"
POLICY: Final = "policy"


class NoOverlapError(LtpSwitcherError):
    """The logged decisions cannot tell how well a policy does. Either none of them took an arm that the
    policy takes, or some gave such an arm no chance.
    """


@dataclass(frozen=True, slots=True)
class Mean:
    """An estimate with the ends of its 95 % interval."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A policy's estimated mean reward (Mutant Eq. 1, 0 to 1), and the size of the sample behind it.

    Attributes:
        policy: name of the policy.
        decisions: number of logged decisions that count.
        without_reward: number of decisions that were too short to have a reward, and are left out.
        effective: effective size of the sample, (sum of weights)^2 / sum of squared weights.
        clusters: number of independent units.
        of: name of such a unit.
        logged: mean reward of the logged decisions.
        ips: estimate by inverse propensity scoring.
        snips: estimate by self-normalised inverse propensity scoring.
    """

    policy: str
    decisions: int
    without_reward: int
    effective: float
    clusters: int
    of: str
    logged: Mean
    ips: Mean
    snips: Mean


def evaluate(rows: Rows, policy: str, names: dict[int, str]) -> Evaluation:
    """Estimate the mean reward that another policy would have had.

    Args:
        rows: decisions, shape (n,). A decision counts if the daemon carried it out, and if no operator,
            experiment or team selection made it.
        policy: the name of an arm that is always taken, `uniform` for each arm of the pool with equal chance,
            or `policy` for the daemon's own choice without exploration.
        names: names of the arms by id.

    Raises:
        NoOverlapError: the log has no such decisions, or gives no chance to an arm that the policy takes.
        ConfigError: there is no such policy.
    """
    rows = rows[rows["active"] & np.isin(rows["kind"], (Kind.CHOSEN, Kind.EXPLORED))]
    if not rows.size:
        raise NoOverlapError(
            "the log holds no decision of the daemon that was carried out: only mode active makes them"
        )
    logged = rows["probability"].astype(np.float64)
    wanted = _chances(rows, logged, policy, names)
    missing = ((wanted > 0) & (logged <= 0)).any(axis=1)
    if missing.any():
        raise NoOverlapError(
            f"no overlap: {missing.sum()} of {rows.size} decisions gave no chance to the arm that {policy!r} "
            "takes, so the log cannot say what it would have earned. Set gain.explore above 0, and evaluate "
            "the decisions made since then (--since)"
        )
    counts = np.isfinite(rows["reward"])
    if not counts.any():
        raise NoOverlapError(f"none of {rows.size} decisions lasted long enough for a reward")
    rows, logged, wanted = rows[counts], logged[counts], wanted[counts]
    at = np.arange(rows.size), rows["arm"]
    weights, rewards = wanted[at] / logged[at], rows["reward"].astype(np.float64)
    if not weights.any():
        raise NoOverlapError(f"none of {rows.size} decisions took an arm that {policy!r} takes")
    _, clusters = np.unique(rows["prefix"], return_inverse=True)
    of = "destination prefix"
    if clusters.max() + 1 < CLUSTERS_MIN:
        _, clusters = np.unique(rows["cookie"], return_inverse=True)
        of = "flow, because there are too few prefixes"
    return Evaluation(
        policy=policy,
        decisions=rows.size,
        without_reward=int((~counts).sum()),
        effective=float(weights.sum() ** 2 / np.square(weights).sum()),
        clusters=int(clusters.max()) + 1,
        of=of,
        logged=_ratio(rewards, np.ones(rows.size), clusters),
        ips=_ratio(weights * rewards, np.ones(rows.size), clusters),
        snips=_ratio(weights * rewards, weights, clusters),
    )


def _chances(rows: Rows, logged: Floats, policy: str, names: dict[int, str]) -> Floats:
    """Return the chance of every arm under the policy, shape (n, arms)."""
    chances = np.zeros_like(logged)
    ids = {name: arm for arm, name in names.items()}
    if policy == POLICY:
        chances[np.arange(rows.size), rows["policy_arm"]] = 1.0
    elif policy == UNIFORM:
        pool = (logged > 0).any(axis=0)
        chances[:, pool] = 1.0 / pool.sum()
    elif policy in ids:
        chances[:, ids[policy]] = 1.0
    else:
        raise ConfigError("policy", policy, f"{POLICY}, {UNIFORM}, or one of the arms {', '.join(ids)}")
    return chances


def _ratio(above: Floats, below: Floats, clusters: np.ndarray) -> Mean:
    """Return the sum of `above` over the sum of `below`, with an interval from the clusters' residuals (delta
    method). The arrays, and `clusters` with the number of each value's cluster, have the shape (n,).
    """
    value = above.sum() / below.sum()
    residuals = np.bincount(clusters, above - value * below)
    n = residuals.size
    if n < 2:
        return Mean(float(value), float("-inf"), float("inf"))
    error = np.sqrt(np.square(residuals).sum() * n / (n - 1)) / below.sum()
    half = t_quantile(n - 1) * error
    return Mean(float(value), float(value - half), float(value + half))
