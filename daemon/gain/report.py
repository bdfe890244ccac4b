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

from ltp_switcher.arrays import Bools, Floats, Indices
from ltp_switcher.daemon.gain.effect import Effect, difference, mean, within
from ltp_switcher.daemon.gain.rows import Group, Rows

RATIOS: Final = ("goodput", "rtt_p95", "completion_time")
"""Measures whose effect is a relative change."""
MEASURES: Final = (*RATIOS, "retransmits")
"""`retransmits` is a share of the packets, and its effect a difference of shares."""
PREFIXES_MAX: Final = 20
"""Prefixes that a report tells of, those with the most data first."""
AGREES: Final = 0.9
"""A prefix whose traffic ran the advised arm for this share of its time has nothing to gain."""


@dataclass(frozen=True, slots=True)
class ArmUse:
    """What flows of an arm had: means over prefixes, with the ends of their 95 % intervals, or None."""

    share: float
    """Of all bytes acknowledged."""
    goodput_Bps: tuple[float, float, float] | None  # noqa: N815 - B is bytes
    rtt_p95_us: tuple[float, float, float] | None
    retransmits: tuple[float, float, float] | None


@dataclass(frozen=True, slots=True)
class Advice:
    """How the advice for a prefix and its traffic compare, in mode advise."""

    agreed: float
    """Share of the time in which the flows ran the advised arm."""
    expected: Effect | None
    """Reward of flows that ran the advised arm, less that of the others: an estimate. None: too few."""
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


def report(rows: Rows, names: Mapping[int, str]) -> Report:
    """The report of logged decisions, shape (n,); `names` are those of arms by id."""
    trial = rows[rows["active"] & np.isin(rows["group"], (Group.TREATED, Group.CONTROL))]
    switchback = bool((trial["block"] >= 0).any())
    units = _Units(trial)
    largest = units.largest_prefixes() if switchback else []
    advised = rows[~rows["active"]]
    by_prefix = _advice(advised)
    return Report(
        design="none" if not trial.size else "switchback" if switchback else "holdback",
        decisions=len(rows),
        overall=units.effects(np.ones(units.count, np.bool_), switchback=switchback),
        prefixes={units.names[at]: units.effects(units.prefix == at, switchback=False) for at in largest},
        arms=_arms(rows, names),
        agreed=mean(np.array([one.agreed for one in by_prefix.values()])),
        advice=dict(list(by_prefix.items())[:PREFIXES_MAX]),
    )


class _Units:
    """The independent units of an experiment: a prefix in a time block, or over all time."""

    def __init__(self, rows: Rows) -> None:
        names, prefix = np.unique(rows["prefix"], return_inverse=True)
        blocks, block = np.unique(rows["block"], return_inverse=True)
        keys, unit = np.unique(prefix * max(blocks.size, 1) + block, return_inverse=True)
        self.count = keys.size
        self.names = [name.decode() for name in names.tolist()]
        self.prefix: Indices = keys // max(blocks.size, 1)
        self._block: Indices = keys % max(blocks.size, 1)
        treated = np.zeros(self.count, np.bool_)
        treated[unit] = rows["group"] == Group.TREATED
        self._treated = treated
        self.bytes = np.bincount(unit, rows["acked_bytes"], self.count)
        self._values = measures(rows, unit, self.count)

    def largest_prefixes(self) -> list[int]:
        """Places in `names` of the prefixes with the most data."""
        return [int(at) for at in np.argsort(-np.bincount(self.prefix, self.bytes))[:PREFIXES_MAX]]

    def effects(self, which: Bools, *, switchback: bool) -> dict[str, Effect | None]:
        """The effect on each measure over these units, shape (units,)."""
        return {name: self._effect(name, which, switchback=switchback) for name in MEASURES}

    def _effect(self, name: str, which: Bools, *, switchback: bool) -> Effect | None:
        values = self._values[name]
        at = np.flatnonzero(which & np.isfinite(values))
        if not at.size:
            return None
        if switchback:
            _, block = np.unique(self._block[at], return_inverse=True)
            _, prefix = np.unique(self.prefix[at], return_inverse=True)
            found = within(values[at], self._treated[at], block, prefix)
        else:
            found = difference(values[at], self._treated[at])
        if found is None or name not in RATIOS:
            return found
        value, lower, upper = np.expm1((found.value, found.lower, found.upper)).tolist()
        return Effect(value, lower, upper, found.treated, found.control)


def measures(rows: Rows, unit: Indices, count: int) -> dict[str, Floats]:
    """The measures of units, shape (count,) each: logarithms of those in `RATIOS`; NaN: nothing was measured.

    Args:
        rows: decisions, shape (n,).
        unit: the unit of each, shape (n,).
        count: number of units.
    """

    def total(values: Floats) -> Floats:
        return np.asarray(np.bincount(unit, values, count), np.float64)

    ended = rows["ended"] & (rows["life_s"] > 0)
    life_s = np.where(ended, rows["life_s"].astype(np.float64), 1.0)
    rtt_us = np.full(count, np.nan)
    order = np.argsort(unit, kind="stable")
    bounds = np.searchsorted(unit[order], np.arange(count + 1))
    for at in range(count):
        seen = rows["rtt_us"][order[bounds[at] : bounds[at + 1]]]
        seen = seen[np.isfinite(seen)]
        if seen.size:
            rtt_us[at] = np.quantile(seen, 0.95)
    with np.errstate(divide="ignore", invalid="ignore"):
        goodput_Bps = total(rows["acked_bytes"]) / total(rows["busy_s"])
        return {
            "goodput": np.where(goodput_Bps > 0, np.log(goodput_Bps), np.nan),
            "rtt_p95": np.log(rtt_us),
            "completion_time": total(np.log(life_s)) / total(ended.astype(np.float64)),
            "retransmits": total(rows["retrans"]) / total(rows["delivered"]),
        }


def _arms(rows: Rows, names: Mapping[int, str]) -> dict[str, ArmUse]:
    sent = rows["acked_bytes"].sum()
    found = {}
    for arm in np.unique(rows["ran"]).tolist():
        of = rows[rows["ran"] == arm]
        prefixes, unit = np.unique(of["prefix"], return_inverse=True)
        values = measures(of, unit, prefixes.size)
        levels = (np.exp(values["goodput"]), np.exp(values["rtt_p95"]), values["retransmits"])
        use = [mean(level[np.isfinite(level)]) for level in levels]
        found[names.get(arm, str(arm))] = ArmUse(float(of["acked_bytes"].sum() / max(sent, 1.0)), *use)
    return found


def _advice(rows: Rows) -> dict[str, Advice]:
    """The advice by prefix, those with the most data first."""
    prefixes, unit = np.unique(rows["prefix"], return_inverse=True)
    order = np.argsort(-np.bincount(unit, rows["acked_bytes"], prefixes.size))
    return {prefixes[at].decode(): _advice_of(rows[unit == at]) for at in order.tolist()}


def _advice_of(rows: Rows) -> Advice:
    followed = rows["arm"] == rows["ran"]
    time_s = rows["duration_s"].astype(np.float64)
    agreed = float((time_s * followed).sum() / max(time_s.sum(), 1e-9))
    # All decisions of a flow share its luck.
    known = np.isfinite(rows["reward"])
    flows, unit = np.unique(rows["cookie"][known] * 2 + followed[known], return_inverse=True)
    earned = np.bincount(unit, rows["reward"][known], flows.size) / np.maximum(np.bincount(unit), 1)
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
