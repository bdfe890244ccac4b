# SPDX-License-Identifier: Apache-2.0
"""Decisions as spans of a flow's time, and the log of their probabilities and outcomes.

A decision lasts until another arm is wanted, the flow ends, or `SPAN_S` is over. Then the next decision
begins. Experiments and exploration are applied here: they change arms between the policy and the kernel.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from ltp_switcher.arrays import ArmIds, Bools, Floats, Slots, UInt64s
from ltp_switcher.daemon.choose.choice import Cause, Choice
from ltp_switcher.daemon.datapath import RecordArray, protocol
from ltp_switcher.daemon.datapath.protocol import StartCause
from ltp_switcher.daemon.gain.log import DecisionWriter
from ltp_switcher.daemon.gain.outcomes import OutcomeRows, born_s, numbered_prefixes
from ltp_switcher.daemon.gain.rollout import StageTrial, unit_of
from ltp_switcher.daemon.gain.rows import ROW_DTYPE, RTT_SAMPLES, Group, Kind, Rows
from ltp_switcher.daemon.gain.trial import Trial
from ltp_switcher.daemon.step.flow_table import FlowTable
from ltp_switcher.measures import loss_rate, reward
from ltp_switcher.slots import SlotArrays, column

SPAN_S: Final = 10.0
"""Longest time of one decision, in seconds."""
_KINDS: Final = np.full(len(Cause), Kind.CHOSEN, np.uint8)
"""The row's kind by the number of the decision's cause, before exploration."""
_KINDS[[Cause.OPERATOR, Cause.HELD, Cause.EXCLUDED]] = Kind.OPERATOR
_KINDS[Cause.TEAM_SELECTION] = Kind.PULL
_KINDS[Cause.EXPERIMENT] = Kind.BASELINE
_KINDS[Cause.VISIT] = Kind.VISIT
_TOTALS: Final = ("total_acked_bytes", "total_delivered", "total_lost", "total_retrans")


class Spans(SlotArrays):
    """The decision in force for each flow. A decision gives a flow an arm until another arm is wanted, the
    flow ends, or `SPAN_S` is over.

    An experiment keeps some flows on a baseline arm. Exploration gives some decisions an arm at random.

    Args:
        writer: the log.
        trial: the experiment.
        explore: probability that a decision takes a random arm of the pool, 0 to 1.
        pool: ids of the arms among which exploration draws.
        model: number of the policy and its settings, from `model_version`.
        zeta: weight of loss in the reward, Mutant Eq. 1.
        kappa: weight of throughput in the reward, Mutant Eq. 1.
        seed: seed of the exploration.
    """

    _due = column(np.bool_, initial=True)
    """Whether a decision begins at the next step."""
    _open = column(np.bool_)
    """Whether a decision is in force."""
    _began_ns = column(np.int64)
    _wanted = column(np.uint8)
    """The arm that the policy and the experiment wanted, before exploration."""
    _kind = column(np.uint8)
    """The `Kind` of the source from which the arm came."""
    _explored = column(np.uint8)
    """The arm that exploration drew; 0 if it drew none."""
    _row = column(ROW_DTYPE)
    """The decision's row of the log. Fields that are known only at the decision's end are not set yet."""
    _held_back = column(np.bool_)
    _unit = column(np.uint64)
    """Number of the prefix, for the lots of a rollout."""
    _begin = column(np.uint64, len(_TOTALS))
    """The flow's counts at the beginning of the decision."""
    _sent = column(np.uint64, len(_TOTALS))
    """The flow's counts an RTT after `_begin`. From then on, data that was sent under the arm counts."""
    _sent_ns = column(np.int64)
    """Time of `_sent`, CLOCK_MONOTONIC; 0 before it."""
    _seen_bytes = column(np.uint64)
    """Bytes acknowledged at the last look."""
    _busy_s = column(np.float64)
    _peak_Bps = column(np.float64)  # noqa: N815 - B is bytes
    """The flow's highest goodput at a look, over its life."""
    _rtt_us = column(np.float32, RTT_SAMPLES, initial=np.nan)
    _samples = column(np.int64)

    def __init__(
        self,
        writer: DecisionWriter | None,
        trial: Trial,
        *,
        explore: float = 0.0,
        pool: Sequence[int] = (),
        model: int = 0,
        zeta: float = 5.0,
        kappa: float = 2.0,
        seed: int = 1,
    ) -> None:
        super().__init__()
        self.log = writer
        self.trial = trial
        self._explore = explore
        self._pool: ArmIds = np.array(pool, np.uint8)
        self._model = model
        self._zeta, self._kappa = zeta, kappa
        self._rng = np.random.default_rng(seed)
        self._block = -1
        self._paused = False
        self._active = False
        self._since_s = time.time()
        """Unix time since which the present experiment has been in force."""
        self._starts_held: dict[str, bool] = {}
        """Whether new flows to a prefix start on the baseline arm, in this time block of a rollout."""
        self.heard: Callable[[Rows, UInt64s], object] = lambda rows, units: None
        """A function that is called with the decisions that ended under a rollout, and with the numbers of
        their prefixes.
        """

    def open(self, slots: Slots, prefixes: Sequence[str]) -> None:
        """Take in new flows, with their destination prefixes."""
        self.reset(slots)
        for slot, prefix in zip(slots.tolist(), prefixes, strict=True):
            self._row["prefix"][slot] = prefix.encode()
            self._held_back[slot] = self.trial.holds_back(prefix)
            self._unit[slot] = unit_of(prefix.encode())
        if isinstance(self.trial, StageTrial):
            self._held_back[slots] = self.trial.holds(self._unit[slots], self._block)

    def set_trial(self, trial: Trial) -> None:
        """Put another experiment in force. All decisions begin anew."""
        self.trial, self._since_s = trial, time.time()
        self._begin_anew(trial.block(self._since_s))

    def grouped(
        self, rows: OutcomeRows, unruled: Callable[[Sequence[str]], Bools], *, active: bool
    ) -> OutcomeRows:
        """Write into the outcomes of flows (sums over their lives) the group and the time block of the
        experiment in which each flow was born.

        A flow is in no group if its application names the arm, or if a policy covers its prefix.

        Args:
            rows: outcomes, changed in place, shape (n,).
            unruled: a function that is true for prefixes of this network namespace that no policy covers.
            active: whether decisions are carried out.
        """
        self._turn(time.time(), active)
        if not active or self.trial.design == "none" or not len(rows):
            return rows
        prefixes, numbers = numbered_prefixes(rows["outcome"])
        groups, blocks = self.trial.of_births(prefixes, numbers, born_s(rows), self._since_s)
        free = np.ones(len(prefixes), np.bool_)
        own = [place for place, prefix in enumerate(prefixes) if "@" not in prefix]
        free[own] = unruled([prefixes[place] for place in own])
        free = free[numbers] & (rows["outcome"]["cause"] != StartCause.NAMED)
        rows["group"] = np.where(free, groups, Group.NONE)
        rows["block"] = np.where(free, blocks, -1)
        return rows

    def starts(self, learned: dict[str, int]) -> dict[str, int]:
        """Return the ids of the arms on which new flows begin, by prefix. An id is 0 if the experiment keeps
        the prefix on the baseline arm.
        """
        if self.trial.design == "none":
            return learned
        held = self._starts_held
        if self._paused:
            return dict.fromkeys(learned, 0)
        if isinstance(self.trial, StageTrial):
            new = [prefix for prefix in learned if prefix not in held]
            units = np.array([unit_of(prefix.encode()) for prefix in new], np.uint64)
            held.update(zip(new, self.trial.holds(units, self._block).tolist(), strict=True))
            return {prefix: 0 if held[prefix] else arm for prefix, arm in learned.items()}
        return {prefix: 0 if self.trial.holds_back(prefix) else arm for prefix, arm in learned.items()}

    def step(
        self,
        table: FlowTable,
        slots: Slots,
        records: RecordArray,
        choice: Choice,
        free: Bools | None,
        *,
        active: bool,
    ) -> Choice:
        """Return the choice of arms for n flows after experiment and exploration. All arrays have the shape
        (n,).

        `choice` comes from the policy, team selection and the operator. `free` is true for flows for which no
        operator's policy decides; None stands for all flows. `active` tells whether decisions are carried
        out.
        """
        now_s = time.time()
        self._turn(now_s, active)
        wanted, kind = choice.arms, _KINDS[choice.causes]
        if free is not None:
            kind = np.where(free, kind, _KINDS[Cause.OPERATOR])
        if active and self.trial.design != "none":
            control = (kind != _KINDS[Cause.OPERATOR]) & (self._held_back[slots] | self._paused)
            choice = choice.but(control, np.uint8(self.trial.arm), Cause.EXPERIMENT)
            kind = np.where(control, _KINDS[Cause.EXPERIMENT], kind)
        arms = choice.arms
        begins = self._due[slots] | (kind != self._kind[slots])
        begins |= (arms != self._wanted[slots]) & (self._explored[slots] == 0)
        if begins.any():
            at = np.flatnonzero(begins)
            self._finish(table, slots[at], time.monotonic_ns())
            self._start(slots[at], records[at], wanted[at], arms[at], kind[at], now_s)
        if not self._explore:
            return choice
        drawn = self._explored[slots]
        return choice.but(drawn != 0, drawn, Cause.EXPLORATION)

    def look(self, table: FlowTable, now_ns: int) -> None:
        """Take in the flows' counts since the last look. Call this once a second, after the flow table's
        `mark`.
        """
        slots = np.flatnonzero(self._open)
        if not slots.size:
            return
        records, elapsed_s = table.record[slots], (now_ns - self._began_ns[slots]) * 1e-9
        acked = records["total_acked_bytes"]
        moved = acked > self._seen_bytes[slots]
        self._seen_bytes[slots] = acked
        self._busy_s[slots] += np.minimum(np.where(moved, 1.0, 0.0), elapsed_s)
        self._peak_Bps[slots] = np.maximum(self._peak_Bps[slots], table.goodput_Bps[slots])
        heard = slots[moved & (records["srtt_us"] > 0)]
        place = np.minimum(self._samples[heard], RTT_SAMPLES - 1)
        self._rtt_us[heard, place] = table.record["srtt_us"][heard]
        self._samples[heard] += 1
        credited = (self._sent_ns[slots] == 0) & (elapsed_s * 1e6 >= records["srtt_us"])
        self._sent[slots[credited]] = _totals(records[credited])
        self._sent_ns[slots[credited]] = now_ns
        # In mode advise, the application may give the flow another arm.
        elsewhere = (records["arm"] != self._row["ran"][slots]) & ~self._row["active"][slots]
        self._due[slots[elsewhere | (elapsed_s >= SPAN_S)]] = True

    def end(self, table: FlowTable, slot: int, record: RecordArray) -> None:
        """Log the last decision of a flow that has ended. `record`, shape (1,), has the totals of its life.
        Call this while the slot still belongs to the flow.
        """
        if slot < self.capacity and self._open[slot]:
            table.record[slot] = record[0]
            self._finish(table, np.array([slot]), time.monotonic_ns(), ended=True)

    def close(self, slots: Slots) -> None:
        """Forget flows that have ended. A decision that `end` has not logged before is lost, because the slot
        may already belong to another flow.
        """
        self._open[slots] = False

    def finish(self, table: FlowTable) -> None:
        """Log all decisions in force. Call this when the daemon no longer decides."""
        slots = np.flatnonzero(self._open)
        if slots.size:
            self._finish(table, slots, time.monotonic_ns())
            self._due[slots] = True

    def end_log(self, table: FlowTable) -> None:
        """Log the decisions in force, and close the log."""
        self.finish(table)
        if self.log is not None:
            self.log.close()

    def set_pool(self, arms: Sequence[int]) -> None:
        """Let exploration draw from these arms."""
        self._pool = np.array(arms, np.uint8)

    def _turn(self, now_s: float, active: bool) -> None:
        """Begin all decisions anew if a time block has begun or the mode has changed."""
        block = self.trial.block(now_s)
        if active != self._active:
            self._active, self._since_s = active, now_s
            self._begin_anew(block)
        elif block != self._block:
            self._begin_anew(block)

    def _begin_anew(self, block: int) -> None:
        self._block = block
        self._paused = self.trial.pauses(block)
        if isinstance(self.trial, StageTrial):
            self._starts_held = {}
            self._held_back = self.trial.holds(self._unit, block)
        self._due[:] = True

    def _start(
        self, slots: Slots, records: RecordArray, policy: ArmIds, arms: ArmIds, kind: np.ndarray, now_s: float
    ) -> None:
        n = slots.size
        drawn = np.zeros(n, np.uint8)
        probability = np.zeros((n, protocol.ARMS_MAX + 1), np.float32)
        probability[np.arange(n), arms] = 1.0
        if self._active and self._explore and self._pool.size:
            chance = kind == Kind.CHOSEN
            probability[chance] *= 1 - self._explore
            probability[np.ix_(chance, self._pool)] += self._explore / self._pool.size
            lot = chance & (self._rng.random(n) < self._explore)
            drawn = np.where(lot, self._pool[self._rng.integers(self._pool.size, size=n)], 0).astype(np.uint8)
        self._explored[slots], self._wanted[slots], self._kind[slots] = drawn, arms, kind
        final = np.where(drawn != 0, drawn, arms)
        row = self._row
        row["time_s"][slots] = now_s
        row["cookie"][slots] = records["cookie"]
        row["model"][slots] = self._model
        row["arm"][slots], row["policy_arm"][slots] = final, policy
        row["ran"][slots] = final if self._active else records["arm"]
        row["kind"][slots] = np.where(drawn != 0, Kind.EXPLORED, kind)
        design = self.trial if self._active else Trial()
        groups = [int(design.group(now_s, control=control)) for control in (False, True)]
        row["group"][slots] = np.where(
            kind == Kind.OPERATOR, 0, np.array(groups)[(kind == Kind.BASELINE) * 1]
        )
        row["active"][slots], row["block"][slots] = self._active, self._block
        row["probability"][slots] = probability
        context = row["context"]
        context["srtt_us"][slots] = records["srtt_us"]
        context["min_rtt_us"][slots] = records["min_rtt_us"]
        context["delivery_rate_Bps"][slots] = records["delivery_rate"]
        context["cwnd_pkts"][slots] = records["snd_cwnd"]
        context["loss"][slots] = loss_rate(records["total_lost"], records["total_delivered"])
        self._began_ns[slots] = time.monotonic_ns()
        self._begin[slots] = _totals(records)
        self._seen_bytes[slots] = records["total_acked_bytes"]
        self._sent_ns[slots] = self._samples[slots] = 0
        self._busy_s[slots] = 0.0
        self._rtt_us[slots] = np.nan
        self._due[slots], self._open[slots] = False, True

    def _finish(self, table: FlowTable, slots: Slots, now_ns: int, *, ended: bool = False) -> None:
        """Log the decisions in force of these flows, with their outcome."""
        slots = slots[self._open[slots]]
        self._open[slots] = False
        slots = slots[self._row["cookie"][slots] == table.cookie[slots]]
        if self.log is None or not slots.size:
            return
        records, rows = table.record[slots], self._row[slots]
        duration_s = (now_ns - self._began_ns[slots]) * 1e-9
        totals = _totals(records)
        change = (totals - self._begin[slots]).astype(np.float64)
        rows["duration_s"] = duration_s
        rows["busy_s"] = np.where(self._busy_s[slots] > 0, self._busy_s[slots], duration_s)
        rows["acked_bytes"], rows["delivered"], rows["lost"], rows["retrans"] = change.T
        rows["rtt_us"] = self._rtt_us[slots]
        rows["reward"] = self._reward(slots, records, totals, now_ns)
        rows["ended"] = ended
        rows["life_s"] = (now_ns - table.born_ns[slots]) * 1e-9
        rows["context"]["age_s"] = rows["life_s"] - duration_s
        self.log.append(rows)
        if isinstance(self.trial, StageTrial) and self._active:
            self.heard(rows, self._unit[slots])

    def _reward(self, slots: Slots, records: RecordArray, totals: UInt64s, now_ns: int) -> Floats:
        """Return the reward (Mutant Eq. 1) of the data that was sent under the arm, shape (n,). Throughput is
        relative to the flow's best rate, and delay to its least RTT. The reward is NaN if one of these is
        unknown.
        """
        time_s = (now_ns - self._sent_ns[slots]) * 1e-9
        rtt_us, peak_Bps = self._rtt_us[slots], self._peak_Bps[slots]
        samples = np.isfinite(rtt_us).sum(axis=1)
        known = (self._sent_ns[slots] > 0) & (time_s > 0) & (samples > 0) & (peak_Bps > 0)
        acked, delivered, lost = (totals - self._sent[slots]).astype(np.float64).T[:3]
        share = acked / np.where(known, time_s * peak_Bps, 1.0)
        delay = np.nansum(rtt_us, axis=1) / np.maximum(samples, 1) / np.maximum(records["min_rtt_us"], 1)
        value = reward(share, loss_rate(lost, delivered), delay, zeta=self._zeta, kappa=self._kappa)
        return np.where(known, np.minimum(value, 1.0), np.nan)


def _totals(records: RecordArray) -> UInt64s:
    """Return the counts `_TOTALS` of flows over their lives, shape (n, 4)."""
    return np.stack([records[name] for name in _TOTALS], axis=1).astype(np.uint64)


def model_version(*parts: object) -> int:
    """A number for a policy and its settings. The same parts give the same number."""
    return zlib.crc32(repr(parts).encode())
