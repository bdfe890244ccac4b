# SPDX-License-Identifier: Apache-2.0
"""Short runs of everything that the committed weights were trained on or decide with, as a few numbers each.

`python -m support.reference_runs` writes them to `tests/policies/reference_runs.json`. Do that only where a
number is meant to change: the weights in the repository were trained with the numbers that it had.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Final

import numpy as np

from ltp_switcher.arrays import Floats
from ltp_switcher.daemon.choose.bandit import ArmTable, MutantAgent
from ltp_switcher.daemon.settings.schema import LearnedSection, LearningSection
from ltp_switcher.daemon.steer.arms import loader
from ltp_switcher.policies.jury.task import JuryTask
from ltp_switcher.policies.ltp.balance import BalanceFilter
from ltp_switcher.policies.ltp.ccmatic import BeliefSets
from ltp_switcher.policies.ltp.particles import ParticleFilter
from ltp_switcher.policies.ltp.task import ROSTER, LtpTask
from ltp_switcher.policies.ltp.variants import VARIANTS
from ltp_switcher.policies.owl.reward import OWL, OWL_LOSS, Utility
from ltp_switcher.policies.owl.task import OwlTask
from ltp_switcher.policies.runtime.arm import Law
from ltp_switcher.policies.runtime.declaration import declarations
from ltp_switcher.policies.runtime.measurements import Echo, Interval
from ltp_switcher.policies.simulator import Flows, Paths, Roster, Simulator, Steps, regions
from ltp_switcher.policies.simulator.regions import Region, draw
from ltp_switcher.policies.simulator.tasks import Environment, Task
from ltp_switcher.policies.spine.signals import SpineSignals
from ltp_switcher.policies.spine.task import SpineTask
from support.bandit_world import World, random_encoder
from support.simulated_flows import FLOWS as SIMULATED
from support.simulated_flows import intervals

NUMBERS: Final = Path(__file__).parents[1] / "policies" / "reference_runs.json"
_ALL: Final = np.arange(SIMULATED)


def _told(arrays: Iterable[np.ndarray]) -> list[float]:
    """Two numbers of a series of arrays: its sum, and a sum by which an order that changes shows."""
    values = np.concatenate([np.asarray(array, np.float64).ravel() for array in arrays])
    values = np.where(np.isfinite(values), values, -1.0)
    weights = np.cos(np.arange(values.size))
    return [float(f"{value:.9g}") for value in (values.sum(), values @ weights)]


def simulation() -> list[float]:
    """All executors, on links with loss, jitter, changes of the rate and a trace."""
    paths = replace(
        Paths.uniform(6, rate_mbps=40.0, rtt_ms=30.0),
        buffer_pkts=np.array([100.0, 20.0, 300.0, 100.0, 100.0, 1000.0]),
        loss=np.array([0.0, 0.0, 0.0, 0.01, 0.0, 0.0]),
        jitter_ms=np.array([0.0, 0.0, 0.0, 0.0, 3.0, 0.0]),
        trace=np.array([-1, -1, -1, -1, -1, 0]),
        trace_start_ms=np.array([0, 0, 0, 0, 0, 150]),
        traces=(np.cumsum(np.tile([0, 0, 1, 3, 0, 9], 80)) + 1,),
        steps=Steps(
            at_s=np.array([[np.inf, np.inf, at_s, np.inf, np.inf, np.inf] for at_s in (1.0, 2.0)]),
            rate_mbps=np.array([[np.nan, np.nan, 10.0, np.nan, np.nan, np.nan], [np.nan] * 6]),
            rtt_ms=np.array([[np.nan] * 6, [np.nan, np.nan, 60.0, np.nan, np.nan, np.nan]]),
            loss=np.full((2, 6), np.nan),
        ),
    )
    shape = (4, 6)
    flows = Flows(
        np.array([[0.0], [0.2], [0.0], [0.7]]) * np.ones(shape),
        np.array([[np.inf], [np.inf], [2.0], [np.inf]]) * np.ones(shape),
        np.array([[np.nan], [50.0], [np.nan], [20.0]]) * np.ones(shape),
        np.array([[np.nan], [np.nan], [np.nan], [4.0]]) * np.ones(shape),
    )
    simulator = Simulator(paths, flows, Roster(window=1, aimd=1, cubic=1, fixed=1), seed=5, interval_s=0.03)
    seen: list[np.ndarray] = []
    for number in range(100):
        simulator.set_window(np.full((1, 6), 40.0 + 30.0 * np.sin(number / 9.0)))
        interval = simulator.step()
        # The simulator has no turns of ACKs. The committed number is older than this field.
        assert not interval.turn_pkts.any()
        parts: tuple[object, ...] = (interval, interval.echo)
        seen += [np.ravel(getattr(part, field.name)) for part in parts for field in fields(part)
                 if isinstance(getattr(part, field.name), np.ndarray)
                 and field.name != "turn_pkts"]  # type: ignore[arg-type]  # fmt: skip
    return _told(seen)


def _task(task: Task, region: Region, roster: Roster, interval_s: float, choices: int = 0) -> list[float]:
    environment = Environment(
        task, region, roster, environments=6, duration_s=60 * interval_s, interval_s=interval_s
    )
    seen, rng = environment.reset(3), np.random.default_rng(4)
    told = []
    while not seen.over:
        shape = (environment.slots, task.action_size)
        actions = rng.integers(0, choices, shape[0]) if choices else rng.uniform(-1, 1, shape)
        seen = environment.step(actions if choices else actions.astype(np.float32))
        told += [seen.observations[seen.active], seen.rewards[seen.active]]
    return _told(told)


def ltp(variant: str, *, bounded: bool) -> list[float]:
    """A variant's observations and rewards, beside itself and beside Cubic."""
    region = replace(regions.LTP_SMALL, flows=(2, 3), cubic_share=0.5)
    particles = 40 if VARIANTS[variant].probe else 0
    task = LtpTask(VARIANTS[variant].signals(), ROSTER.window, particles=particles, bounded=bounded)
    return _task(task, region, ROSTER, 0.03)


