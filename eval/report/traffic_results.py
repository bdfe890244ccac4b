# SPDX-License-Identifier: Apache-2.0
"""Traffic under several schemes: completion times, values, and the oracle.

Schemes are compared flow by flow. A scheme's value on a path is the mean of its flows' values, weighted by
their information; see `traffic_flows`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

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


def gathered(runs: Sequence[Made]) -> FlowSet:
    """Put the runs of the same paths together. The flows' values are relative to the mean of all schemes."""
    schemes = tuple(dict.fromkeys(run.scheme for run in runs))
    paths = tuple(path.name for path in runs[0].scenario.paths)
    tables = [_flows(run, schemes.index(run.scheme)) for run in runs]
    return FlowSet(schemes, paths, related(np.concatenate(tables)))


def _flows(run: Made, scheme: int) -> FlowTable:
    """Return the flows of a run of the scheme with this number, with raw values."""
    rows = run.rows[outcomes.latest(run.rows["outcome"])]
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


def completion(flows: FlowTable) -> dict[str, Quantiles]:
    """The quantiles of completion times by class; a class without a flow is missing."""
    times = {name: flows["took_s"][of_class(flows, name)] for name in CLASSES}
    return {name: quantiles(took_s) for name, took_s in times.items() if took_s.size}


def over(traffics: FlowSet, flows: FlowTable, other: FlowTable) -> Mean | None:
    """Return the reward of `flows` over the reward of `other`, as a geometric mean over paths; None if a
    value is unknown.
    """
    ours, theirs = value_by_path(traffics.paths, flows), value_by_path(traffics.paths, other)
    ratios = [math.exp(ours[path] - theirs[path]) for path in traffics.paths]
    return None if any(map(math.isnan, ratios)) else geometric_mean(ratios)


def time_over(traffics: FlowSet, flows: FlowTable, other: FlowTable, name: str = ALL) -> Mean | None:
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

    traffics: FlowSet
    reference: str
    """The scheme with which the others are compared."""
    scored: tuple[int, ...]
    """Seeds from which the figures come."""
    chosen: tuple[int, ...]
    """Seeds by which the oracle chose; empty without an oracle."""
    oracle: Mapping[str, str]
    schemes: Mapping[str, SchemeFigures]

    def to_dict(self) -> dict[str, object]:
        """Plain values for JSON."""
        return {
            "paths": [*self.traffics.paths],
            "reference": self.reference,
            "seeds": {"scored": [*self.scored], "oracle": [*self.chosen]},
            "oracle": {**self.oracle},
            "schemes": {name: asdict(of) for name, of in self.schemes.items()},
        }


def figures(
    traffics: FlowSet,
    *,
    reference: str,
    arms: Sequence[str],
    seeds: Sequence[int],
) -> Figures:
    """Compare the schemes with the scheme `reference`.

    With two seeds or more, the oracle chooses among `arms` by the first half of the seeds. Then the figures
    come from the other half.
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
    )


def _scheme(traffics: FlowSet, flows: FlowTable, reference: FlowTable) -> SchemeFigures:
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
