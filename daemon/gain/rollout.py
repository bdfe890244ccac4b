# SPDX-License-Identifier: Apache-2.0
"""A rollout gives the daemon's choices to 5, 20, 50 and then 100 % of the traffic, and ends if they do harm.

A stage consists of rounds of time blocks. In each round, a lot chooses the blocks in which a unit is treated.
In the four stages these are 1 block of 20, 1 of 5, 3 of 6, and every block. A unit is a destination prefix
with a lot of its own, or all prefixes together. In its other blocks a unit stays on the baseline arm. After
each round, `evidence` compares the unit's treated and untreated blocks.

- The rollout ends once it is proven that the treatment lowers goodput.
- The next stage begins once a stage has had its least time, and the harm that is not excluded would cost the
  server at most the tolerance in the next stage. This cost is the next share times the harm. At a tolerance
  of 5 %, a harm of 25, 10 and 5 % has to be excluded.
- The rollout also ends once a stage has had its longest time without either proof.

Both proofs come from one sequential test over the whole rollout, see `evidence.ERROR`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Final, Literal, cast, get_args

import numpy as np

from ltp_switcher.arrays import Bools, Floats, UInt64s
from ltp_switcher.daemon.gain.evidence import Evidence, Power, Round
from ltp_switcher.daemon.gain.rows import Group, Kind, Rows
from ltp_switcher.daemon.gain.trial import Trial

Units = Literal["prefixes", "blocks"]
End = Literal["done", "harm", "undecided", "aborted", "damaged"]

PREFIXES_MAX: Final = 1024
"""Largest number of prefixes that are judged in a round. The first prefixes with traffic are taken, and
suffice for any verdict.
"""
GRACE_S: Final = 5.0
"""Least time in seconds between the end of a round and its judgement, because a decision is logged some time
after its end.
"""
REFERENCE: Final = -0.10
"""A harm, as a relative change of goodput. The status estimates how long it would take to prove a harm of
this size.
"""
SHOWN: Final = (-0.5, -0.3, -0.2, -0.15, -0.1, -0.07, -0.05, -0.03, -0.02, -0.01, 0.0, 0.01, 0.02, 0.03, 0.05,
                0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0)  # fmt: skip
"""Relative changes of goodput that are tested for the status alone. The interval of the rollout's effect in
the status ends at tested values.
"""
_DRAWS: Final = 8
"""Number of lots from which a round estimates the time until a proof. If each prefix has a lot of its own,
the lot of each prefix counts as one.
"""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage of a rollout. In each of its rounds, `treated` of `blocks` time blocks are treated: they get
    the daemon's choices.
    """

    treated: int
    blocks: int

    @property
    def share(self) -> float:
        """Share of the traffic that is treated."""
        return self.treated / self.blocks


STAGES: Final = (Stage(1, 20), Stage(1, 5), Stage(3, 6), Stage(1, 1))


@dataclass(frozen=True, slots=True)
class Plan:
    """The terms of a rollout, fixed at its start. A rollout gives the daemon's choices to more and more of
    the traffic, in stages, by lots.

    Attributes:
        units: the units for which lots are drawn.
        seed: seed of the lots.
        block_s: length of a time block in seconds.
        washout_s: length of the first part of a block, which does not count, in seconds.
        arm: id of the baseline arm.
        tolerance: largest loss of the server's goodput, as a share, that may remain possible in a next stage.
        stage_min_s: least time of a stage in seconds.
        stage_max_s: longest time of a stage in seconds.
    """

    units: Units
    seed: int
    block_s: float
    washout_s: float
    arm: int
    tolerance: float
    stage_min_s: float
    stage_max_s: float

    def excluded(self, stage: int) -> float:
        """Return the relative effect on goodput, below 0, that must be excluded before the stage after
        `stage` begins.
        """
        return -self.tolerance / STAGES[stage + 1].share


