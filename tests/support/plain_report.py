# SPDX-License-Identifier: Apache-2.0
"""The report by its plain definition: row by row selections, a scan for each prefix, sorting everything."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ltp_switcher.arrays import Bools, Floats, Indices
from ltp_switcher.daemon.gain.effect import Effect, difference, drawn, mean, t_quantile
from ltp_switcher.daemon.gain.log import Skipped
from ltp_switcher.daemon.gain.report import Advice, ArmUse, Report
from ltp_switcher.daemon.gain.rows import Group, Kind, Rows

RATIOS = ("goodput", "rtt_p95", "completion_time", "reward")
MEASURES = (*RATIOS, "retransmits")
PREFIXES_MAX = 20
AGREES = 0.9
CLUSTERS_MIN = 4
WINDOW = 6
TURNS = 30


def report(
    rows: Rows, names: Mapping[int, str], since_s: float = 0.0, skipped: Skipped | None = None
) -> Report:
    """The report of logged decisions from Unix time `since_s` on.

    Args:
        rows: of the whole log, with `FIELDS` at least, shape (n,). Those from before an experiment tell how
            its prefixes differ.
        names: of the arms by id.
        since_s: decisions before this time count for nothing else.
        skipped: what could not be read.
    """
    all_rows = rows
    if rows["time_s"].min(initial=np.inf) < since_s:
        rows = rows[rows["time_s"] >= since_s]
    trial = rows[rows["active"] & np.isin(rows["group"], (Group.TREATED, Group.CONTROL))]
    # After another design was set, the latest one counts.
    switchback = bool(trial.size) and bool(trial["block"][trial["time_s"].argmax()] >= 0)
    trial = trial[(trial["block"] >= 0) == switchback]
    units = _Units(trial, None if switchback else _before(all_rows))
    largest = units.largest_prefixes() if switchback else []
    advised = rows[~rows["active"]]
    by_prefix = _advice(advised)
    return Report(
        design="none" if not trial.size else "switchback" if switchback else "holdback",
        decisions=len(rows),
        overall=units.effects(np.ones(units.count, np.bool_), switchback=switchback),
        prefixes={units.names[at]: units.effects(units.prefix == at, switchback=True) for at in largest},
        arms=_arms(rows, names),
        agreed=mean(np.array([one.agreed for one in by_prefix.values()])),
        advice=dict(list(by_prefix.items())[:PREFIXES_MAX]),
        skipped=skipped or Skipped(),
        flow_reward={},
    )


def _before(rows: Rows) -> Rows:
    """The daemon's decisions, or its advice, from before the log's first experiment."""
    in_trial = rows["active"] & (rows["group"] != Group.NONE)
    begin_s = rows["time_s"][in_trial].min(initial=np.inf)
    free = ~rows["active"] | np.isin(rows["kind"], (Kind.CHOSEN, Kind.EXPLORED))
    earlier: Bools = rows["time_s"] + rows["duration_s"] <= begin_s
    found: Rows = rows[earlier & (rows["group"] == Group.NONE) & free]
    return found


class _Units:
    """The independent units of an experiment: a prefix in a time block, or over all time."""

    def __init__(self, rows: Rows, before: Rows | None) -> None:
        names, prefix = np.unique(rows["prefix"], return_inverse=True)
        blocks, block = np.unique(rows["block"], return_inverse=True)
        keys, unit = np.unique(prefix * max(blocks.size, 1) + block, return_inverse=True)
        self.count = keys.size
        self.names = [name.decode() for name in names.tolist()]
        self.prefix: Indices = keys // max(blocks.size, 1)
        self._block: Indices = blocks[keys % max(blocks.size, 1)]
        treated = np.zeros(self.count, np.bool_)
        treated[unit] = rows["group"] == Group.TREATED
        self._treated = treated
        self.bytes = np.bincount(unit, rows["acked_bytes"], self.count)
        self._values = measures(rows, unit, self.count)
        self._before: Mapping[str, Floats] = {}
        if before is not None and before.size and self.count:
            before = before[np.isin(before["prefix"], names)]
            self._before = measures(before, np.searchsorted(names, before["prefix"]), self.count)

    def largest_prefixes(self) -> list[int]:
        """Places in `names` of the prefixes with the most data."""
        return [
            int(at) for at in np.argsort(-np.bincount(self.prefix, self.bytes), kind="stable")[:PREFIXES_MAX]
        ]

    def effects(self, which: Bools, *, switchback: bool) -> dict[str, Effect | None]:
        """The effect on each measure over these units, shape (units,)."""
        return {name: self._effect(name, which, switchback=switchback) for name in MEASURES}

    def _effect(self, name: str, which: Bools, *, switchback: bool) -> Effect | None:
        values = self._values[name]
        if name == "reward":
            values = self._lifted(values, switchback=switchback)
        at = np.flatnonzero(which & np.isfinite(values))
        if not at.size:
            return None
        if switchback:
            _, prefix = np.unique(self.prefix[at], return_inverse=True)
            found = within(values[at], self._treated[at], self._block[at], prefix)
        else:
            before = self._before.get(name)
            if before is not None:
                before = np.where(np.isfinite(before), before, np.nan)
            found = drawn(values[at], self._treated[at], None if before is None else before[at])
        if found is None or name not in RATIOS:
            return found
        value, lower, upper = np.expm1((found.value, found.lower, found.upper)).tolist()
        return Effect(value, lower, upper, found.treated, found.control)

    def _lifted(self, values: Floats, *, switchback: bool) -> Floats:
        """A unit without a reward is 3 below the mean of its prefix, in a holdback of all prefixes."""
        made = values.copy()
        for at in np.flatnonzero(np.isneginf(values)):
            beside = (self.prefix == self.prefix[at]) if switchback else np.ones(self.count, np.bool_)
            beside &= np.isfinite(values)
            made[at] = values[beside].mean() - 3.0 if beside.any() else np.nan
        return made


def within(values: Floats, treated: Bools, block: Indices, prefix: Indices) -> Effect | None:
    """The effect of a switchback: one level for each prefix and each window, and clustered errors.

    Args:
        values: one for each prefix and block, shape (n,).
        treated: the block's group, shape (n,).
        block: number of the time block, shape (n,).
        prefix: number of the prefix from 0 on, shape (n,).
    """
    numbers, cluster = np.unique(block, return_inverse=True)
    windows, window = np.unique(block // WINDOW, return_inverse=True)
    groups = np.array([treated[cluster == at].any() for at in range(numbers.size)])
    n_treated, freedom = int(groups.sum()), numbers.size - windows.size - 1
    if min(n_treated, numbers.size - n_treated, freedom) < CLUSTERS_MIN:
        return None
    x, y = _levelled(treated.astype(np.float64), prefix, window), _levelled(values, prefix, window)
    power = np.square(x).sum()
    if power <= 1e-6 * x.size:
        return None
    value = (x * y).sum() / power
    scores, weight = np.bincount(cluster, x * (y - value * x)), np.bincount(cluster, x**2)
    _, place, sizes = np.unique(numbers // WINDOW, return_inverse=True, return_counts=True)
    leverage = np.minimum(weight / power + 1 / sizes[place], 0.9)
    error = np.sqrt((np.square(scores) / (1 - leverage)).sum()) / power
    counted = freedom / numbers.size * power**2 / np.square(weight).sum()
    half = t_quantile(max(counted, 2.0)) * error
    return Effect(value, value - half, value + half, n_treated, numbers.size - n_treated)


def _levelled(values: Floats, *groups: Indices) -> Floats:
    """The values less the levels of their groups, by turns; shape (n,)."""
    for _ in range(TURNS):
        before = values
        for group in groups:
            values = values - (np.bincount(group, values) / np.maximum(np.bincount(group), 1))[group]
        if np.allclose(values, before, rtol=0, atol=1e-10):
            break
    return values


def measures(rows: Rows, unit: Indices, count: int) -> dict[str, Floats]:
    """The measures of units, shape (count,) each, logarithms of those in `RATIOS`; NaN where unmeasured.

    Args:
        rows: decisions, shape (n,).
        unit: the unit of each, shape (n,).
        count: number of units.
    """

    def total(values: Floats) -> Floats:
        return np.asarray(np.bincount(unit, values, count), np.float64)

    ended = rows["ended"] & (rows["life_s"] > 0)
    life_s = np.where(ended, rows["life_s"].astype(np.float64), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        goodput_Bps = total(rows["acked_bytes"]) / total(rows["busy_s"])
        return {
            "goodput": np.where(goodput_Bps > 0, np.log(goodput_Bps), np.nan),
            "rtt_p95": np.log(_quantile(rows["rtt_us"], unit, count, 0.95)),
            "completion_time": total(np.log(life_s)) / total(ended.astype(np.float64)),
            "reward": _reward(
                goodput_Bps * 8e-6,
                total(rows["lost"]),
                total(rows["delivered"]),
                total(np.nansum(rows["rtt_us"], axis=1))
                / total(np.isfinite(rows["rtt_us"]).sum(axis=1))
                / 1e3,
            ),
            "retransmits": total(rows["retrans"]) / total(rows["delivered"]),
        }


def _reward(mbps: Floats, lost: Floats, delivered: Floats, rtt_ms: Floats) -> Floats:
    """The logarithm of Eq. 1 with zeta 5 and kappa 2, shape (count,)."""
    loss = np.where(lost + delivered > 0, lost / (lost + delivered), 0.0)
    useful = np.maximum(1 - 5 * loss, 0) * mbps
    return np.where(mbps > 0, np.log(useful**2 / rtt_ms), np.nan)


def _quantile(samples: Floats, unit: Indices, count: int, share: float) -> Floats:
    """The quantile of each unit's finite samples, shape (count,), NaN without one. `samples`: shape (n,
    k)."""
    known = np.isfinite(samples)
    values, of = samples[known].astype(np.float64), np.repeat(unit, known.sum(axis=1))
    values = values[np.lexsort((values, of))]
    sizes = np.bincount(of, minlength=count)
    place = (np.cumsum(sizes) - sizes) + share * np.maximum(sizes - 1, 0)
    below = np.minimum(place.astype(np.int64), max(values.size - 1, 0))
    above = np.minimum(np.ceil(place).astype(np.int64), max(values.size - 1, 0))
    if not values.size:
        return np.full(count, np.nan)
    found = values[below] + (place - below) * (values[above] - values[below])
    return np.where(sizes > 0, found, np.nan)


def _arms(rows: Rows, names: Mapping[int, str]) -> dict[str, ArmUse]:
    sent = rows["acked_bytes"].sum()
    found = {}
    for arm in np.unique(rows["ran"]).tolist():
        of = rows[rows["ran"] == arm]
        prefixes, unit = np.unique(of["prefix"], return_inverse=True)
        values = measures(of, unit, prefixes.size)
        goodput_Bps, rtt_p95_us, completion_time_s = (_typical(values[name]) for name in RATIOS[:3])
        retransmits = mean(values["retransmits"][np.isfinite(values["retransmits"])])
        found[names.get(arm, str(arm))] = ArmUse(
            float(of["acked_bytes"].sum() / max(sent, 1.0)),
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


def _advice(rows: Rows) -> dict[str, Advice]:
    """The advice by prefix, those with the most data first."""
    prefixes, unit = np.unique(rows["prefix"], return_inverse=True)
    order = np.argsort(-np.bincount(unit, rows["acked_bytes"], prefixes.size), kind="stable")
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
