# SPDX-License-Identifier: Apache-2.0
"""The daemon's gain on this server's traffic, from the log of decisions.

In mode active the gain comes from an experiment. It compares treated units, which have the daemon's choices,
with control units, which stay on a baseline arm. Mode advise changes no arm. There, flows that happened to
run the advised arm are compared with other flows, which gives only an estimate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import EllipsisType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltp_switcher.arrays import Bools, Float32s, Floats, Indices, Int32s, Ints, UInt32s
from ltp_switcher.daemon.gain import flows, value
from ltp_switcher.daemon.gain.columns import Columns
from ltp_switcher.daemon.gain.effect import Effect, Switchback, difference, drawn, mean, numbered
from ltp_switcher.daemon.gain.log import Skipped
from ltp_switcher.daemon.gain.outcomes import OutcomeRows
from ltp_switcher.daemon.gain.rows import Group, Kind, Rows

RATIOS: Final = ("goodput", "rtt_p95", "completion_time", "reward")
"""Measures whose effect is a relative change. The logarithm of the reward is the value of flows (`value.of`).
"""
MEASURES: Final = (*RATIOS, "retransmits")
"""All measures. `retransmits` is a share of the packets, and its effect is a difference of shares."""
_ROWS_AT_ONCE: Final = 1 << 14
"""Number of rows that are processed together. With it, the intermediate results take little memory."""
_PAIR: Final = np.dtype([("second", "<u4"), ("first", "<u4")])
"""Type of a pair of numbers. Its eight bytes, read as one number, sort by the first number, and then by the
second.
"""
PREFIXES_MAX: Final = 20
"""Largest number of prefixes in a report. The prefixes with the most data are taken."""
AGREES: Final = 0.9
"""If a prefix's flows spend at least this share of their time on the advised arm, the prefix has nothing to
gain from the advice.
"""


@dataclass(frozen=True, slots=True)
class ArmUse:
    """Measures of an arm's flows. Each has its mean and the ends of the mean's 95 % interval, or is None.

    A mean is a geometric mean over prefixes. Only for retransmits, which may be 0, it is an arithmetic mean.
    """

    share: float
    """The arm's share of all acknowledged bytes."""
    goodput_Bps: tuple[float, float, float] | None  # noqa: N815 - B is bytes
    rtt_p95_us: tuple[float, float, float] | None
    retransmits: tuple[float, float, float] | None
    completion_time_s: tuple[float, float, float] | None


@dataclass(frozen=True, slots=True)
class Advice:
    """A comparison of the daemon's advice for a prefix with the arms that the prefix's flows ran, in mode
    advise.
    """

    agreed: float
    """Share of the time in which flows ran the advised arm."""
    expected: Effect | None
    """Estimated reward of flows on the advised arm, less the reward of other flows; None if there are too few
    flows.
    """
    verdict: str


@dataclass(frozen=True, slots=True)
class Report:
    """The gain by measure, overall and by prefix; the use of the arms; and the advice by prefix. `MEASURES`
    has the measures.
    """

    design: str
    decisions: int
    overall: Mapping[str, Effect | None]
    prefixes: Mapping[str, Mapping[str, Effect | None]]
    arms: Mapping[str, ArmUse]
    agreed: tuple[float, float, float] | None
    advice: Mapping[str, Advice]
    skipped: Skipped
    """Counts of the parts of the log that could not be read."""
    flow_reward: Mapping[str, Effect | None]
    """The relative change of a flow's reward: first for all flows (`flows.ALL`), then for each size class.
    Empty without outcomes.
    """


