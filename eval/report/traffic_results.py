# SPDX-License-Identifier: Apache-2.0
"""Traffic under several schemes: completion times, values, the oracle, and the learner's replay.

Schemes are compared flow by flow. A scheme's value on a path is the mean of its flows' values, weighted by
their information; see `traffic_flows`. The replay lets the learner from flow to flow choose among visits that
were measured. A visit is a series of flows to one path without a pause of a second. The daemon never sees the
same flow under two arms. So a visit's value is relative to the mean of its path and size class.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats
from ltp_switcher.daemon.choose.visits.learner import Learner
from ltp_switcher.daemon.choose.visits.replay import Pool, Replayed, replay
from ltp_switcher.daemon.gain import outcomes, value
from ltp_switcher.daemon.step.learning.lots import chance
from ltp_switcher.daemon.step.learning.lots import drawn as drawn_lots
from ltp_switcher.eval.lab.traffic import arrivals, places
from ltp_switcher.eval.report.traffic_flows import (
    ALL,
    CLASSES,
    FLOW_DTYPE,
    ORACLE,
    FlowSet,
    FlowTable,
    best_arms,
    of_class,
    related,
    retransmit_share,
    value_by_path,
)
from ltp_switcher.eval.run.completion_times import Completions, Quantiles, quantiles
from ltp_switcher.eval.run.results import RunResult
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.suite.score import Mean, geometric_mean

LEAST_VISITS: Final = 5
"""Least number of visits (groups of flows to a prefix) that each scheme needs on a path. The learner is
replayed on such paths alone.
"""
DAY_S: Final = 86_400.0
"""Time in seconds that separates two runs in a table of all outcomes."""


@dataclass(frozen=True, slots=True)
class Made:
    """A finished run: its flows' completion times, and the rows of their outcomes."""

    scheme: str
    seed: int
    scenario: Scenario
    completions: Completions
    rows: outcomes.OutcomeRows


def made_of(scheme: str, result: RunResult) -> Made:
    """Read a run's results. `scheme` is the name of the scheme in the report."""
    job = result.job
    return Made(scheme, job.seed, job.scenario, result.completions(), result.outcomes())


@dataclass(frozen=True, slots=True)
class Traffics(FlowSet):
    """The flows and the visits of all runs. The flows' values are relative to the mean of all schemes."""

    visits: outcomes.VisitTable
    """Visits of all runs. A visit's arm is the index of the scheme. The values of all visits
    can be compared.
    """


def gathered(runs: Sequence[Made]) -> Traffics:
    """Put the runs of the same paths together."""
    schemes = tuple(dict.fromkeys(run.scheme for run in runs))
    paths = tuple(path.name for path in runs[0].scenario.paths)
    tables, told = [], []
    for number, run in enumerate(runs):
        scheme = schemes.index(run.scheme)
        rows = run.rows[outcomes.latest(run.rows["outcome"])]
        tables.append(_flows(run, scheme, rows))
        told.append(_apart(rows, scheme, number))
    flows = related(np.concatenate(tables))
    return Traffics(schemes, paths, flows, outcomes.visits_of(np.concatenate(told)))


def _flows(run: Made, scheme: int, rows: outcomes.OutcomeRows) -> FlowTable:
    """The flows of a run, with raw values."""
    drawn = arrivals(run.scenario, run.seed)
    flows = np.zeros(len(drawn), FLOW_DTYPE)
    flows["scheme"], flows["seed"] = scheme, run.seed
    flows["path"] = [one.path for one in drawn]
    flows["asked_bytes"] = [one.size_bytes for one in drawn]
    flows["at_s"], flows["took_s"] = run.completions.at_s, run.completions.took_s
    for name in ("retransmits", "delivered", "rtt_ms", "value", "information"):
        flows[name] = np.nan
    flows["chance"] = 1.0
    told, at = rows["outcome"], places(rows)
    flows["retransmits"][at], flows["delivered"][at] = told["retrans"], told["delivered"]
    with np.errstate(invalid="ignore", divide="ignore"):
        flows["rtt_ms"][at] = told["rtt_us_sum"] / told["rtt_samples"] / 1e3
    flows["value"][at], flows["information"][at] = value.raw_values(told), value.information(told)
    flows["began"][at], flows["lot"][at], flows["chance"][at] = told["arm"], drawn_lots(told), chance(told)
    return flows


