# SPDX-License-Identifier: Apache-2.0
"""The worth of each special case of the rule: the reward without the case relative to the whole rule's, by
path.

A run in the lab is a function of the daemon's decisions. So the daemon's records of a run of the whole rule
are given to a rule that lacks a case. If this rule decides the same throughout, a run without the case would
be equal to the byte, and the ratio is 1. Only the other paths are run again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Final

import numpy as np
import numpy.typing as npt

from ltp_switcher.arrays import ArmIds, Floats, Slots
from ltp_switcher.cache import cache_dir
from ltp_switcher.daemon.choose.rule.rule import RuleChooser
from ltp_switcher.daemon.datapath import RecordArray
from ltp_switcher.daemon.datapath.protocol import ArmId
from ltp_switcher.daemon.settings.rule_policy import CASES, RuleSection
from ltp_switcher.errors import ArtifactError
from ltp_switcher.eval.run.results import Job, RunResult
from ltp_switcher.eval.suite.score import LEAST, Mean, geometric_mean

WHOLE: Final = "rule"
_POOL: Final = (ArmId.BBR, ArmId.LTP, ArmId.VEGAS)


@dataclass(frozen=True, slots=True)
class Worth:
    """A special case, and the measured effect of leaving it out."""

    case: str
    acts_on: Sequence[str]
    """Paths on which the rule's decisions change without the case."""
    ratios: Mapping[str, float]
    """Ratio of the reward without the case to the whole rule's, by path; 1 if no decision differs."""
    mean: Mean | None
    """The geometric mean of the ratios; None if runs are missing."""


def recorded(job: Job) -> Job:
    """Return the same job, whose daemon also writes a recording."""
    settings = (("daemon.record", str(recording_of(job))),)
    return replace(job, scenario=job.scenario.with_settings(settings))


def recording_of(job: Job) -> Path:
    """Return the file of a run's recording. Its name has a hash, because paths of two sets may have one
    name.
    """
    inputs = f"{job.scenario.canonical()}\0{job.seed}\0{job.kernel}\0{job.daemon}"
    known_by = hashlib.sha256(inputs.encode()).hexdigest()[:16]
    return cache_dir() / "recordings" / f"{job.scenario.name}-{known_by}.npy"


def without(job: Job, case: str) -> Job:
    """Return the job that runs the rule without the case."""
    return replace(job, scenario=job.scenario.with_settings((("rule.without", (case,)),)))


def play(rows: npt.NDArray[np.void], settings: RuleSection) -> npt.NDArray[np.uint8]:
    """Give the records of a recording to a rule, and return the rule's decisions.

    Args:
        rows: `ROW_DTYPE`, shape (rows,), of flows to one destination prefix.
        settings: settings of the rule.

    Returns:
        The rule's decisions, shape (rows, 4): the arm and three flags. The flags tell whether the path gets a
        pulse for more rate, whether the window has to be small, and whether the arm begins anew.
    """
    rule = RuleChooser(_POOL, settings)
    decisions = np.zeros((len(rows), 4), np.uint8)
    for step, slots, records, arms in steps(rows, rule):
        decisions[step] = np.stack(
            (arms, rule.asks(slots), rule.drains(slots, records), rule.begins_anew(slots)), axis=1
        )
    return decisions


def told(rows: npt.NDArray[np.void], look_s: float) -> Floats:
    """Return the numbers that the rule knows about a flow's path after the first seconds of the flow's
    recording.

    Args:
        rows: `ROW_DTYPE`, shape (rows,), of one flow.
        look_s: seconds after the flow's first record.

    Returns:
        The numbers in the order of `Number`, shape (numbers,), NaN where not observed.

    Raises:
        ArtifactError: the recording is shorter.
    """
    rule = RuleChooser(_POOL, RuleSection())
    for _, slots, records, _ in steps(rows, rule):
        if float(records["time_ns"][0]) - float(rows["record"]["time_ns"][0]) >= look_s * 1e9:
            value: Floats = rule.path(slots[:1]).value[0]
            return value
    raise ArtifactError(f"a recording ends before its first {look_s:g} s are over; make the run again")


def steps(
    rows: npt.NDArray[np.void], rule: RuleChooser
) -> Iterator[tuple[slice, Slots, RecordArray, ArmIds]]:
    """Give the records of a recording to a rule. Yield for each step its rows, the flows' slots, their
    records, and the arms that the rule chooses.
    """
    cookies: dict[int, int] = {}
    starts = np.flatnonzero(np.diff(rows["step"], prepend=-1))
    for begin, end in zip(starts, [*starts[1:], len(rows)], strict=True):
        slots, records = rows["slot"][begin:end].astype(np.int64), rows["record"][begin:end]
        for slot, cookie in zip(slots.tolist(), records["cookie"].tolist(), strict=True):
            if cookies.get(slot) != cookie:
                one = np.array([slot])
                if slot in cookies:
                    rule.close(one)
                rule.open(one, ["192.0.2.0/24"])
                cookies[slot] = cookie
        yield slice(begin, end), slots, records, rule.step(slots, records).arms


def acting(rows: npt.NDArray[np.void], cases: Sequence[str] = CASES) -> list[str]:
    """Return the cases on which the rule's decisions depend, given the recording of a run of the whole rule.

    Args:
        rows: `ROW_DTYPE`, shape (rows,).
        cases: the cases to test.

    Raises:
        ArtifactError: the whole rule decides otherwise than the recording says.
    """
    whole = play(rows, RuleSection())
    if not np.array_equal(whole[:, 0], rows["chosen"]):
        raise ArtifactError(
            "the rule decides otherwise than the recording says: another version made it, or its flows went "
            "to several networks; make the run again, or leave the path out"
        )
    return [case for case in cases if not np.array_equal(play(rows, RuleSection(without=(case,))), whole)]


def worth(
    case: str,
    acts_on: Sequence[str],
    whole: Mapping[str, RunResult],
    lacking: Mapping[str, RunResult],
) -> Worth:
    """Compare runs without a case with runs of the whole rule.

    Args:
        case: the case.
        acts_on: paths on which a decision differs.
        whole: runs of the whole rule, by path.
        lacking: runs without the case, by path, for the paths of `acts_on` that were run.
    """
    ratios = {path: 1.0 for path in whole if path not in acts_on}
    ratios |= {path: max(LEAST, _reward(lacking[path]) / _reward(whole[path])) for path in lacking}
    complete = len(ratios) == len(whole)
    return Worth(case, acts_on, ratios, geometric_mean(list(ratios.values())) if complete else None)


def _reward(result: RunResult) -> float:
    """Return the mean reward of the flows under the rule."""
    return fmean(flow.reward for flow in result.summary.flows if flow.scheme == WHOLE)