def report(
    rows: Rows | Columns, names: Mapping[int, str], since_s: float = 0.0, skipped: Skipped | None = None,
    outcomes: OutcomeRows | None = None,
) -> Report:  # fmt: skip
    """Make the report of logged decisions from Unix time `since_s` on.

    Args:
        rows: rows of the whole log, in the order of writing, shape (n,). Rows from before an experiment show
            how its prefixes differ.
        names: names of the arms by id.
        since_s: Unix time. Earlier decisions only show how prefixes differ.
        skipped: counts of the parts of the log that could not be read.
        outcomes: the flows' outcomes, as `flows.effects` takes them; None without a log of outcomes.
    """
    log = _Log(rows if isinstance(rows, Columns) else Columns.of(rows))
    counts = log.rows.time_s >= since_s
    group, block = log.rows.group, log.rows.block
    trial = _rows_where(counts & log.rows.active & np.isin(group, (Group.TREATED, Group.CONTROL)))
    # After a change of the design, the latest design counts.
    switchback = bool(trial.size) and bool(block[trial[-1]] >= 0)
    trial = trial[(block[trial] >= 0) == switchback]
    design = "none" if not trial.size else "switchback" if switchback else "holdback"
    units = _Units(log, trial, None if switchback else _before(log))
    del trial
    largest = units.largest_prefixes() if switchback else []
    agreed, advice = _advice(log, _rows_where(counts & ~log.rows.active))
    overall, *of_largest = units.effects([slice(None), *map(units.of, largest)])
    return Report(
        design=design,
        decisions=int(np.count_nonzero(counts)),
        overall=overall,
        prefixes=dict(zip((log.names[at] for at in largest), of_largest, strict=True)),
        arms=_arms(log, counts, names),
        agreed=mean(agreed),
        advice=advice,
        skipped=skipped or Skipped(),
        flow_reward={} if outcomes is None else flows.effects(outcomes, since_s),
    )


def _sorted_pairs(first: UInt32s, second: UInt32s) -> NDArray[np.void]:
    """Return pairs of numbers, sorted by the first number and, where the first numbers are equal, by the
    second.
    """
    pairs = np.empty(first.size, _PAIR)
    pairs["first"], pairs["second"] = first, second
    # Sorting numbers takes a tenth of the time of finding their order.
    pairs.view("<u8").sort()
    return pairs


class _Groups:
    """Rows of a log by the unit that each belongs to.

    Args:
        rows: rows of the log, shape (m,).
        keys: the number of each row's unit, 0 or above, shape (m,).
    """

    def __init__(self, rows: UInt32s, keys: NDArray[np.integer]) -> None:
        if int(keys.max(initial=0)) > np.iinfo(np.uint32).max:
            _, keys = numbered(keys)
        pairs = _sorted_pairs(keys.astype(np.uint32), np.arange(keys.size, dtype=np.uint32))
        key, place = pairs["first"], pairs["second"]
        last = np.append(key[1:] != key[:-1], True)[: key.size]
        self.ends = (np.flatnonzero(last) + 1).astype(np.uint32)
        """End of each unit's rows in `ordered`, one place behind the last row, shape (count,). The units are
        in the order of their keys.
        """
        self.ordered: UInt32s = rows[place]
        """Rows of the log, shape (m,): first the rows of the first unit in the log's order, then the rows of
        the second unit, and so on.
        """
        self._rows = rows
        self._unit = np.empty(keys.size, np.int32)
        self._unit[place] = np.cumsum(last, dtype=np.int32) - last

    @property
    def count(self) -> int:
        """The number of units."""
        return self.ends.size

    @property
    def last(self) -> UInt32s:
        """The last row of each unit, shape (count,)."""
        found: UInt32s = self.ordered[self.ends - np.uint32(1)]
        return found

    def total(self, values: Callable[[UInt32s], NDArray[np.generic]]) -> Floats:
        """Return the sum of a value over each unit's rows, shape (count,). `values` returns the values of
        some rows.
        """
        found = np.zeros(self.count)
        for begin in range(0, self._rows.size, _ROWS_AT_ONCE):
            part = slice(begin, begin + _ROWS_AT_ONCE)
            np.add.at(found, self._unit[part].astype(np.intp), values(self._rows[part]).astype(np.float64))
        return found

    def pieces(self) -> Iterator[tuple[slice, UInt32s, Indices]]:
        """Yield some units at a time: a slice of the units, their rows, and the index of each unit's first
        row among these rows.
        """
        first = begin = 0
        while first < self.count:
            last = max(int(np.searchsorted(self.ends, begin + _ROWS_AT_ONCE, "right")), first + 1)
            ends = self.ends[first:last].astype(np.int64) - begin
            size = int(ends[-1])
            yield slice(first, last), self.ordered[begin : begin + size], np.append(0, ends[:-1])
            first, begin = last, begin + size


def _rows_where(chosen: Bools) -> UInt32s:
    """Return the indices of the chosen rows as 32-bit numbers, which take half of the memory of numpy's own
    indices.
    """
    return np.flatnonzero(chosen).astype(np.uint32)