def _apart(rows: outcomes.OutcomeRows, scheme: int, run: int) -> outcomes.OutcomeRows:
    """The rows as flows of another day and of the arm `scheme`, so that runs do not mix."""
    rows = rows.copy()
    rows["time_s"] += run * DAY_S
    rows["outcome"]["arm"] = scheme
    rows["outcome"]["visit"] = 0
    rows["outcome"]["cookie"] = np.arange(len(rows), dtype=np.uint64) + (np.uint64(run) << np.uint64(32))
    return rows


def completion(flows: FlowTable) -> dict[str, Quantiles]:
    """The quantiles of completion times by class; a class without a flow is missing."""
    times = {name: flows["took_s"][of_class(flows, name)] for name in CLASSES}
    return {name: quantiles(took_s) for name, took_s in times.items() if took_s.size}


def over(traffics: Traffics, flows: FlowTable, other: FlowTable) -> Mean | None:
    """Return the reward of `flows` over the reward of `other`, as a geometric mean over paths; None if a
    value is unknown.
    """
    ours, theirs = value_by_path(traffics.paths, flows), value_by_path(traffics.paths, other)
    ratios = [math.exp(ours[path] - theirs[path]) for path in traffics.paths]
    return None if any(map(math.isnan, ratios)) else geometric_mean(ratios)


def time_over(traffics: Traffics, flows: FlowTable, other: FlowTable, name: str = ALL) -> Mean | None:
    """Return the completion time in `flows` over the time of the same flow in `other`. It is the geometric
    mean over flows, then over paths.

    Only flows of the class `name` that are complete in both count. Without such flows the result is None.
    """
    ours, theirs = (np.sort(of, order=("seed", "path", "at_s")) for of in (flows, other))
    both = np.isfinite(ours["took_s"]) & np.isfinite(theirs["took_s"]) & of_class(ours, name)
    logs = np.log(ours["took_s"][both] / theirs["took_s"][both])
    numbers = ours["path"][both]
    ratios = [math.exp(float(logs[numbers == n].mean())) for n in np.unique(numbers).tolist()]
    return geometric_mean(ratios) if ratios else None


@dataclass(frozen=True, slots=True)
class ReplayWindow:
    """The learner's figures for a span of visits of each path: mean over replays, and the 2.5 and 97.5 %
    quantiles.

    Rewards are relative to the reward of the daemon's own decision, which is made without the learner.
    """

    first: int
    last: int
    reward: tuple[float, float, float]
    best: float
    """The reward of the best scheme of each path, in the visits from which the replays draw."""
    closed: tuple[float, float, float]
    """The share of the log gap between the daemon's decision and the best scheme that the learner closes."""
    regret: tuple[float, float, float]
    """The gap between the learner's reward and the best scheme's, as a share of the best scheme's."""
    trials: float
    cost: float


@dataclass(frozen=True, slots=True)
class ReplaySummary:
    """Replays of the learner from flow to flow on the visits of the runs."""

    visits: Mapping[str, Mapping[str, int]]
    """Number of visits of the runs, by path and scheme."""
    paths: tuple[str, ...]
    """Names of the paths with `LEAST_VISITS` visits of each scheme. The replays draw from
    these paths alone.
    """
    windows: list[ReplayWindow]
    ledger_max: float
    worst_path_max: float


def replays(
    traffics: Traffics, decision: str, arms: Sequence[str], *, visits: int, seeds: int
) -> ReplaySummary | None:
    """Replay the learner, which chooses between the scheme `decision` and the `arms`; None if no path has
    enough visits.
    """
    table, order = traffics.visits, [decision, *arms]
    numbers = {name: number for number, name in enumerate(table.names)}
    replayed: list[str] = []
    pools: list[list[Pool]] = []
    counts: dict[str, dict[str, int]] = {}
    for number, path in enumerate(traffics.paths):
        prefix = numbers.get(f"10.2.{number}.0/24", -1)
        chosen = [
            np.flatnonzero((table.prefixes == prefix) & (table.arms == traffics.schemes.index(one)))
            for one in order
        ]
        counts[path] = {name: int(of.size) for name, of in zip(order, chosen, strict=True)}
        if min(counts[path].values()) >= LEAST_VISITS:
            replayed.append(path)
            pools.append([Pool(table.values[of], table.information[of], table.flows[of]) for of in chosen])
    if not pools:
        return None
    found = [replay(pools, visits, Learner(len(order)), seed) for seed in range(1, seeds + 1)]
    return ReplaySummary(
        counts,
        tuple(replayed),
        [_window(found, place) for place in range(len(found[0].windows))],
        max(one.ledger for one in found),
        max(one.worst_prefix for one in found),
    )