@dataclass(frozen=True, slots=True)
class StageTrial(Trial):
    """The lots of a stage, which decide in which time blocks a unit is treated. The stage begins with the
    block `first`. In earlier blocks nothing is treated.

    A unit is a prefix if `by_prefix` is true. Otherwise all prefixes are one unit.
    """

    stage: int = 0
    first: int = 0
    by_prefix: bool = False

    def block(self, time_s: float) -> int:
        """Number of the time block at a Unix time."""
        return int(time_s // self.block_s)

    def holds(self, units: UInt64s, block: int) -> Bools:
        """True for units that stay on the baseline arm in a block, shape (n,). `units` has the numbers of
        prefixes from `unit_of`.
        """
        if not self.by_prefix or block < self.first:
            return np.zeros(units.shape, np.bool_)
        number, place = divmod(block - self.first, STAGES[self.stage].blocks)
        draws = self._draws(units, number)
        # All flows wait for this result, so it takes fewer operations than `lots`.
        held: Bools = (draws < draws[:, [place]]).sum(axis=1) >= STAGES[self.stage].treated
        return held

    def pauses(self, block: int) -> bool:
        """Whether all flows stay on the baseline arm in a block."""
        if block < self.first:
            return True
        number, place = divmod(block - self.first, STAGES[self.stage].blocks)
        return not self.by_prefix and not self.lots(_ALL, number)[0, place]

    def group(self, time_s: float, *, control: bool) -> Group:
        """The group that the log gives to a row that begins at a Unix time.

        In a rollout by prefixes, a prefix is in both groups in turn. The report does not know this design, so
        such rows are in the group that the report leaves out.
        """
        if self.by_prefix or self.block(time_s) < self.first or time_s % self.block_s < self.washout_s:
            return Group.WASHOUT
        return Group.CONTROL if control else Group.TREATED

    def lots(self, units: UInt64s, number: int) -> Bools:
        """True for the blocks of a round in which each of n units is treated, shape (n, blocks). `number` is
        the round's number in the stage.
        """
        ranks = np.argsort(np.argsort(self._draws(units, number), axis=1), axis=1)
        treated: Bools = ranks < STAGES[self.stage].treated
        return treated

    def _draws(self, units: UInt64s, number: int) -> UInt64s:
        """Return a random number for each unit and block of a round, shape (n, blocks). A unit is treated in
        the blocks with its lowest numbers.
        """
        places = range(STAGES[self.stage].blocks)
        keys = [_number(f"{self.seed} {self.stage} {number} {place}") for place in places]
        return _mixed(units[:, None] ^ np.array(keys, np.uint64))


_ALL: Final[UInt64s] = np.zeros(1, np.uint64)


def unit_of(prefix: bytes) -> int:
    """Return a number of 64 bits for a prefix, computed from its text in the decision log."""
    return int.from_bytes(hashlib.blake2b(prefix, digest_size=8).digest())


def _number(name: str) -> int:
    return unit_of(name.encode())


def _mixed(values: UInt64s) -> UInt64s:
    """SplitMix64's finaliser (Steele, Lea and Flood, OOPSLA 2014), which turns different numbers into evenly
    spread ones.
    """
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


class _Sums:
    """Sums for each prefix in each block of a round: acknowledged bytes and busy time, shape (prefixes,
    blocks).
    """

    def __init__(self, blocks: int, units: UInt64s | None = None) -> None:
        self.units: UInt64s = np.zeros(0, np.uint64) if units is None else units
        self.acked: Floats = np.zeros((self.units.size, blocks))
        self.busy_s: Floats = np.zeros((self.units.size, blocks))
        self._row_of = {unit: row for row, unit in enumerate(self.units.tolist())}

    def add(self, units: UInt64s, place: np.ndarray, acked: Floats, busy_s: Floats) -> None:
        """Add rows of the log, all of shape (n,)."""
        seen, at = np.unique(units, return_inverse=True)
        for unit in seen.tolist():
            if unit not in self._row_of and len(self._row_of) < PREFIXES_MAX:
                self._row_of[unit] = len(self._row_of)
        more = len(self._row_of) - self.units.size
        if more:
            self.units = np.array(list(self._row_of), np.uint64)
            self.acked, self.busy_s = (
                np.pad(part, ((0, more), (0, 0))) for part in (self.acked, self.busy_s)
            )
        row = np.array([self._row_of.get(unit, -1) for unit in seen.tolist()])[at]
        known = row >= 0
        cell = row[known], place[known]
        np.add.at(self.acked, cell, acked[known])
        np.add.at(self.busy_s, cell, busy_s[known])

    def logs(self) -> Floats:
        """Logarithms of goodput, shape (prefixes, blocks); NaN without traffic."""
        with np.errstate(divide="ignore", invalid="ignore"):
            goodput_Bps = self.acked / self.busy_s
            return np.where(goodput_Bps > 0, np.log(goodput_Bps), np.nan)


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a rollout, which gives the daemon's choices to more and more of the traffic. Effects are
    relative changes of goodput, or None if nothing is proven yet.

    `detect_s` is the rough time in seconds in which this stage would prove a harm of 10 %, or None if it is
    not known yet.
    """

    stage: int
    share: float
    rounds: int
    prefixes: int
    estimate: float | None
    lower: float | None
    upper: float | None
    must_exclude: float | None
    detect_s: float | None
    stage_s: float
    round_s: float


class Rollout:
    """A rollout under way. `trial` has the lots of the present stage. The caller passes rows of the decision
    log to `take`, and calls `look` again and again.

    Args:
        plan: the terms of the rollout.
        now_s: Unix time.
        shown: relative effects on goodput that are judged for the status alone. If there are none, the status
            also gives no time until a proof.
        make_evidence: a function that makes the object which judges effects by the rounds.
    """

    _trial: StageTrial
    _stage_began_s: float
    _block: int
    """The latest block in which `look` was called."""
    _begin: int
    """The first block of the round under way."""
    _rounds: int
    """Number of rounds that were judged in this stage."""
    _sums: _Sums
    _judged: Round | None
    """The round that is being judged, one effect at a time. `_next_effect` is the index of the next effect.
    """
    _next_effect: int
    _power: Power

    def __init__(
        self,
        plan: Plan,
        now_s: float,
        shown: tuple[float, ...] = SHOWN,
        make_evidence: Callable[[tuple[float, ...]], Evidence] = Evidence,
    ) -> None:
        self.plan = plan
        self.began_s = now_s
        needed = tuple(plan.excluded(stage) for stage in range(len(STAGES) - 1))
        self.evidence = make_evidence((0.0, *needed, *shown))
        self._shown = bool(shown)
        self.end: End | None = None
        self.changed = True
        """Whether there is something to save. The caller that saves sets this to false."""
        self._difference: Floats = np.zeros(2)
        self._enter(0, now_s)

    @property
    def trial(self) -> StageTrial:
        """The lots of the present stage. They decide in which time blocks a prefix, or all prefixes together,
        get the daemon's choices.
        """
        return self._trial

    @property
    def stage(self) -> int:
        """The index of the present stage in `STAGES`."""
        return self._trial.stage

    @property
    def share(self) -> float:
        """Share of the traffic that is treated in the present stage."""
        return STAGES[self.stage].share

    def take(self, rows: Rows, units: UInt64s) -> None:
        """Take in rows of the decision log, shape (n,), and the units of their prefixes, from `unit_of`,
        shape (n,).
        """
        plan, place = self.plan, rows["block"] - self._begin
        counts = (rows["kind"] != Kind.OPERATOR) & (rows["time_s"] % plan.block_s >= plan.washout_s)
        counts &= (place >= 0) & (place < STAGES[self.stage].blocks) & (rows["busy_s"] > 0)
        if counts.any() and self.end is None:
            self._sums.add(
                units[counts], place[counts], rows["acked_bytes"][counts],
                rows["busy_s"][counts].astype(np.float64),
            )  # fmt: skip

    def look(self, now_s: float) -> bool:
        """Judge the round that is due at a Unix time. Returns whether the stage has changed or the rollout
        has ended.

        A call judges only one part of a round, so that no step of the daemon waits for the whole round.
        """
        if self.end is not None:
            return False
        if self._judged is not None:
            return self._judge(self._judged, now_s)
        block, blocks = self._trial.block(now_s), STAGES[self.stage].blocks
        late_s = now_s % self.plan.block_s
        if block != self._block:
            self._block, self.changed = block, True
        over = block - self._begin - blocks
        if over > 0 or (over == 0 and late_s >= max(self.plan.washout_s, GRACE_S)):
            if self._sums.units.size:
                trial, units = self._trial, self._sums.units
                lots = trial.lots(units if trial.by_prefix else _ALL, (self._begin - trial.first) // blocks)
                logs = self._sums.logs()
                self._judged = Round(logs, np.broadcast_to(lots, logs.shape), not trial.by_prefix)
                self._next_effect = 0
            # After a pause of the daemon, whole rounds without any data may have passed.
            self._begin += blocks * (1 + over // blocks)
            self._sums = _Sums(blocks)
        elif now_s - self._stage_began_s >= self.plan.stage_max_s:
            return self._finish("undecided")
        return False

    def abort(self) -> None:
        """End the rollout on an operator's request."""
        self._finish("aborted")

    def status(self, now_s: float) -> Status:
        """The state of the rollout at a Unix time."""
        last = self.stage == len(STAGES) - 1
        blocks = STAGES[self.stage].blocks
        rounds = self._power.rounds
        total, weight = self._difference.tolist()
        return Status(
            stage=self.stage,
            share=self.share,
            rounds=self._rounds,
            prefixes=int(self._sums.units.size),
            estimate=float(np.expm1(total / weight)) if weight else None,
            lower=self.evidence.lower,
            upper=self.evidence.upper,
            must_exclude=None if last else self.plan.excluded(self.stage),
            detect_s=None if rounds is None else max(rounds, 1.0) * blocks * self.plan.block_s,
            stage_s=now_s - self._stage_began_s,
            round_s=blocks * self.plan.block_s,
        )

    def _judge(self, found: Round, now_s: float) -> bool:
        """Judge the next effect by the round. After the last effect, decide whether the stage or the rollout
        ends.
        """
        if self._next_effect < self.evidence.effects.size:
            self.evidence.take(found, self._next_effect)
            self._next_effect += 1
            return False
        self._judged, self.changed = None, True
        self._rounds += 1
        units = 1 if found.together else max(found.logs.shape[0], 1)
        if self._shown:
            self._power.take(found, max(_DRAWS // units, 1))
        self._difference += _difference(found)
        lower, upper = self.evidence.lower, self.evidence.upper
        elapsed_s = now_s - self._stage_began_s
        if upper is not None and upper <= 0:
            return self._finish("harm")
        safe = lower is not None and lower >= self.plan.excluded(self.stage)
        if not safe or elapsed_s < self.plan.stage_min_s:
            return self._finish("undecided") if elapsed_s >= self.plan.stage_max_s else False
        self._enter(self.stage + 1, now_s)
        if self.stage == len(STAGES) - 1:
            self.end = "done"
        return True

    def _enter(self, stage: int, now_s: float) -> None:
        plan = self.plan
        self._block = int(now_s // plan.block_s)
        self._begin = first = self._block + 1
        self._trial = StageTrial(
            "rollout", 0.0, plan.block_s, plan.washout_s, plan.arm, plan.seed, stage, first,
            plan.units == "prefixes",
        )  # fmt: skip
        self._stage_began_s = now_s
        self._rounds = 0
        self._sums = _Sums(STAGES[stage].blocks)
        self._judged = None
        self._next_effect = 0
        self._power = Power(REFERENCE, plan.seed + stage)
        self.changed = True

    def _finish(self, end: End) -> bool:
        self.end, self._judged, self.changed = end, None, True
        return True

    @property
    def settled(self) -> bool:
        """Whether `arrays` and `words` hold the whole state. They do, unless a round is being judged."""
        return self._judged is None

    def arrays(self) -> dict[str, np.ndarray]:
        """The state as arrays that the caller may keep. `restored` takes them together with the result of
        `words`.
        """
        sums = {"units": self._sums.units, "acked": self._sums.acked, "busy_s": self._sums.busy_s}
        found = {**self.evidence.arrays(), **sums, "difference": self._difference, "power": self._power.seen}
        return {name: array.copy() for name, array in found.items()}

    @classmethod
    def restored(cls, words: Mapping[str, object], arrays: Mapping[str, np.ndarray]) -> Rollout:
        """Restore a rollout from the results of its `words` and `arrays`. Raises `ValueError` or `KeyError`
        if they do not fit.
        """
        made = cls(_plan(words["plan"]), _real(words, "began_s"))
        made._enter(_whole(words, "stage", len(STAGES) - 1), _real(words, "stage_began_s"))
        blocks = STAGES[made.stage].blocks
        made._trial = replace(made._trial, first=_whole(words, "first", 2**62))
        made._begin = _whole(words, "begin", 2**62)
        made._rounds = _whole(words, "rounds", 2**62)
        end = words["end"]
        if end is not None and end not in get_args(End):
            raise ValueError(f"the end is {end!r}")
        made.end = cast("End | None", end)
        made.evidence.restore(arrays)
        units, acked, busy_s, difference = (
            arrays[name] for name in ("units", "acked", "busy_s", "difference")
        )
        shapes = [(units.size,), (units.size, blocks), (units.size, blocks), (2,)]
        if [part.shape for part in (units, acked, busy_s, difference)] != shapes:
            raise ValueError(f"sums of shape {acked.shape} for {units.size} prefixes and {blocks} blocks")
        made._difference = np.array(difference, np.float64)
        made._power.seen = arrays["power"]
        made._sums = _Sums(blocks, np.array(units, np.uint64))
        made._sums.acked, made._sums.busy_s = (np.array(part, np.float64) for part in (acked, busy_s))
        return made

    def words(self) -> dict[str, object]:
        """The plan and the progress of the rollout, for JSON."""
        return {
            "plan": asdict(self.plan), "began_s": self.began_s, "stage": self.stage,
            "first": self._trial.first, "begin": self._begin, "stage_began_s": self._stage_began_s,
            "rounds": self._rounds, "end": self.end,
        }  # fmt: skip


def _whole(words: Mapping[str, object], name: str, most: int) -> int:
    value = words[name]
    if type(value) is not int or not 0 <= value <= most:
        raise ValueError(f"{name} is {value!r}, not a whole number from 0 to {most}")
    return value


def _real(words: Mapping[str, object], name: str) -> float:
    value = words[name]
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError(f"{name} is {value!r}, not a number")
    return float(value)


def _plan(words: object) -> Plan:
    if not isinstance(words, dict) or words.get("units") not in get_args(Units):
        raise ValueError(f"the plan is {words!r}")
    numbers = {
        name: _real(words, name)
        for name in ("block_s", "washout_s", "tolerance", "stage_min_s", "stage_max_s")
    }
    if not 0 < numbers["block_s"] < math.inf:
        raise ValueError(f"block_s is {numbers['block_s']}")
    return Plan(words["units"], _whole(words, "seed", 2**64), arm=_whole(words, "arm", 255), **numbers)


def _difference(found: Round) -> Floats:
    """Return the sum over the units of the mean value in treated blocks minus the mean value in other blocks,
    and the number of these units, shape (2,). Units without both kinds of blocks are left out.
    """
    values, treated = found.values()
    known = np.isfinite(values)
    sums = [np.where(known & part, values, 0.0).sum(axis=1) for part in (treated, ~treated)]
    counts = [(known & part).sum(axis=1) for part in (treated, ~treated)]
    both = (counts[0] > 0) & (counts[1] > 0)
    differences = sums[0][both] / counts[0][both] - sums[1][both] / counts[1][both]
    return np.array([differences.sum(), both.sum()], np.float64)