class _Log:
    """The rows of a log. `names` has the prefixes in sorted order, and the number of a prefix is its place
    there.
    """

    def __init__(self, rows: Columns) -> None:
        self.rows = rows
        known = list(rows.prefixes)
        order = sorted(range(len(known)), key=known.__getitem__)
        self.names = [known[number].decode() for number in order]
        self._rank = np.empty(len(order), np.int32)
        self._rank[order] = np.arange(len(order), dtype=np.int32)

    def prefix(self, at: UInt32s) -> Int32s:
        """Return the places in `names` of these rows' prefixes, shape (m,)."""
        return np.asarray(self._rank[self.rows.prefix[at]], np.int32)

    def measure(self, name: str, groups: _Groups) -> Floats:
        """Return a measure of units, shape (count,); NaN where it is not known. A measure in `RATIOS` is
        returned as a logarithm.
        """
        rows, total = self.rows, groups.total
        with np.errstate(divide="ignore", invalid="ignore"):
            if name == "goodput":
                goodput_Bps = self.sent_bytes(groups)
                goodput_Bps /= total(lambda at: rows.busy_s[at])
                goodput_Bps[~(goodput_Bps > 0)] = np.nan
                return np.log(goodput_Bps, out=goodput_Bps)
            if name == "rtt_p95":
                rtt_us = self._rtt_us(groups, 0.95)
                return np.log(rtt_us, out=rtt_us)
            if name == "reward":
                busy_s, rtt_us = total(lambda at: rows.busy_s[at]), total(self._rtt_sum_us)
                lost, delivered = total(lambda at: rows.lost[at]), total(lambda at: rows.delivered[at])
                rtt_us /= total(lambda at: rows.samples[at])
                return value.of(self.sent_bytes(groups), busy_s, lost, delivered, rtt_us)
            if name == "completion_time":
                ended = total(lambda at: rows.ended[at] & (rows.life_s[at] > 0))
                return total(self._log_life) / ended
            return total(lambda at: rows.retrans[at]) / total(lambda at: rows.delivered[at])

    def sent_bytes(self, groups: _Groups) -> Floats:
        """The bytes of each unit that were acknowledged, shape (count,)."""
        return groups.total(lambda at: self.rows.acked_bytes[at])

    def _log_life(self, at: UInt32s) -> Floats:
        """Return the logarithm of the life in seconds of flows that ended with these rows, shape (m,); 0 for
        all other rows.
        """
        life_s = self.rows.life_s[at].astype(np.float64)
        return np.log(np.where(self.rows.ended[at] & (life_s > 0), life_s, 1.0))

    @cached_property
    def _first_sample(self) -> UInt32s:
        """The place of each row's first RTT sample, shape (n,)."""
        first = np.cumsum(self.rows.samples, dtype=np.uint32)
        first -= self.rows.samples
        return first

    def _samples(self, at: UInt32s) -> tuple[Ints, Float32s]:
        """Return the number of RTT samples of each of these rows, shape (m,), and all the samples in µs, row
        by row.
        """
        n = self.rows.samples[at].astype(np.int64)
        places = np.repeat(self._first_sample[at] - (np.cumsum(n) - n), n)
        places += np.arange(places.size)
        return n, self.rows.rtt_us[places]

    def _rtt_sum_us(self, at: UInt32s) -> Floats:
        """Return the sum of each of these rows' RTT samples in µs, shape (m,)."""
        n, rtt_us = self._samples(at)
        return np.asarray(np.bincount(np.repeat(np.arange(n.size), n), rtt_us, n.size), np.float64)

    def _rtt_us(self, groups: _Groups, share: float) -> Floats:
        """Return the quantile `share` (0 to 1) of each unit's RTT samples in µs, shape (count,); NaN without
        a sample.
        """
        found = np.full(groups.count, np.nan)
        for units, at, begins in groups.pieces():
            n, rtt_us = self._samples(at)
            part = np.add.reduceat(n, begins)
            # Positive floats keep their order when read as whole numbers.
            unit = np.repeat(np.arange(part.size, dtype=np.uint32), part)
            sorted_us = _sorted_pairs(unit, rtt_us.view(np.uint32))["second"].view(np.float32)
            place = np.cumsum(part) - part + share * np.maximum(part - 1, 0)
            below, above = place.astype(np.int64), np.ceil(place).astype(np.int64)
            has = part > 0
            low, high = (sorted_us[end[has]].astype(np.float64) for end in (below, above))
            found[units][has] = low + (place - below)[has] * (high - low)
        return found


