# SPDX-License-Identifier: Apache-2.0
"""Simulated rollouts: how often and how soon a harmful rollout is reverted, and how often a harmless one is.

Every rollout goes through `daemon.gain.rollout.Rollout`, as in the daemon.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np

from ltp_switcher.daemon.gain.evidence import Evidence
from ltp_switcher.daemon.gain.rollout import STAGES, Plan, Rollout, Units
from ltp_switcher.eval.gain.coverage import Share
from ltp_switcher.eval.gain.simulated_log import BEGIN_S, BLOCK_S, WASHOUT_S, Effects, Server

MakeEvidence = Callable[[tuple[float, ...]], Evidence]
HALF: Final = 2
"""Index of the stage with 50 % of the traffic."""
DAY_S: Final = 86_400.0


@dataclass(frozen=True, slots=True)
class Design:
    """A kind of rollout over a server's traffic.

    `days` is the longest simulated time. `stage_min_s` is the shortest time of a stage, in seconds.
    """

    units: Units
    prefixes: int
    days: int
    stage_min_s: float = 4 * 3600.0

    @property
    def name(self) -> str:
        """The design in words."""
        return f"{self.units}, {self.prefixes} prefixes"


DESIGNS: Final = (Design("blocks", 30, 28), Design("prefixes", 1000, 4))
TOLERANCE: Final = 0.05
STAGE_MAX_S: Final = 14 * DAY_S


@dataclass(frozen=True, slots=True)
class Run:
    """A finished rollout. Its `end` is `done`, `harm`, `undecided`, or `open` if the
    simulation ended first.
    """

    end: str
    stage: int
    """Index of the stage in which the rollout ended; 3 is all of the traffic."""
    hours: float
    wrong: bool
    """Whether the rollout's bounds of the effect excluded the true effect at any time."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The ends of all rollouts of one design with one true effect.

    Attributes:
        back: share of the rollouts that went back to mode advise. A rollout that was still open when the
            simulation ended is not one of them.
        early: share of the rollouts that count in `back` and ended before the stage of 50 %.
        wrong: share of the rollouts whose bounds excluded the true effect at any time.
        ends: number of rollouts by end and by the stage's share of the traffic, such as `harm at 10%`.
        hours: 5, 50 and 95 % quantiles of the time until the end, in hours.
    """

    design: str
    effect: float
    back: Share
    early: Share
    wrong: Share
    ends: dict[str, int]
    hours: tuple[float, float, float]


def judge(
    design: Design, effect: float, runs: int, seed: int, pool: ProcessPoolExecutor | None,
    make_evidence: MakeEvidence = Evidence,
) -> Iterator[int | Outcome]:  # fmt: skip
    """Simulate rollouts with this relative effect on goodput. Yield the number done, and finally the outcome.

    Rollout i has the seed `seed + i`. Without a pool, rollouts run in this process.
    """
    one = partial(run, design, effect, make_evidence)
    seeds = range(seed, seed + runs)
    found = []
    for number, result in enumerate(
        map(one, seeds) if pool is None else pool.map(one, seeds, chunksize=4), 1
    ):
        found.append(result)
        yield number
    back = [one for one in found if one.end not in ("done", "open")]
    early = sum(one.stage < HALF for one in back)
    ends = Counter(f"{one.end} at {STAGES[one.stage].share:.0%}" for one in found)
    low, middle, high = np.quantile([one.hours for one in found], (0.05, 0.5, 0.95)).tolist()
    yield Outcome(
        design.name, effect, Share(len(back), runs), Share(early, runs),
        Share(sum(one.wrong for one in found), runs), dict(sorted(ends.items())), (low, middle, high),
    )  # fmt: skip


def run(design: Design, effect: float, make_evidence: MakeEvidence, seed: int) -> Run:
    """Simulate one rollout from start to end."""
    blocks = int(design.days * DAY_S / BLOCK_S)
    server, effects = Server(seed, design.prefixes, blocks), Effects(goodput=effect)
    plan = Plan(design.units, seed, BLOCK_S, WASHOUT_S, 1, TOLERANCE, design.stage_min_s, STAGE_MAX_S)
    rollout = Rollout(plan, BEGIN_S - BLOCK_S / 2, (), lambda needed: make_evidence((*needed, effect)))
    units = np.arange(design.prefixes, dtype=np.uint64)
    begin, after_s, number = int(BEGIN_S // BLOCK_S), BEGIN_S, 0
    while rollout.end is None:
        trial, length = rollout.trial, STAGES[rollout.stage].blocks
        first = trial.first + number * length
        if first - begin + length > blocks:
            break
        lots = trial.lots(units if trial.by_prefix else units[:1], number)
        rows, prefix = server.rows(first - begin, np.broadcast_to(lots, (design.prefixes, length)), effects)
        rollout.take(rows, units[prefix])
        after_s = (first + length) * BLOCK_S + WASHOUT_S
        rollout.look(after_s)
        while not rollout.settled:
            rollout.look(after_s)
        number = number + 1 if rollout.trial is trial else 0
    lower, upper = rollout.evidence.lower, rollout.evidence.upper
    wrong = (lower is not None and lower >= effect) or (upper is not None and upper <= effect)
    return Run(rollout.end or "open", rollout.stage, (after_s - BEGIN_S) / 3600, wrong)
