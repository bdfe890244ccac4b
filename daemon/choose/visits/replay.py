# SPDX-License-Identifier: Apache-2.0
"""Replay: runs the learner on visits that are drawn with replacement from past visits.

A visit is a group of flows to a prefix that began near each other on one arm. Each prefix has a pool of past
visits for every arm. A visit of the replay draws from the pool of the arm that the learner's plan gives it.
So an experiment with the learner takes seconds, and the best arm of each prefix is known: the arm with the
highest mean. The draws assume that visits are independent of each other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats, Ints
from ltp_switcher.daemon.choose.visits.learner import Learner, Visits

WINDOWS: Final = ((1, 10), (11, 30), (31, 100), (101, 400))
"""The windows of visits (groups of flows on one arm) over which results are averaged: numbers of the first
and the last visit of each.
"""
GAP_S: Final = 60.0
"""Time in seconds between two visits (groups of flows on one arm) to a prefix."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Past visits (groups of flows) of one arm to one prefix. Each array has the shape (n,), n at least 1,
    and the meaning that it has in `Visits`.
    """

    values: Floats
    information: Floats
    flows: Floats


@dataclass(frozen=True, slots=True)
class Window:
    """Means over prefixes, for their visits (groups of flows on one arm) from number `first` to number
    `last`. Values are logarithms of the reward. The decision's own choice is the arm of the daemon's usual
    policy.
    """

    first: int
    last: int
    gain: float
    """Value of the learner's arms, less the value of the decision's own choice."""
    best_gain: float
    """Value of the best arm of each prefix, less the value of the decision's own choice."""
    closed: float
    """`gain` as a share of `best_gain`; NaN if `best_gain` is 0."""
    trials: float
    """Share of the visits that were trials."""
    cost: float
    """Cost of the trials as a share of the flows' reward: the true mean value of the incumbent, the arm
    without a trial, less the trial arm's.
    """


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a replay: gains and costs by window of visits, and the costs in the learner's ledger."""

    windows: list[Window]
    ledger: float
    """Cost of all trials as a share of the flows' reward, as the learner's own ledger counts it."""
    worst_prefix: float
    """Largest cost of one prefix's trials as a share of the reward of this prefix's flows, as the learner's
    ledger counts it.
    """
    changes: int
    """Number of changes of paths that the learner saw. All are false alarms, because a replay's paths are
    steady.
    """
    parts: list[list[Window]]
    """The windows of each group of prefixes in the argument `parts` of `replay`; an empty group has none."""


def replay(
    pools: Sequence[Sequence[Pool]],
    visits: int,
    learner: Learner,
    seed: int,
    parts: Sequence[Ints] = (),
    after: int = 0,
) -> Replayed:
    """Give each prefix its visits, and let the learner learn from each visit before the next one. A visit is
    a group of flows to a prefix on one arm.

    Args:
        pools: for each prefix, the pools of all arms. The first arm is the choice of the daemon's usual
            policy.
        visits: number of visits to each prefix.
        learner: a new learner with as many arms. With `after`, it already knows other prefixes.
        seed: seed of the draws.
        parts: groups of prefixes, by index, that get results of their own.
        after: number of other prefixes that had as many visits each before. All prefixes of `pools` are new
            to the learner.
    """
    rng = np.random.default_rng(seed)
    means = np.array([[pool.values.mean() for pool in of_prefix] for of_prefix in pools])
    prefixes, begin_s = np.arange(after, after + len(pools)), visits * GAP_S if after else 0.0
    arms = np.zeros((visits, len(pools)), np.int64)
    incumbents = np.zeros((visits, len(pools)), np.int64)
    changes = 0
    for number in range(visits):
        plan = learner.plan(prefixes, np.zeros(len(pools)), begin_s + number * GAP_S)
        tries = rng.random(len(pools)) < plan.chances
        incumbents[number], arms[number] = plan.incumbents, np.where(tries, plan.trials, plan.incumbents)
        drawn = _drawn(pools, arms[number], begin_s + number * GAP_S, rng)
        changes += learner.observe(dataclasses.replace(drawn, prefixes=prefixes)).size
    spent = (learner.purse.spent / np.maximum(learner.purse.flows, 1.0))[prefixes]
    return Replayed(
        _windows(arms, incumbents, means),
        learner.purse.share,
        float(spent.max(initial=0.0)),
        changes,
        [_windows(arms[:, of], incumbents[:, of], means[of]) if of.size else [] for of in parts],
    )


def _drawn(pools: Sequence[Sequence[Pool]], arms: Ints, now_s: float, rng: np.random.Generator) -> Visits:
    """One visit of every prefix under these arms."""
    chosen = [of_prefix[arm] for of_prefix, arm in zip(pools, arms.tolist(), strict=True)]
    places = [int(rng.integers(pool.values.size)) for pool in chosen]
    found = [
        (pool.values[place], pool.information[place], pool.flows[place])
        for pool, place in zip(chosen, places, strict=True)
    ]
    values, information, flows = np.array(found).T
    return Visits(np.arange(len(pools)), arms, values, information, flows, np.full(len(pools), now_s))


def _windows(arms: Ints, incumbents: Ints, means: Floats) -> list[Window]:
    return [
        _window(first, min(last, len(arms)), arms, incumbents, means)
        for first, last in WINDOWS
        if first <= len(arms)
    ]


def _window(first: int, last: int, arms: Ints, incumbents: Ints, means: Floats) -> Window:
    rows, part = np.arange(means.shape[0]), slice(first - 1, last)
    ran, would = means[rows, arms[part]], means[rows, incumbents[part]]
    gain = float((ran - means[:, 0]).mean())
    best = float((means.max(axis=1) - means[:, 0]).mean())
    tried = arms[part] != incumbents[part]
    return Window(
        first, last, gain, best, gain / best if best > 0 else float("nan"), float(tried.mean()),
        float(np.where(tried, would - ran, 0.0).mean()),
    )  # fmt: skip