def _before(log: _Log) -> UInt32s:
    """Return the rows from before the log's first experiment in which the daemon decided, or advised."""
    rows = log.rows
    in_trial = rows.active & (rows.group != Group.NONE)
    begin_s = rows.time_s[in_trial].min(initial=np.inf)
    free = ~rows.active | np.isin(rows.kind, (Kind.CHOSEN, Kind.EXPLORED, Kind.VISIT))
    earlier = rows.time_s + rows.duration_s <= begin_s
    return _rows_where(earlier & (rows.group == Group.NONE) & free)


class _Units:
    """The units of an experiment: in a switchback, a prefix in a time block, and in a holdback, a prefix over
    all time.

    Args:
        log: the log.
        trial: rows of the experiment, shape (m,).
        before: rows from before it, if it is a holdback; None for a switchback.
    """

    def __init__(self, log: _Log, trial: UInt32s, before: UInt32s | None) -> None:
        self._log = log
        blocks, block = numbered(log.rows.block[trial])
        keys = log.prefix(trial).astype(np.int64)
        keys *= max(blocks.size, 1)
        keys += block
        del block
        self._groups = _Groups(trial, keys)
        del keys
        last = self._groups.last
        self.prefix = log.prefix(last)
        """Place of each unit's prefix in `names`, ascending, shape (count,)."""
        self._block = log.rows.block[last]
        self._treated = log.rows.group[last] == Group.TREATED
        self._before = None if before is None else _Groups(before, log.prefix(before))

    def largest_prefixes(self) -> list[int]:
        """Return the numbers of the `PREFIXES_MAX` prefixes with the most data, the largest first."""
        prefixes, number = numbered(self.prefix)
        sent = np.bincount(number, self._log.sent_bytes(self._groups))
        return [int(prefixes[place]) for place in np.argsort(-sent, kind="stable")[:PREFIXES_MAX]]

    def of(self, prefix: int) -> slice:
        """Return the units of a prefix, which are next to each other."""
        return slice(*np.searchsorted(self.prefix, (prefix, prefix + 1)).tolist())

    def effects(self, parts: Sequence[slice]) -> list[dict[str, Effect | None]]:
        """Return the effect on each measure, for each of these parts of the units."""
        found: list[dict[str, Effect | None]] = [{} for _ in parts]
        # Most measures are known for all units of a part. For these, the levels of the treatment are computed
        # once.
        whole = [self._switchback(part) for part in parts]
        # The measures come one by one. There may be as many units as rows, so all at once would take much
        # memory.
        for name in MEASURES:
            values = self._log.measure(name, self._groups)
            if name == "reward":
                self._lift(values)
            known = np.isfinite(values)
            before = self._values_before(name)
            for part, cells, effects in zip(parts, whole, found, strict=True):
                if before is not None:
                    effect = drawn(values[known], self._treated[known], before[known])
                elif known[part].all():
                    effect = cells.effect(values[part])
                else:
                    effect = self._switchback(part, known[part]).effect(values[part][known[part]])
                if effect is not None and name in RATIOS:
                    value, lower, upper = np.expm1((effect.value, effect.lower, effect.upper)).tolist()
                    effect = Effect(value, lower, upper, effect.treated, effect.control)
                effects[name] = effect
        return found

    def _lift(self, values: Floats) -> None:
        """Give a value to units whose losses leave no reward: `CLIP` below the mean of the units beside them.
        These are the units of the same prefix in a switchback, and all units in a holdback.

        `values` has the logarithm of each unit's reward, shape (count,), and -inf if there is none. It is
        changed in place. If no unit beside has a finite value, the unit gets NaN.
        """
        of = self.prefix if self._before is None else np.zeros_like(self.prefix)
        finite, nothing = np.isfinite(values), np.isneginf(values)
        size = int(of.max(initial=-1)) + 1
        counts = np.bincount(of[finite], minlength=size)
        sums = np.bincount(of[finite], values[finite], size)
        means = np.divide(sums, counts, out=np.full(size, np.nan), where=counts > 0)
        values[nothing] = means[of[nothing]] - value.CLIP

    def _switchback(self, part: slice, known: Bools | EllipsisType = ...) -> Switchback:
        """Make cells of the known units in this part; by default all of them are known."""
        _, prefix = numbered(self.prefix[part][known])
        return Switchback(self._treated[part][known], self._block[part][known], prefix)

    def _values_before(self, name: str) -> Floats | None:
        """Return each unit's measure from before a holdback, shape (count,); NaN where it is not known. None
        for a switchback.
        """
        if self._before is None:
            return None
        of_prefix = np.full(len(self._log.names), np.nan)
        values = self._log.measure(name, self._before)
        of_prefix[self._log.prefix(self._before.last)] = np.where(np.isfinite(values), values, np.nan)
        return of_prefix[self.prefix]


