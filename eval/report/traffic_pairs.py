# SPDX-License-Identifier: Apache-2.0
"""Two schemes or two revisions, compared flow by flow, from the results that `ltp-eval traffic` has written.

Each comparison has two sides, ours and theirs. Two flows of the sides are a pair if they have the same path,
seed, and place in the order of arrival. So both sides need the same arrivals. The ratios of a path are
geometric means over its pairs. The ratios over all paths are geometric means of the paths' ratios. Intervals
come from drawing the paths anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats
from ltp_switcher.daemon.gain.value import CLIP
from ltp_switcher.errors import ConfigError, RefusedError
from ltp_switcher.eval.report.traffic_flows import (
    CLASSES,
    FLOW_DTYPE,
    ORACLE,
    FlowSet,
    FlowTable,
    best_arms,
    of_class,
    related,
    retransmit_share,
    visit_numbers,
)
from ltp_switcher.eval.suite.score import Mean, geometric_mean

_NAMED: Final = 3
"""Largest number of runs that an error names."""

Runs = dict[tuple[str, int], FlowTable]
"""The flows of each path and seed, in order of their arrival."""


@dataclass(frozen=True, slots=True)
class Side:
    """The flows of one side. If the side is the oracle, which runs the best arm of each path, `arms` has
    these arms.
    """

    scheme: str
    runs: Runs
    arms: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Ratios:
    """Our side's figures over the other side's, for the flows of one size class on one path. A figure without
    a flow is NaN.
    """

    flows: int
    """Number of flows that ended on both sides."""
    valued: int
    """Number of flows, among these, that the module reported on both sides. The reward covers these flows."""
    reward: float
    time: float


@dataclass(frozen=True, slots=True)
class PathPair:
    """Our side compared with theirs on one path. `sizes` has the ratios of our figures to theirs, by class. A
    pair has our value first, then theirs.
    """

    sizes: Mapping[str, Ratios]
    sent_again: tuple[float, float]
    """Ratio of retransmits to delivered packets; NaN if nothing is known."""
    unfinished: tuple[int, int]
    arms: tuple[str | None, str | None]
    """Each side's arm on this path if the side is the oracle, otherwise None."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All figures of the comparison. A mean is None if no path has such flows."""

    ours: str
    theirs: str
    seeds: tuple[int, ...]
    chosen: tuple[int, ...]
    """Seeds by which the oracle chose."""
    paths: Mapping[str, PathPair]
    reward: Mapping[str, Mean | None]
    """The ratio of our rewards to theirs, by class."""
    time: Mapping[str, Mean | None]
    """The ratio of our completion times to theirs, by class."""
    sent_again_points: Mean | None
    """Our share of packets sent again less theirs, in percentage points. It is the arithmetic mean over
    paths.
    """


def narrowed(flows: FlowSet, paths: Sequence[str], seeds: Sequence[int], chosen: Sequence[int]) -> FlowSet:
    """Return the flows of these paths and seeds, and of the seeds `chosen`, by which the oracle chooses the
    best arm of each path. An empty list of paths or seeds stands for all.

    Raises:
        ConfigError: one of `paths` or `seeds` is not among the flows.
    """
    table = flows.flows
    known = _seeds(flows)
    for path in paths:
        if path not in flows.paths:
            raise ConfigError("--paths", path, f"some of {', '.join(flows.paths)}")
    for seed in seeds:
        if seed not in known:
            raise ConfigError("--seeds", seed, f"some of {', '.join(map(str, known))}")
    if paths:
        table = table[np.isin(table["path"], [flows.paths.index(path) for path in paths])]
    if seeds:
        table = table[np.isin(table["seed"], [*seeds, *chosen])]
    return replace(flows, flows=table)


