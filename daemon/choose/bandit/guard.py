# SPDX-License-Identifier: Apache-2.0
"""A guard over LinUCB: a baseline's arm runs until the rewards show that another arm is better.

This is a conservative bandit (Wu et al., ICML 2016) whose baseline is a policy that knows the path. A flow
leaves the baseline's arm if another arm's lower bound exceeds the upper bound of the baseline's arm. To learn
more, the flow may try the arm that LinUCB prefers (Mutant, Algorithm 1, lines 14 and 15). All trials of a
destination prefix take a small share of its flows' time, so trials that fail cost no more than that.

The baseline may forbid other arms, for example while it probes the path. Then its own arm runs.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from ltp_switcher.arrays import ArmIds, Bools, Floats, Indices, Ints, Slots
from ltp_switcher.slots import SlotArrays, column

TRIAL: Final = 3
"""Number of decisions for which a trial of another arm lasts. A decision gives a flow its arm for some round
trips. The first one of a trial meets the queue of the earlier arm, and teaches nothing. The flows of a prefix
can save up for one trial at most.
"""
AWAY_NS: Final = 10_000_000_000
"""Longest time between two decisions of a flow, in ns, that counts when the flow saves up for trials."""


class Baseline(NamedTuple):
    """The baseline's arms for n flows; each array has the shape (n,). The baseline is a policy whose arms run
    unless rewards speak for others.
    """

    arms: ArmIds
    free: Bools
    """True where another arm than the baseline's may run."""


class Choice(NamedTuple):
    """The arms of n flows, as columns of the bandit; each array has the shape (n,)."""

    columns: Indices
    tried: Bools
    """True where the arm runs as a trial, to learn about it."""


class Guard(SlotArrays):
    """The state of the guard for each flow. A baseline is a policy whose arms run unless rewards speak for
    others.

    The guard lets the baseline's arm run, unless the interval of another arm's expected reward lies above the
    interval of the baseline's arm. A decision of the guard gives a flow an arm for some round trips.

    Args:
        bound: half the width of such an interval, as a multiple of LinUCB's sqrt(z' A^-1 z). A 95 % interval
            needs twice the standard deviation of a normalised reward.
        share: largest share of the flows' time that trials of other arms may take.
    """

    _baseline = column(np.intp, initial=-1)
    _free = column(np.bool_)
    _last_ns = column(np.int64)
    """Time of the last decision."""
    _left = column(np.int64)
    """Number of decisions that the trial under way still lasts."""
    _departed = column(np.bool_)
    """Whether another arm than the baseline's runs."""
    _trial = column(np.intp)
    """The column of the arm that the trial tries."""

    def __init__(self, bound: float, share: float) -> None:
        super().__init__()
        self._bound, self._share = bound, share
        self._saved_ns = np.zeros(0)
        """Time that a prefix's flows may still spend on trials, by the prefix's row."""

    def moved(self, slots: Slots, baseline: Indices, free: Bools) -> Bools:
        """True where the baseline's arm, or the freedom to run another arm, has changed since the last
        decision, shape (n,).
        """
        moved: Bools = (self._baseline[slots] != baseline) | (self._free[slots] != free)
        return moved

    def choose(
        self,
        slots: Slots,
        prefixes: Slots,
        mean: Floats,
        width: Floats,
        in_pool: Bools,
        baseline: Indices,
        free: Bools,
        time_ns: Ints,
        hold_ns: Floats,
    ) -> Choice:
        """Choose for n flows whose decisions have run their time.

        Args:
            slots: slots of the flows, shape (n,).
            prefixes: row numbers of the flows' destination prefixes, shape (n,).
            mean: expected reward of each arm, shape (n, arms).
            width: LinUCB's sqrt(z' A^-1 z), shape (n, arms).
            in_pool: whether each arm is in the flow's pool, shape (n, arms).
            baseline: column of the baseline's arm, shape (n,).
            free: whether the baseline lets another arm run, shape (n,).
            time_ns: time of each flow's record, CLOCK_MONOTONIC, shape (n,).
            hold_ns: time for which each decision will last, shape (n,).
        """
        rows = np.arange(len(slots))
        self._save(slots, prefixes, time_ns, hold_ns)
        upper, lower = mean + self._bound * width, mean - self._bound * width
        other = in_pool.copy()
        other[rows, baseline] = False
        may = free & other.any(axis=1)
        surest = np.where(other, lower, -np.inf).argmax(axis=1)
        wins = may & (lower[rows, surest] > upper[rows, baseline])
        chosen = np.where(wins, surest, baseline)
        hoped = np.where(other, upper, -np.inf).argmax(axis=1)
        promising = may & ~wins & (upper[rows, hoped] > upper[rows, baseline])
        goes_on = may & (self._left[slots] > 0) & other[rows, self._trial[slots]]
        self._trial[slots] = np.where(goes_on, self._trial[slots], hoped)
        tried = goes_on | self._paid(prefixes, promising & ~goes_on, hold_ns)
        left = np.where(goes_on, self._left[slots], TRIAL)
        self._left[slots] = np.where(tried, left - 1, 0)
        self._baseline[slots], self._free[slots], self._last_ns[slots] = baseline, free, time_ns
        columns = np.where(tried, self._trial[slots], chosen)
        self._departed[slots] = columns != baseline
        return Choice(columns, tried)

    def departed(self, slots: Slots) -> Bools:
        """True where the flow runs another arm than the baseline's, shape (n,)."""
        return self._departed[slots]

    def _save(self, slots: Slots, prefixes: Slots, time_ns: Ints, hold_ns: Floats) -> None:
        """Let prefixes save a share of the time since the last decisions, where the choice was free."""
        missing = int(prefixes.max(initial=-1)) + 1 - len(self._saved_ns)
        if missing > 0:
            self._saved_ns = np.concatenate([self._saved_ns, np.zeros(max(missing, len(self._saved_ns)))])
        past_ns = time_ns - self._last_ns[slots]
        saving = self._free[slots] & (self._last_ns[slots] > 0) & (past_ns < AWAY_NS)
        rows, most_ns = prefixes[saving], np.zeros(len(self._saved_ns))
        np.maximum.at(most_ns, rows, TRIAL * hold_ns[saving])
        np.add.at(self._saved_ns, rows, self._share * past_ns[saving])
        self._saved_ns[rows] = np.minimum(self._saved_ns[rows], most_ns[rows])

    def _paid(self, prefixes: Slots, wanted: Bools, hold_ns: Floats) -> Bools:
        """Pay for the trials that are wanted, at most one for each prefix, if the prefix has saved enough.
        Returns true where a trial was paid, shape (n,).
        """
        affordable = np.flatnonzero(wanted & (self._saved_ns[prefixes] >= TRIAL * hold_ns))
        rows, first = np.unique(prefixes[affordable], return_index=True)
        at = affordable[first]
        self._saved_ns[rows] -= TRIAL * hold_ns[at]
        paid = np.zeros(wanted.shape, np.bool_)
        paid[at] = True
        return paid
