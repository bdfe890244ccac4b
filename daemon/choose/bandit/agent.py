# SPDX-License-Identifier: Apache-2.0
"""Mutant, Algorithm 1, for all flows of a step at once. A step is one round of the daemon.

A step computes the features (line 10 of the algorithm), the encoder's output (lines 11 and 12) and R_max, the
largest reward of late (line 13). Then it learns from the rewards of earlier decisions (lines 16 to 18). Where
a flow's decision has run its time, the step picks the next arm by upper confidence bounds (lines 14, 15, 7
and 8).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltp_switcher.arrays import ArmIds, Bools, Float32s, Floats, Indices, Ints, Slots
from ltp_switcher.daemon.choose.bandit.arm_table import ArmTable
from ltp_switcher.daemon.choose.bandit.credit import Decisions, Earned
from ltp_switcher.daemon.choose.bandit.features import N_FEATURES, FeatureWindows
from ltp_switcher.daemon.choose.bandit.guard import Baseline, Guard
from ltp_switcher.daemon.choose.bandit.knowledge import Knowledge, Sums
from ltp_switcher.daemon.choose.bandit.linucb import LinUCB
from ltp_switcher.daemon.choose.bandit.reward import RewardNormaliser
from ltp_switcher.daemon.choose.chooser import Chooser, Estimate, Reasons
from ltp_switcher.daemon.datapath.performance import Performance, measure, performance
from ltp_switcher.daemon.datapath.protocol import ARMS_MAX, FlowFlags
from ltp_switcher.daemon.datapath.types import RecordArray
from ltp_switcher.daemon.settings.schema import LearningSection
from ltp_switcher.encoder import GRUEncoder
from ltp_switcher.errors import ArtifactError, InvalidValueError
from ltp_switcher.slots import SlotArrays, column

STATE_VERSION: Final = 1
INPUT_SIZE: Final = N_FEATURES + ARMS_MAX
# Lengths of the ring of decisions. The ring has one place more than a flow has decisions with data under way.
# Decisions that last an RTT need three such places. Decisions that last a step need one for every step of a
# long RTT.
_DEPTH_LONG: Final = 4
_DEPTH_SHORT: Final = 64
_PINNED: Final = int(FlowFlags.PINNED)


@dataclass(frozen=True, slots=True)
class StepResult:
    """The result of a step, for each of its n flows; each array has the shape (n,).

    `arms` has the id of the arm to run. `reward` is Mutant Eq. 1 over the step, normalised to 0..1.
    `exploring` is true where the arm was not chosen for its expected reward, but for example to learn about
    it.
    """

    arms: ArmIds
    reward: Floats
    exploring: Bools


def encoder_inputs(features: Float32s, arms: Indices) -> Float32s:
    """Append the one-hot active arm to the features, shape (n, 55). Returns the shape (n, 55 + ARMS_MAX).

    `arms` has the ids of the active arms, shape (n,). No arm is marked where an id is outside 1 to ARMS_MAX.
    """
    n = len(features)
    inputs = np.zeros((n, INPUT_SIZE), np.float32)
    inputs[:, :N_FEATURES] = features
    known = np.flatnonzero((arms >= 1) & (arms <= ARMS_MAX))
    inputs[known, N_FEATURES - 1 + arms[known]] = 1.0
    return inputs


class MutantAgent(Chooser, SlotArrays):
    """Chooses an arm, a congestion control, for every flow by Mutant's Algorithm 1. A flow is known by its
    slot, a small number that the caller assigns.

    A decision gives a flow an arm, and stays in force for some round trips. The caller may give a baseline,
    another policy whose arms run until rewards show a better arm (`guard`).

    Args:
        config: the section `[learning]` of the settings.
        step_ms: time between two calls of `step`, in ms.
        arms: the arms that this machine offers. At first all of them are in the pool.
        encoder: the network f_enc, which turns features into the context of the bandit.
        seed: seed of all random draws.

    Raises:
        ArtifactError: the encoder was made for other inputs.
    """

    learns_from_teams = True
    reasons = (
        "it promised the most reward, {value:.2f}",
        "its reward was uncertain, and trying it showed more; {value:.2f} was expected",
        "the flow was new, and nothing was known yet",
    )
    guarded_reasons = (
        "flows to the same network earned {value:.2f} with it, surely more than with the rule's arm",
        "the rule's arm may not be the best, and trying this one shows it; {value:.2f} was expected",
    )
    """Sentences for the reasons why a flow runs another arm than the baseline's."""

    _hidden = column(np.float32, "_state_size")
    """State of the encoder for the flow."""
    _prefix = column(np.intp)
    """Row of the flow's destination prefix in `knowledge`."""
    _due_ns = column(np.int64)
    _in_pool = column(np.bool_, "_n_arms", initial=True)
    _reward = column(np.float64)
    _exploring = column(np.bool_)
    _given = column(np.uint8)
    """The arm that team selection gave at the last step; 0 if it gave none."""
    _expected = column(np.float64, initial=np.nan)
    """The reward that the arm of the decision in force promised when it was chosen."""

    def __init__(
        self, config: LearningSection, step_ms: float, arms: ArmTable, encoder: GRUEncoder, seed: int
    ) -> None:
        if encoder.input_size != INPUT_SIZE:
            raise ArtifactError(
                f"encoder weights take {encoder.input_size} inputs; this release feeds {INPUT_SIZE}"
            )
        self._state_size = encoder.initial_state(0).shape[1]
        self._n_arms = len(arms)
        super().__init__()
        self.config = config
        self.step_ms = step_ms
        self.arms = arms
        self._encoder, self.encoder = encoder, encoder.artifact.digest
        self._rng = np.random.default_rng(seed)
        self._ids = np.array(arms.ids, np.intp)
        self._column = np.full(256, -1, np.intp)
        self._column[self._ids] = np.arange(len(arms))
        self._pool = np.ones(len(arms), np.bool_)
        dim = encoder.output_size + 1
        prior = encoder.artifact
        trained = Sums(prior.prior_A[self._ids], prior.prior_b[self._ids], prior.prior_counts[self._ids])
        # Over a baseline only the knowledge of the prefix counts, because other paths prove nothing about
        # this one.
        wider = (config.trained_cap, config.global_cap) if config.baseline == "none" else (0.0, 0.0)
        self.knowledge = Knowledge(trained, *wider, config.prefix_cap)
        self._features = self.part(FeatureWindows())
        self._normaliser = self.part(RewardNormaliser(config))
        self._bandit = self.part(LinUCB(len(arms), dim, config.ridge, config.discount))
        depth = _DEPTH_LONG if config.hold_rtts >= 1 else _DEPTH_SHORT
        self._decisions = self.part(Decisions(dim, config.credit, depth))
        self._guard = self.part(Guard(config.bound, config.explore_share))

    @property
    def pool(self) -> tuple[int, ...]:
        """Ids of the arms that a new flow may run."""
        return tuple(int(arm) for arm in self._ids[self._pool])

    def set_pool(self, arms: Sequence[int], slots: Slots | None = None) -> None:
        """Choose among these arms only, from each flow's next decision on.

        Args:
            arms: ids.
            slots: the open flows to which the pool applies. None stands for all open and future flows.

        Raises:
            InvalidValueError: the pool is empty, or has an arm that this machine does not offer.
        """
        unknown = sorted(set(arms) - set(self.arms.ids))
        if unknown or not arms:
            raise InvalidValueError("arms", list(arms), f"one or more of {sorted(self.arms.ids)}")
        pool = np.isin(self._ids, list(arms))
        if slots is None:
            self._pool = pool
            self._in_pool[:] = pool
        else:
            self._in_pool[slots] = pool

    def open(self, slots: Slots, prefixes: Sequence[str]) -> None:
        """Begin new flows. Each starts with the knowledge about its destination prefix."""
        if not len(slots):
            return
        self.reset(slots)
        self._in_pool[slots] = self._pool
        rows = [self.knowledge.open(prefix) for prefix in prefixes]
        self._prefix[slots] = rows
        starts = [self.knowledge.start(row) for row in rows]
        self._bandit.start(
            slots,
            np.stack([start.A for start in starts]),
            np.stack([start.b for start in starts]),
            np.stack([start.counts for start in starts]),
        )

    def close(self, slots: Slots) -> None:
        """End flows; their slots may be opened anew."""
        self._normaliser.reset(slots)
        self.knowledge.close(self._prefix[slots])

    def step(
        self,
        slots: Slots,
        records: RecordArray,
        given: ArmIds | None = None,
        baseline: Baseline | None = None,
    ) -> StepResult:
        """Take one step's records, and choose the arm of every flow.

        Args:
            slots: open slots, shape (n,), each at most once.
            records: `RECORD_DTYPE`, shape (n,), one for each slot.
            given: the arms that flows try for team selection (Mutant, Section 5.2), shape (n,); 0 where a
                flow tries none. The agent learns from these arms as from its own decisions.
            baseline: the arm of each flow that runs unless rewards show that another arm is better. With
                None, Algorithm 1 of Mutant alone decides.

        Returns:
            The chosen arms and the rewards of the past step, in the order of `slots`.
        """
        config = self.config
        n = len(slots)
        if n == 0:
            return StepResult(np.zeros(0, np.uint8), np.zeros(0), np.zeros(0, np.bool_))
        time_ns = records["time_ns"].astype(np.int64)
        srtt_us = records["srtt_us"].astype(np.float64)
        active = records["arm"].astype(np.intp)
        features = self._features.push(slots, records)
        state, z = self._encoder.step(self._hidden[slots], encoder_inputs(features, active))
        self._hidden[slots] = state
        context = np.ones((n, self._bandit.dim))
        context[:, :-1] = z

        changed = self._measure(slots, records, time_ns)
        self._decisions.fold(slots, records, time_ns)
        self._learn(slots, records, self._decisions.ripe(slots, time_ns, srtt_us), srtt_us)

        due = time_ns >= self._due_ns[slots]
        if changed.any():
            self._bandit.widen(slots[changed], config.keep_on_change)
            if config.decide_on_change:
                # A decision that has not lasted an RTT has not shown anything yet.
                lasted = time_ns - self._decisions.start_ns(slots) >= srtt_us * 1e3
                due |= changed & lasted
        if baseline is not None:
            # A pinned flow's arm need not be one of ours.
            baseline = Baseline(baseline.arms, baseline.free & ((records["flags"] & _PINNED) == 0))
            due |= self._guard.moved(slots, self._column[baseline.arms], baseline.free)
        given = np.zeros(n, np.uint8) if given is None else given
        due |= given != self._given[slots]
        self._given[slots] = given
        at = np.flatnonzero(due)
        if at.size:
            said = None if baseline is None else Baseline(baseline.arms[at], baseline.free[at])
            self._decide(slots[at], records[at], context[at], time_ns[at], srtt_us[at], said, given[at])
        return StepResult(
            self._decisions.arm(slots).astype(np.uint8),
            self._reward[slots],
            self._exploring[slots],
        )

    def reason(self, slots: Slots) -> Reasons:
        """The reason for each flow's arm: it promised the most, it was tried to learn about it, or the flow
        was new.
        """
        expected = self._expected[slots]
        code = np.where(np.isnan(expected), 2, self._exploring[slots].astype(np.intp))
        return Reasons(code, expected)

    def guarded_reason(self, slots: Slots) -> Reasons:
        """The reason for each flow's arm beside a baseline. A code is an index into `guarded_reasons`, or -1
        where the baseline's arm runs.
        """
        code = np.where(self._guard.departed(slots), self._exploring[slots].astype(np.intp), -1)
        return Reasons(code, self._expected[slots])

    def estimates(self, slot: int) -> Sequence[Estimate]:
        """Mean reward and LinUCB bounds for every arm of a flow's pool, in the context of the flow's last
        decision; empty before the first decision.
        """
        slots = np.array([slot])
        if not self._decisions.made[slot]:
            return ()
        z = self._decisions.context(slots)
        weight = self.config.alpha if self.config.baseline == "none" else self.config.bound
        mean, width = self._bandit.means(slots, z)[0], weight * self._bandit.widths(slots, z)[0]
        return [
            Estimate(
                int(self._ids[at]), float(mean[at]), float(mean[at] - width[at]), float(mean[at] + width[at])
            )
            for at in np.flatnonzero(self._in_pool[slot])
        ]

    def state(self) -> dict[str, NDArray[np.generic]]:
        """The knowledge that is not about single flows, as arrays for one .npz."""
        return {
            "version": np.array(STATE_VERSION),
            "arms": self._ids.copy(),
            "encoder": np.array(self.encoder),
            **self.knowledge.state(),
        }

    def restore(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Take over the result of `state`, if there is one. No flow may be open yet.

        Raises:
            ArtifactError: the state has another version, other arms, another encoder, or arrays that do not
                fit.
        """
        if "version" not in arrays:
            # The rule ran alone when the state was saved.
            return
        try:
            if int(arrays["version"]) != STATE_VERSION:
                raise ArtifactError(f"learnt state: version {arrays['version']}, expected {STATE_VERSION}")
            if str(arrays["encoder"]) != self.encoder:
                raise ArtifactError("learnt state: it was learnt with another encoder")
            if arrays["arms"].tolist() != self._ids.tolist():
                raise ArtifactError(f"learnt state: it is for the arms {arrays['arms'].tolist()}")
            self.knowledge.restore(arrays)
        except (KeyError, ValueError, TypeError) as error:
            raise ArtifactError(f"learnt state does not fit: {error}") from error

    def _measure(self, slots: Slots, records: RecordArray, time_ns: Ints) -> Bools:
        """Update R_max and the steps' own rewards; return where the path changed."""
        seen = measure(records, self.config.credit)
        changed = self._normaliser.observe(slots, seen, time_ns)
        at = np.flatnonzero(seen.heard)
        heard = Performance(*(values[at] for values in seen.performance))
        self._reward[slots[at]] = self._normaliser.normalise(slots[at], heard)
        return changed

    def _learn(self, slots: Slots, records: RecordArray, earned: Earned, srtt_us: Floats) -> None:
        """Turn ripe decisions into rewards and hand these to the flow's model and the shared ones."""
        columns = self._column[earned.arms]
        mine = columns >= 0
        if not mine.any():
            return
        at, columns = earned.at[mine], columns[mine]
        seen = performance(earned.counts[mine], records["mss"][at], srtt_us[at])
        rewards = self._normaliser.normalise(slots[at], seen)
        z = earned.z[mine]
        self._bandit.update(slots[at], columns, z, rewards)
        self.knowledge.add(self._prefix[slots[at]], columns, z, rewards)

    def _decide(
        self,
        slots: Slots,
        records: RecordArray,
        z: Floats,
        time_ns: Ints,
        srtt_us: Floats,
        baseline: Baseline | None,
        given: ArmIds,
    ) -> None:
        config = self.config
        is_given = given != 0
        mean = self._bandit.means(slots, z)
        mean[~self._in_pool[slots]] = -np.inf
        hold_ns = np.maximum(
            max(config.hold_steps * self.step_ms, config.hold_ms) * 1e6,
            config.hold_rtts * srtt_us * 1e3,
        )
        if baseline is None:
            choice = self._by_ucb(slots, z, mean)
            self._exploring[slots] = choice != mean.argmax(axis=1)
        else:
            choice, self._exploring[slots] = self._guard.choose(
                slots, self._prefix[slots], mean, self._bandit.widths(slots, z), self._in_pool[slots],
                self._column[baseline.arms], baseline.free & ~is_given, time_ns, hold_ns,
            )  # fmt: skip
        self._exploring[slots] |= is_given & (self._column[given] != choice)
        choice = np.where(is_given, self._column[given], choice)
        self._expected[slots] = mean[np.arange(len(slots)), choice]
        # The agent does not choose the arm of a pinned flow, but learns from it.
        pinned = (records["flags"] & _PINNED) != 0
        arms = np.where(pinned, records["arm"], self._ids[choice]).astype(np.intp)
        # The reward right after a switch says more about the queue that the earlier arm left.
        lesson = None if baseline is None else baseline.free & (arms == self._decisions.arm(slots))
        self._decisions.make(slots, arms, z, time_ns, lesson)
        # The time is half a step shorter, so that a step that comes a little early does not cost a whole
        # step.
        self._due_ns[slots] = time_ns + (hold_ns - self.step_ms * 0.5e6).astype(np.int64)

    def _by_ucb(self, slots: Slots, z: Floats, mean: Floats) -> Indices:
        """The columns that Algorithm 1 picks, shape (n,)."""
        config, in_pool = self.config, self._in_pool[slots]
        if config.ucb == "linucb":
            bonus = config.alpha * self._bandit.widths(slots, z)
        else:
            counts = self._bandit.counts(slots)
            tried = counts > 0
            t = np.maximum((counts * in_pool).sum(axis=1, keepdims=True), 1.0)
            bonus = config.alpha * np.sqrt(2.0 * np.log(t) / np.where(tried, counts, 1.0))
            bonus[~tried] = np.inf
        score = np.where(in_pool, mean + bonus, -np.inf)
        active = self._column[self._decisions.arm(slots)]
        stay = np.flatnonzero(active >= 0)
        score[stay, active[stay]] += config.switch_margin
        # Equal scores (all infinite, at the beginning) are drawn by lot.
        lot = np.where(score == score.max(axis=1, keepdims=True), self._rng.random(score.shape), -1.0)
        choice: Indices = lot.argmax(axis=1)
        if config.epsilon > 0:
            chance = config.epsilon / (1.0 + self._decisions.made[slots] / config.epsilon_decay)
            forced = self._rng.random(len(slots)) < chance
            drawn = np.where(in_pool, self._rng.random(in_pool.shape), -1.0).argmax(axis=1)
            choice = np.where(forced, drawn, choice)
        return choice