def _arms(log: _Log, counts: Bools, names: Mapping[int, str]) -> dict[str, ArmUse]:
    """Measures of each arm's flows, by the arm's name."""
    rows = log.rows
    sent = rows.acked_bytes[counts].sum()
    found = {}
    for arm in np.unique(rows.ran[counts]).tolist():
        of = _rows_where(counts & (rows.ran == arm))
        groups = _Groups(of, log.prefix(of))
        goodput_Bps, rtt_p95_us, completion_time_s = (
            _typical(log.measure(name, groups)) for name in ("goodput", "rtt_p95", "completion_time")
        )
        retransmits = log.measure("retransmits", groups)
        found[names.get(arm, str(arm))] = ArmUse(
            float(rows.acked_bytes[of].sum() / max(sent, 1.0)),
            goodput_Bps, rtt_p95_us, mean(retransmits[np.isfinite(retransmits)]), completion_time_s,
        )  # fmt: skip
    return found


def _typical(logs: Floats) -> tuple[float, float, float] | None:
    """Return the geometric mean and the ends of its interval, from logarithms by prefix. Prefixes differ a
    thousandfold, and a few of them would decide an arithmetic mean.
    """
    found = mean(logs[np.isfinite(logs)])
    if found is None:
        return None
    value, lower, upper = np.exp(found).tolist()
    return value, lower, upper


def _advice(log: _Log, at: UInt32s) -> tuple[Floats, dict[str, Advice]]:
    """Return the agreement with the advice by prefix, shape (prefixes,), and the advice for the prefixes with
    the most data.

    `at` has the indices of the rows of advice, shape (m,).
    """
    rows = log.rows
    prefixes, unit = numbered(log.prefix(at))
    time_s = rows.duration_s[at].astype(np.float64)
    followed_s = np.bincount(unit, time_s * (rows.arm[at] == rows.ran[at]), prefixes.size)
    agreed: Floats = followed_s / np.maximum(np.bincount(unit, time_s, prefixes.size), 1e-9)
    order = np.argsort(-np.bincount(unit, rows.acked_bytes[at], prefixes.size), kind="stable")
    return agreed, {
        log.names[prefixes[place]]: _advice_of(rows, at[unit == place], float(agreed[place]))
        for place in order[:PREFIXES_MAX].tolist()
    }


def _advice_of(rows: Columns, at: UInt32s, agreed: float) -> Advice:
    """Compare the advice for a prefix with its flows' arms. `at` has the indices of the prefix's rows, shape
    (m,).
    """
    followed, reward = rows.arm[at] == rows.ran[at], rows.reward[at].astype(np.float64)
    # The rewards of a flow's decisions depend on each other, so each flow counts once for each choice of arm.
    known = np.isfinite(reward)
    flows, unit = np.unique(rows.cookie[at][known] * 2 + followed[known], return_inverse=True)
    earned = np.bincount(unit, reward[known], flows.size) / np.maximum(np.bincount(unit), 1)
    expected = difference(earned, flows % 2 == 1) if flows.size else None
    if agreed >= AGREES:
        verdict = "ready: it agrees with the running protocol"
    elif expected is None:
        verdict = "not known: too few flows ran the advised protocol"
    elif expected.lower > 0:
        verdict = "ready: flows that ran the advised protocol earned more"
    elif expected.upper < 0:
        verdict = "not ready: flows that ran the advised protocol earned less"
    else:
        verdict = "not known: the interval holds 0"
    return Advice(agreed, expected, verdict)