def _window(found: Sequence[Replayed], place: int) -> ReplayWindow:
    windows = [one.windows[place] for one in found]
    gains = np.array([one.gain for one in windows])
    best = windows[0].best_gain
    return ReplayWindow(
        windows[0].first,
        windows[0].last,
        _interval(np.exp(gains)),
        math.exp(best),
        _interval(np.array([one.closed for one in windows])),
        _interval(1.0 - np.exp(gains - best)),
        float(np.mean([one.trials for one in windows])),
        float(np.mean([one.cost for one in windows])),
    )


def _interval(values: Floats) -> tuple[float, float, float]:
    low, high = np.quantile(values, (0.025, 0.975)).tolist()
    return float(values.mean()), low, high


@dataclass(frozen=True, slots=True)
class SchemeFigures:
    """A scheme's figures over all paths, without the seeds by which the oracle chose. Ratios are to the
    reference scheme; an unknown ratio is None.
    """

    flows: int
    unfinished: int
    untold: int
    """Number of finished flows about which the module has reported nothing."""
    completion: Mapping[str, Quantiles]
    times: Mapping[str, Mean | None]
    """Completion time as a ratio to the reference's time for the same flow, by class."""
    reward: Mean | None
    retransmits: float
    rtt_ms: float
    value: Mapping[str, float]
    """Log of the reward over the reference's, by path."""


@dataclass(frozen=True, slots=True)
class Figures:
    """All figures of the command `ltp-eval traffic`."""

    traffics: Traffics
    reference: str
    """The scheme with which the others are compared."""
    scored: tuple[int, ...]
    """Seeds from which the figures come."""
    chosen: tuple[int, ...]
    """Seeds by which the oracle chose; empty without an oracle."""
    oracle: Mapping[str, str]
    schemes: Mapping[str, SchemeFigures]
    replay: ReplaySummary | None

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "paths": [*self.traffics.paths],
            "reference": self.reference,
            "seeds": {"scored": [*self.scored], "oracle": [*self.chosen]},
            "oracle": {**self.oracle},
            "schemes": {name: asdict(of) for name, of in self.schemes.items()},
            "replay": self.replay and asdict(self.replay),
        }


def figures(
    traffics: Traffics,
    *,
    reference: str,
    arms: Sequence[str],
    seeds: Sequence[int],
    visits: int,
    replay_seeds: int,
) -> Figures:
    """Compare the schemes with the scheme `reference`.

    With two seeds or more, the oracle chooses among `arms` by the first half of the seeds. Then the figures
    come from the other half. The replay draws from the visits of all seeds.
    """
    half = len(seeds) // 2 if arms else 0
    chosen, scored = tuple(seeds[:half]), tuple(seeds[half:])
    tables = {scheme: traffics.of(scheme, scored) for scheme in traffics.schemes}
    oracle = best_arms(traffics, arms, chosen) if chosen else {}
    if oracle:
        tables[ORACLE] = traffics.composed(oracle, scored)
    return Figures(
        traffics,
        reference,
        scored,
        chosen,
        oracle,
        {name: _scheme(traffics, flows, tables[reference]) for name, flows in tables.items()},
        replays(
            traffics, reference, [arm for arm in arms if arm != reference], visits=visits, seeds=replay_seeds
        ),
    )


def _scheme(traffics: Traffics, flows: FlowTable, reference: FlowTable) -> SchemeFigures:
    base = value_by_path(traffics.paths, reference)
    return SchemeFigures(
        flows=len(flows),
        unfinished=int(np.isinf(flows["took_s"]).sum()),
        untold=int((np.isfinite(flows["took_s"]) & np.isnan(flows["delivered"])).sum()),
        completion=completion(flows),
        times={name: time_over(traffics, flows, reference, name) for name in CLASSES},
        reward=over(traffics, flows, reference),
        retransmits=retransmit_share(flows),
        rtt_ms=float(np.nanmean(flows["rtt_ms"])) if np.isfinite(flows["rtt_ms"]).any() else math.nan,
        value={path: own - base[path] for path, own in value_by_path(traffics.paths, flows).items()},
    )