def jury() -> list[float]:
    """Jury's observations and rewards."""
    region = replace(regions.JURY, flows=(1, 3), cubic_share=0.3)
    return _task(JuryTask(2), region, Roster(window=2, cubic=1), 0.03)


def spine(law: Law) -> list[float]:
    """Spine's observations and rewards, or Spine-Cubic's."""
    roster = Roster(aimd=1, cubic=2) if law is Law.AIMD else Roster(cubic=3, learned_cubic=1)
    region = replace(regions.SPINE, flows=(1, 3), cubic_share=0.5)
    return _task(SpineTask(SpineSignals(law, 0.1), roster.agents), region, roster, 0.1)


def owl(utility: Utility) -> list[float]:
    """Owl's observations and rewards, or Owl-Loss's."""
    return _task(OwlTask(2, utility), regions.OWL, Roster(window=2, cubic=1), 0.03, choices=7)


def estimator(make: Callable[[], ParticleFilter | BalanceFilter | BeliefSets]) -> list[float]:
    """An estimator's ranges after each of forty intervals."""
    made = make()
    made.reset(_ALL)
    told = []
    for interval in intervals(0.03):
        made.update(_ALL, interval)
        found = made.ranges(_ALL)
        told += [found.rate, found.others, found.delay_s]
    return _told(told)


def arm(name: str, variant: str) -> list[float]:
    """A learned arm's parameters with its committed weights, in good times and in bad."""
    made = loader(LearnedSection(variants=(variant,)))(name)
    made.begin(_ALL, np.array([10.0, 60.0, 450.0, 40.0, 200.0, 10.0]))
    told = [made.decide(_ALL, interval) for interval in intervals(made.interval_s)]
    told += [made.decide(_ALL, _worse(interval)) for interval in intervals(made.interval_s)]
    return _told(told)