def side_of(flows: FlowSet, scheme: str, arms: Sequence[str], chosen: Sequence[int]) -> Side:
    """Make one side of a comparison: a scheme's flows of all seeds except `chosen`.

    Args:
        flows: flows with raw values.
        scheme: a scheme that ran, or the oracle, which runs the best arm of each path.
        arms: the arms among which the oracle chooses.
        chosen: the seeds by which the oracle chooses. They may be empty for another scheme.

    Raises:
        ConfigError: the scheme did not run, or the oracle has no arm or no seed by which to choose.
        RefusedError: the flows of a run appear twice, or the oracle's arms did not meet the same flows.
    """
    seeds = [seed for seed in _seeds(flows) if seed not in chosen]
    if scheme != ORACLE:
        if scheme not in flows.schemes:
            raise ConfigError("--scheme, --over", scheme, f"one of {', '.join((*flows.schemes, ORACLE))}")
        return Side(scheme, runs_of(flows, flows.of(scheme, seeds)), {})
    if not arms:
        raise ConfigError("--arms", "", "arms that ran alone, among which the oracle chooses")
    for arm in arms:
        if arm not in flows.schemes:
            raise ConfigError("--arms", arm, f"some of {', '.join(flows.schemes)}")
    if not chosen or not seeds:
        raise ConfigError(
            "--choose", ",".join(map(str, chosen)),
            f"some of the arms' seeds {', '.join(map(str, _seeds(flows)))}, but not all: figures are of the "
            "others; `ltp-eval traffic` with --seeds makes more",
        )  # fmt: skip
    # Every arm needs the runs of all seeds, so that the means of the arms cover the same flows.
    of_arms = [Side(arm, runs_of(flows, flows.of(arm, [*chosen, *seeds])), {}) for arm in arms]
    for path in dict.fromkeys(path for side in of_arms for path, _ in side.runs):
        for side in of_arms:
            if lacks := [seed for seed in chosen if (path, seed) not in side.runs]:
                raise ConfigError(
                    "--choose", ",".join(map(str, chosen)),
                    f"seeds of each arm on each path; {side.scheme} lacks {', '.join(map(str, lacks))} on "
                    f"{path}, which `ltp-eval traffic` makes",
                )  # fmt: skip
    for side in of_arms[1:]:
        check_same(of_arms[0], side)
    ran = np.isin(flows.flows["scheme"], [flows.schemes.index(arm) for arm in arms])
    best = best_arms(replace(flows, flows=related(flows.flows[ran])), arms, chosen)
    return Side(ORACLE, runs_of(flows, flows.composed(best, seeds)), best)


def _seeds(flows: FlowSet) -> list[int]:
    seeds: list[int] = np.unique(flows.flows["seed"]).tolist()
    return seeds


def runs_of(flows: FlowSet, table: FlowTable) -> Runs:
    """Split some of the flows by path and seed.

    Raises:
        RefusedError: two flows of a run came at the same moment and asked for as many bytes, so the run
            appears twice.
    """
    found: Runs = {}
    for number, path in enumerate(flows.paths):
        of_path = table[table["path"] == number]
        for seed in np.unique(of_path["seed"]).tolist():
            run = of_path[of_path["seed"] == seed]
            run = run[np.argsort(run["at_s"], kind="stable")]
            if np.any((np.diff(run["at_s"]) == 0) & (np.diff(run["asked_bytes"]) == 0)):
                scheme = flows.schemes[run["scheme"][0]]
                raise RefusedError(
                    f"{scheme}: {path}, seed {seed} is there twice; name one folder that has it"
                )
            found[path, seed] = run
    return found


def check_same(ours: Side, theirs: Side) -> None:
    """Check that both sides met the same flows.

    Raises:
        RefusedError: the sides met different flows. The message names runs that differ, and the remedy.
    """
    for side, other in ((ours, theirs), (theirs, ours)):
        if missing := [run for run in other.runs if run not in side.runs]:
            raise RefusedError(_lacks(side.scheme, missing))
    for (path, seed), run in ours.runs.items():
        other_run = theirs.runs[path, seed]
        if len(run) != len(other_run):
            raise RefusedError(
                f"{path}, seed {seed}: {len(run)} flows of {ours.scheme}, {len(other_run)} of "
                f"{theirs.scheme}; "
                "run `ltp-eval traffic` for both with the same --flows"
            )
        if not all(np.array_equal(run[name], other_run[name]) for name in ("at_s", "asked_bytes")):
            raise RefusedError(
                f"{path}, seed {seed}: the flows of {ours.scheme} and of {theirs.scheme} came at other times "
                "or asked for other sizes; run `ltp-eval traffic` for both with the same --paths and --load"
            )


