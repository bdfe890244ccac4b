# SPDX-License-Identifier: Apache-2.0
"""The daemon's gain on this server's traffic, from the log of decisions.

In mode active an experiment tells it: treated units against control units. Mode advise changes nothing.
There, flows that happened to run the advised arm are compared with others, which is an estimate only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ltp_switcher.arrays import Bools, Floats, Indices
from ltp_switcher.daemon.gain.columns import Columns
from ltp_switcher.daemon.gain.effect import Effect, difference, drawn, mean, numbered, within
from ltp_switcher.daemon.gain.log import Skipped
from ltp_switcher.daemon.gain.rows import Group, Kind, Rows

RATIOS: Final = ("goodput", "rtt_p95", "completion_time")
"""Measures whose effect is a relative change."""
MEASURES: Final = (*RATIOS, "retransmits")
"""`retransmits` is a share of the packets, and its effect a difference of shares."""
_SAMPLES_AT_ONCE: Final = 1 << 18
"""RTT samples that are sorted together: all of them would take 16 bytes each."""
_HALF: Final = np.uint64(32)
"""Bits of a number in a pair of numbers that is sorted as one."""
PREFIXES_MAX: Final = 20
"""Prefixes that a report tells of, those with the most data first."""
AGREES: Final = 0.9
"""A prefix whose traffic ran the advised arm for this share of its time has nothing to gain."""


@dataclass(frozen=True, slots=True)
class ArmUse:
    """What flows of an arm had, with the ends of 95 % intervals, or None.

    Geometric means over prefixes; of retransmits, which may be 0, arithmetic ones.
    """

    share: float
    """Share of all bytes acknowledged."""
    goodput_Bps: tuple[float, float, float] | None  # noqa: N815 - B is bytes
    rtt_p95_us: tuple[float, float, float] | None
    retransmits: tuple[float, float, float] | None
    completion_time_s: tuple[float, float, float] | None


@dataclass(frozen=True, slots=True)
class Advice:
    """How the advice for a prefix and its traffic compare, in mode advise."""

    agreed: float
    """Share of the time in which the flows ran the advised arm."""
    expected: Effect | None
    """Reward of flows that ran the advised arm, less the others': an estimate. None where there are too
    few."""
    verdict: str


@dataclass(frozen=True, slots=True)
class Report:
    """The gain by measure, overall and by prefix; the use of arms; the advice by prefix."""

    design: str
    decisions: int
    overall: Mapping[str, Effect | None]
    prefixes: Mapping[str, Mapping[str, Effect | None]]
    arms: Mapping[str, ArmUse]
    agreed: tuple[float, float, float] | None
    advice: Mapping[str, Advice]
    skipped: Skipped
    """What could not be read of the log."""


def report(
    rows: Rows | Columns, names: Mapping[int, str], since_s: float = 0.0, skipped: Skipped | None = None
) -> Report:
    """The report of logged decisions from Unix time `since_s` on.

    Args:
        rows: rows of the whole log, in the order of writing, shape (n,). Those from before an experiment
            tell how its prefixes differ.
        names: names of the arms by id.
        since_s: decisions before this time count for nothing else.
        skipped: what could not be read.
    """
    log = _Log(rows if isinstance(rows, Columns) else Columns.of(rows))
    counts = log.rows.time_s >= since_s
    group, block = log.rows.group, log.rows.block
    trial = np.flatnonzero(counts & log.rows.active & np.isin(group, (Group.TREATED, Group.CONTROL)))
    # After another design was set, the latest one counts.
    switchback = bool(trial.size) and bool(block[trial[-1]] >= 0)
    trial = trial[(block[trial] >= 0) == switchback]
    design = "none" if not trial.size else "switchback" if switchback else "holdback"
    units = _Units(log, trial, None if switchback else _before(log))
    del trial
    largest = units.largest_prefixes() if switchback else []
    agreed, advice = _advice(log, np.flatnonzero(counts & ~log.rows.active))
    return Report(
        design=design,
        decisions=int(np.count_nonzero(counts)),
        overall=units.effects(slice(None), switchback=switchback),
        prefixes={log.names[at]: units.effects(units.of(at), switchback=True) for at in largest},
        arms=_arms(log, counts, names),
        agreed=mean(agreed),
        advice=advice,
        skipped=skipped or Skipped(),
    )


class _Log:
    """The rows of a log with the numbers of their prefixes, which are in the order of the names."""

    def __init__(self, rows: Columns) -> None:
        self.rows = rows
        known = list(rows.prefixes)
        order = sorted(range(len(known)), key=known.__getitem__)
        self.names = [known[number].decode() for number in order]
        rank = np.empty(len(order), np.int32)
        rank[order] = np.arange(len(order), dtype=np.int32)
        self.prefix = rank[rows.prefix]
        """Place of each row's prefix in `names`, shape (n,)."""
        self._begins = np.cumsum(rows.samples, dtype=np.uint32)
        self._begins -= rows.samples

    def measures(self, at: Indices, unit: Indices, count: int) -> dict[str, Floats]:
        """The measures of units, shape (count,) each, as logarithms of those in `RATIOS`; NaN where
        unmeasured.

        Args:
            at: rows, shape (m,).
            unit: the unit of each, shape (m,).
            count: number of units.
        """

        def total(values: NDArray[np.generic]) -> Floats:
            return np.asarray(np.bincount(unit, values, count), np.float64)

        rows = self.rows
        life_s = rows.life_s[at].astype(np.float64)
        ended = rows.ended[at] & (life_s > 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            goodput_Bps = total(rows.acked_bytes[at]) / total(rows.busy_s[at])
            return {
                "goodput": np.where(goodput_Bps > 0, np.log(goodput_Bps), np.nan),
                "rtt_p95": np.log(self._rtt_us(at, unit, count, 0.95)),
                "completion_time": total(np.log(np.where(ended, life_s, 1.0))) / total(ended),
                "retransmits": total(rows.retrans[at]) / total(rows.delivered[at]),
            }

    def _rtt_us(self, at: Indices, unit: Indices, count: int, share: float) -> Floats:
        """The quantile of each unit's RTT samples, shape (count,); NaN without a sample."""
        samples, rtt_us = self.rows.samples[at], self.rows.rtt_us
        found = np.full(count, np.nan)
        # Sorting numbers takes a tenth of the time of finding their order.
        keys = unit.astype(np.uint64) << _HALF | np.arange(unit.size, dtype=np.uint64)
        keys.sort()
        order = keys.astype(np.uint32)
        del keys
        ends = np.cumsum(np.bincount(unit, minlength=count), dtype=np.uint32)
        samples_until = np.cumsum(np.bincount(unit, samples, count), dtype=np.uint32)
        first = 0
        while first < count:
            # Some units with all their rows.
            before = int(samples_until[first - 1]) if first else 0
            last = max(int(np.searchsorted(samples_until, before + _SAMPLES_AT_ONCE, "right")), first + 1)
            mine = order[ends[first - 1] if first else 0 : ends[last - 1]]
            n = samples[mine]
            ahead = np.cumsum(n, dtype=np.int64) - n
            places = np.repeat(self._begins[at[mine]] - ahead, n)
            places += np.arange(places.size)
            # Positive floats keep their order when read as whole numbers.
            keys = np.repeat(unit[mine].astype(np.uint64) << _HALF, n)
            keys |= rtt_us[places].view(np.uint32)
            keys.sort()
            values = keys.astype(np.uint32).view(np.float32).astype(np.float64)
            begins = np.concatenate([[before], samples_until[first:last]]).astype(np.int64) - before
            part = begins[1:] - begins[:-1]
            place = begins[:-1] + share * np.maximum(part - 1, 0)
            below, above = place.astype(np.int64), np.ceil(place).astype(np.int64)
            has = part > 0
            low, high = values[below[has]], values[above[has]]
            found[first:last][has] = low + (place - below)[has] * (high - low)
            first = last
        return found


def _before(log: _Log) -> Indices:
    """The rows of the daemon's decisions, or its advice, from before the log's first experiment."""
    rows = log.rows
    in_trial = rows.active & (rows.group != Group.NONE)
    begin_s = rows.time_s[in_trial].min(initial=np.inf)
    free = ~rows.active | np.isin(rows.kind, (Kind.CHOSEN, Kind.EXPLORED, Kind.VISIT))
    earlier = rows.time_s + rows.duration_s <= begin_s
    return np.flatnonzero(earlier & (rows.group == Group.NONE) & free)


class _Units:
    """The independent units of an experiment: a prefix in a time block, or over all time."""

    def __init__(self, log: _Log, trial: Indices, before: Indices | None) -> None:
        blocks, block = numbered(log.rows.block[trial])
        block += log.prefix[trial].astype(np.int64) * max(blocks.size, 1)
        keys, unit = numbered(block)
        del block
        self.count = keys.size
        self.prefix = (keys // max(blocks.size, 1)).astype(np.int32)
        """Place of each unit's prefix in `names`, ascending, shape (count,)."""
        self._block = blocks[keys % max(blocks.size, 1)].astype(np.int32)
        del keys
        self._treated = np.zeros(self.count, np.bool_)
        self._treated[unit] = log.rows.group[trial] == Group.TREATED
        self._bytes = np.bincount(log.prefix[trial], log.rows.acked_bytes[trial], len(log.names))
        self._values = log.measures(trial, unit, self.count)
        self._before: Mapping[str, Floats] = {}
        if before is not None and before.size and self.count:
            # In a holdback, units are prefixes.
            unit_of = np.full(len(log.names), -1)
            unit_of[self.prefix] = np.arange(self.count)
            before = before[unit_of[log.prefix[before]] >= 0]
            self._before = log.measures(before, unit_of[log.prefix[before]], self.count)

    def largest_prefixes(self) -> list[int]:
        """The numbers of the prefixes with the most data."""
        prefixes, _ = numbered(self.prefix)
        largest = np.argsort(-self._bytes[prefixes], kind="stable")
        return [int(prefixes[place]) for place in largest[:PREFIXES_MAX]]

    def of(self, prefix: int) -> slice:
        """The units of a prefix, which stand together."""
        return slice(*np.searchsorted(self.prefix, (prefix, prefix + 1)).tolist())

    def effects(self, which: slice, *, switchback: bool) -> dict[str, Effect | None]:
        """The effect on each measure over these units."""
        return {name: self._effect(name, which, switchback=switchback) for name in MEASURES}

    def _effect(self, name: str, which: slice, *, switchback: bool) -> Effect | None:
        known = np.isfinite(self._values[name][which])
        if not known.any():
            return None
        # Without a copy where nothing is missing.
        part = ... if known.all() else known
        values, treated = self._values[name][which][part], self._treated[which][part]
        if switchback:
            _, prefix = numbered(self.prefix[which][part])
            found = within(values, treated, self._block[which][part], prefix)
        else:
            before = self._before.get(name)
            found = drawn(values, treated, None if before is None else before[which][part])
        if found is None or name not in RATIOS:
            return found
        value, lower, upper = np.expm1((found.value, found.lower, found.upper)).tolist()
        return Effect(value, lower, upper, found.treated, found.control)


def _arms(log: _Log, counts: Bools, names: Mapping[int, str]) -> dict[str, ArmUse]:
    rows = log.rows
    sent = rows.acked_bytes[counts].sum()
    found = {}
    for arm in np.unique(rows.ran[counts]).tolist():
        of = np.flatnonzero(counts & (rows.ran == arm))
        prefixes, unit = numbered(log.prefix[of])
        values = log.measures(of, unit, prefixes.size)
        goodput_Bps, rtt_p95_us, completion_time_s = (_typical(values[name]) for name in RATIOS)
        retransmits = mean(values["retransmits"][np.isfinite(values["retransmits"])])
        found[names.get(arm, str(arm))] = ArmUse(
            float(rows.acked_bytes[of].sum() / max(sent, 1.0)),
            goodput_Bps, rtt_p95_us, retransmits, completion_time_s,
        )  # fmt: skip
    return found


def _typical(logs: Floats) -> tuple[float, float, float] | None:
    """The geometric mean with its interval: among prefixes that differ a thousandfold, not that of a few."""
    found = mean(logs[np.isfinite(logs)])
    if found is None:
        return None
    value, lower, upper = np.exp(found).tolist()
    return value, lower, upper


def _advice(log: _Log, at: Indices) -> tuple[Floats, dict[str, Advice]]:
    """The agreement with the advice by prefix, shape (prefixes,); and the advice for those with most data.

    `at`: rows of advice, shape (m,).
    """
    rows = log.rows
    prefixes, unit = numbered(log.prefix[at])
    time_s = rows.duration_s[at].astype(np.float64)
    followed_s = np.bincount(unit, time_s * (rows.arm[at] == rows.ran[at]), prefixes.size)
    agreed: Floats = followed_s / np.maximum(np.bincount(unit, time_s, prefixes.size), 1e-9)
    order = np.argsort(-np.bincount(unit, rows.acked_bytes[at], prefixes.size), kind="stable")
    return agreed, {
        log.names[prefixes[place]]: _advice_of(rows, at[unit == place], float(agreed[place]))
        for place in order[:PREFIXES_MAX].tolist()
    }


def _advice_of(rows: Columns, at: Indices, agreed: float) -> Advice:
    """The advice for a prefix with these rows, shape (m,)."""
    followed, reward = rows.arm[at] == rows.ran[at], rows.reward[at].astype(np.float64)
    # All decisions of a flow share its luck.
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