def _worse(interval: Interval) -> Interval:
    """Return the interval with longer queues and more loss."""

    def more(echo: Echo) -> Echo:
        return replace(echo, rtt_s=1.7 * echo.rtt_s, loss=np.minimum(0.9, echo.loss + 0.04))

    return replace(
        interval, index=interval.index + 40, rtt_s=1.7 * interval.rtt_s, lost_pkts=0.04 * interval.acked_pkts,
        echo=replace(more(interval.echo), index=interval.echo.index + 40),
        previous_echo=replace(more(interval.previous_echo), index=interval.previous_echo.index + 40),
    )  # fmt: skip


def links(region: Region) -> list[float]:
    """Links and flows that are drawn of a region."""
    paths, flows = draw(region, Roster(window=8, cubic=2), 40, 10.0, np.random.default_rng(1))
    parts: tuple[object, ...] = (paths, flows)
    return _told([getattr(part, field.name) for part in parts for field in fields(part)
                  if isinstance(getattr(part, field.name), np.ndarray)])  # type: ignore[arg-type]  # fmt: skip


def bandit(**settings: object) -> list[float]:
    """Decisions and rewards of three flows on a path on which the arms differ, and then change places."""
    table = ArmTable((1, 2, 3, 5), ("cubic", "bbr", "vegas", "westwood"))
    agent = MutantAgent(LearningSection(**settings), 10.0, table, random_encoder(), 1)  # type: ignore[arg-type]
    shares = {1: (0.5, 1.5), 2: (0.9, 1.1), 3: (0.7, 1.02), 5: (0.8, 1.8)}
    world = World(3, shares, 2e6, 30_000)
    slots, arms = np.arange(3), None
    agent.open(slots, ["192.0.2.0/24", "192.0.2.0/24", "198.51.100.0/24"])
    told: list[Floats] = []
    for number in range(300):
        if number == 200:
            world.arms = {1: (0.9, 1.1), 2: (0.3, 2.0), 3: (0.7, 1.02), 5: (0.8, 1.8)}
        result = agent.step(slots, world.step(arms))
        arms = result.arms
        told += [result.arms.astype(np.float64), result.reward]
    return _told(told)


RUNS: Final[Mapping[str, Callable[[], list[float]]]] = {
    "simulation": simulation,
    **{f"ltp {name}": lambda name=name: ltp(name, bounded=True) for name in VARIANTS},
    "ltp unbounded": lambda: ltp("ltp", bounded=False),
    "jury": jury,
    "spine": lambda: spine(Law.AIMD),
    "spine-cubic": lambda: spine(Law.CUBIC),
    "owl": lambda: owl(OWL),
    "owl-loss": lambda: owl(OWL_LOSS),
    "particles": lambda: estimator(lambda: ParticleFilter(0.03, seed=1, particles=80)),
    "balance": lambda: estimator(lambda: BalanceFilter(0.03, seed=1, particles=80)),
    "ccmatic": lambda: estimator(lambda: BeliefSets(0.03)),
    **{
        f"arm {variant.name}": lambda name=name, variant=variant.name: arm(name, variant)
        for name, declared in declarations().items()
        for variant in declared.variants
    },
    **{
        f"links {name}": lambda name=name: links(getattr(regions, name))
        for name in ("LTP_SMALL", "LTP_MEDIUM", "LTP_LARGE", "JURY", "SPINE", "OWL")
    },
    "bandit": bandit,
    "bandit paper": lambda: bandit(preset="paper"),
    "bandit acked": lambda: bandit(credit="acked", ucb="algorithm1", decide_on_change=True),
}  # fmt: skip


if __name__ == "__main__":
    NUMBERS.write_text(json.dumps({name: run() for name, run in RUNS.items()}, indent=1) + "\n")