def _lacks(scheme: str, missing: Sequence[tuple[str, int]]) -> str:
    named = "; ".join(f"{path}, seed {seed}" for path, seed in missing[:_NAMED])
    more = f" and {len(missing) - _NAMED} more" if len(missing) > _NAMED else ""
    return (
        f"{scheme} has no flows of {named}{more}; add a folder that has them, or leave them out with --paths "
        "or --seeds"
    )


def compare(ours: Side, theirs: Side, chosen: Sequence[int], after_visits: int = 0) -> Comparison:
    """Compare our side with theirs.

    Args:
        ours: our side.
        theirs: the other side, with the same flows.
        chosen: the seeds by which the oracle has chosen.
        after_visits: number of visits at the beginning of each of our runs that do not count. A visit is a
            group of flows to a path that began near each other. A learner has to learn first.

    Raises:
        RefusedError: there is no flow, or the sides did not meet the same flows.
    """
    check_same(ours, theirs)
    later = {key: visit_numbers(run) > after_visits for key, run in ours.runs.items()}
    later = {key: counts for key, counts in later.items() if counts.any()}
    if not later:
        raise RefusedError("no flow is left to compare; name more paths or seeds, or fewer visits")
    ours, theirs = (
        replace(side, runs={key: side.runs[key][counts] for key, counts in later.items()})
        for side in (ours, theirs)
    )
    # Sorted, so that the bootstrap's draws do not depend on the order of the folders.
    paths = {path: _path_pair(path, ours, theirs) for path in sorted({path for path, _ in ours.runs})}
    return Comparison(
        ours.scheme,
        theirs.scheme,
        tuple(sorted({seed for _, seed in ours.runs})),
        tuple(chosen),
        paths,
        {size: _mean([pair.sizes[size].reward for pair in paths.values()]) for size in CLASSES},
        {size: _mean([pair.sizes[size].time for pair in paths.values()]) for size in CLASSES},
        _mean_points([100 * (pair.sent_again[0] - pair.sent_again[1]) for pair in paths.values()]),
    )


def _path_pair(path: str, ours: Side, theirs: Side) -> PathPair:
    runs = [key for key in ours.runs if key[0] == path]
    our, their = (
        np.concatenate([np.zeros(0, FLOW_DTYPE), *(side.runs[run] for run in runs)])
        for side in (ours, theirs)
    )
    ended = np.isfinite(our["took_s"]) & np.isfinite(their["took_s"])
    logs_reward = log_rewards(our["value"], their["value"])
    sizes = {}
    for size in CLASSES:
        of_size = ended & of_class(our, size)
        rewards = logs_reward[of_size & np.isfinite(logs_reward)]
        times = np.log(our["took_s"][of_size] / their["took_s"][of_size])
        sizes[size] = Ratios(len(times), len(rewards), _exp_mean(rewards), _exp_mean(times))
    return PathPair(
        sizes,
        (retransmit_share(our), retransmit_share(their)),
        (int(np.isinf(our["took_s"]).sum()), int(np.isinf(their["took_s"]).sum())),
        (ours.arms.get(path), theirs.arms.get(path)),
    )


def log_rewards(ours: Floats, theirs: Floats) -> Floats:
    """Return the log of our reward over theirs for each flow, from raw values. It has the shape (n,), and is
    clipped to ±`value.CLIP`.

    Two flows without a reward are equal. The result is NaN where a value is unknown.
    """
    with np.errstate(invalid="ignore"):
        logs: Floats = np.clip(ours - theirs, -CLIP, CLIP)
    logs[np.isneginf(ours) & np.isneginf(theirs)] = 0.0
    return logs


def _exp_mean(logs: Floats) -> float:
    return math.exp(float(logs.mean())) if logs.size else math.nan


def _mean(ratios: Sequence[float]) -> Mean | None:
    known = [ratio for ratio in ratios if not math.isnan(ratio)]
    return geometric_mean(known) if known else None


def _mean_points(points: Sequence[float]) -> Mean | None:
    """Return the arithmetic mean: the logarithm of the geometric mean of exponentials, bounds included."""
    mean = _mean([math.exp(point) for point in points])
    return mean and Mean(math.log(mean.value), math.log(mean.low), math.log(mean.high), mean.paths)
