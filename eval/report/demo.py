# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval demo`: the switcher and single protocols on some small networks.

The flows of a scheme on a network are one player, as in `suite.siblings`. A scheme's share of a network is
its reward over the best arm's there. Its overall figure is the geometric mean of its shares. The rule was
tuned on networks of these kinds, so the demo shows how things work and proves nothing.
"""

from __future__ import annotations

import hashlib
import json
import math
import platform
import resource
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

import ltp_switcher
from ltp_switcher.artifacts import revision
from ltp_switcher.eval.lab.script import Place
from ltp_switcher.eval.run.batch import run_batch
from ltp_switcher.eval.run.bundled import SCENARIOS
from ltp_switcher.eval.run.executor import Executor
from ltp_switcher.eval.run.results import Job, RunResult
from ltp_switcher.eval.run.scenario import Scenario, load_scenario
from ltp_switcher.eval.run.summary import rounded
from ltp_switcher.eval.suite.plan import is_arm
from ltp_switcher.eval.suite.score import LEAST, geometric_mean
from ltp_switcher.eval.suite.siblings import player_reward
from ltp_switcher.figures import Estimate

US: Final = "switcher"
SCHEMES: Final = (US, "ltp", "bbr", "vegas", "cubic")
NETWORKS: Final = ("steady", "cellular", "wifi", "lossy", "rtt-step", "far")
OVER_TIME: Final = "rtt-step"
"""The network that the picture shows over time."""
DAEMON: Final[Place] = "beside"
"""Place of the daemon: on the host, with the guest's clock. Inside the guest, a run would take
twice as long.
"""
PROCESSOR_S_A_RUN: Final = 18.0
"""Processor time of a run in seconds, rounded up, as measured on one machine."""
_LINES: Final = ", with 95 % intervals over the seeds"
_PLACES: Final = ("first", "second", "third", "fourth", "last")


@dataclass(frozen=True, slots=True)
class Share:
    """A share of the best arm's reward, and its 95 % interval over the seeds (Student's t). A single seed has
    no interval.
    """

    value: float
    interval: tuple[float, float] | None = None

    @staticmethod
    def of(value: float, by_seed: Sequence[float]) -> Share:
        """Make a share from its value and the shares of the single seeds. The interval's lower end is at
        least 0.
        """
        half = Estimate.of(by_seed).half
        return Share(value, None if math.isnan(half) else (max(0.0, value - half), value + half))


@dataclass(frozen=True, slots=True)
class Network:
    """A network, and the rewards of each scheme on it, one for each seed, in Mbit/s squared per ms."""

    scenario: Scenario
    rewards: Mapping[str, tuple[float, ...]]

    def reward(self, scheme: str) -> float:
        """Return the scheme's mean reward over the seeds, in Mbit/s squared per ms."""
        return fmean(self.rewards[scheme])

    @property
    def best_arm(self) -> str:
        """The single protocol with the largest mean reward."""
        return max(filter(is_arm, self.rewards), key=self.reward)

    def by_seed(self, scheme: str) -> list[float]:
        """Return the reward of each seed over the best arm's mean reward; 0 if no arm earned anything."""
        best = self.reward(self.best_arm)
        return [reward / best if best > 0 else 0.0 for reward in self.rewards[scheme]]

    def shares(self) -> dict[str, Share]:
        """Return the mean reward of each scheme over the best arm's."""
        return {scheme: Share.of(fmean(of := self.by_seed(scheme)), of) for scheme in self.rewards}


@dataclass(frozen=True, slots=True)
class Demo:
    """The runs of the demo by network, and the figures that follow from them."""

    outcomes: Sequence[RunResult]
    networks: Sequence[Network]

    @property
    def overall(self) -> dict[str, Share]:
        """The geometric mean of each scheme's shares over the networks, the largest first.

        The interval covers only the seeds: other networks may give other means.
        """
        shares = [network.shares() for network in self.networks]
        means = {
            scheme: Share.of(
                _geometric_mean(of[scheme].value for of in shares),
                [
                    _geometric_mean(of)
                    for of in zip(*(one.by_seed(scheme) for one in self.networks), strict=True)
                ],
            )
            for scheme in shares[0]
        }
        return dict(sorted(means.items(), key=lambda pair: -pair[1].value))

    @property
    def message(self) -> str:
        """A line that tells how the schemes rank overall."""
        return ranking({scheme: share.value for scheme, share in self.overall.items()})

    @property
    def digest(self) -> str:
        """SHA-256 over the raw results of all runs, in their order."""
        digest = hashlib.sha256()
        for run in self.outcomes:
            for name in run.job.raw_files:
                digest.update(hashlib.sha256((run.folder / name).read_bytes()).digest())
        return digest.hexdigest()

    def of(self, network: str, scheme: str) -> list[RunResult]:
        """Return the runs of a scheme on a network, seed by seed."""
        return [one for one in self.outcomes if (one.job.scenario.name, one.job.scheme) == (network, scheme)]


def plan(seeds: Sequence[int], kernel: str) -> list[Job]:
    """Return the runs of the demo, network by network, with the schemes in the order of `SCHEMES`."""
    scenarios = [load_scenario(SCENARIOS / "demo" / f"{name}.toml") for name in NETWORKS]
    return [
        Job(scenario.with_scheme(scheme, every_flow=True), seed, kernel, daemon=DAEMON)
        for scenario in scenarios
        for scheme in SCHEMES
        for seed in seeds
    ]


def judge(outcomes: Sequence[RunResult]) -> Demo:
    """Group the runs by network, in order of first appearance."""
    scenarios: dict[str, Scenario] = {}
    rewards: dict[str, dict[str, tuple[float, ...]]] = {}
    for one in outcomes:
        name, scheme = one.job.scenario.name, one.job.scheme
        scenarios.setdefault(name, one.job.scenario)
        of = rewards.setdefault(name, {})
        of[scheme] = (*of.get(scheme, ()), player_reward(one.series))
    return Demo(outcomes, [Network(scenario, rewards[name]) for name, scenario in scenarios.items()])


def run_demo(
    out: Path, progress: Console, *, seeds: Sequence[int], kernel: str, executor: Executor, use_cache: bool
) -> Demo:
    """Make the demo's runs, and write `demo.png` and `report.json` into `out`.

    Args:
        out: folder for the files.
        progress: console for the time that the runs will need, and for their progress.
        seeds: seeds of each scheme on each network. The lines over time show the first seed.
        kernel: series of the guest's kernel.
        executor: executor that makes the runs. This function uses it as a context manager.
        use_cache: whether runs whose results are in the cache are taken from there.

    Returns:
        The runs and their figures. `report.json` is a pure function of the inputs, except its field `made`.

    Raises:
        LabError, ClusterError: a run failed.
    """
    # matplotlib is an extra, and `ltp-eval list` needs none.
    from ltp_switcher.eval.report.demo_picture import draw_demo, network_label

    began_s, used_s = time.monotonic(), _processor_s()
    made_of = revision()
    out.mkdir(parents=True, exist_ok=True)
    jobs = plan(seeds, kernel)
    progress.print(time_needed(len(jobs), executor.parallel), highlight=False, soft_wrap=True)
    outcomes = run_batch(
        jobs, progress, use_cache=use_cache, executor=executor,
        label=lambda job: f"{job.scenario.name} {job.scheme}" + f" #{job.seed}" * (len(seeds) > 1),
    )  # fmt: skip
    demo = judge(outcomes)
    made = {
        "ltp_switcher": ltp_switcher.__version__,
        "git_revision": made_of,
        "qemu": _output("qemu-system-x86_64", "--version"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "runs_from_cache": sum(run.cached for run in outcomes),
        "wall_s": time.monotonic() - began_s,
        "processor_s": _processor_s() - used_s,
    }
    (out / "report.json").write_text(json.dumps(rounded(_report(demo, made)), indent=2) + "\n")
    shown = [demo.of(OVER_TIME, scheme)[0] for scheme in SCHEMES]
    draw_demo(
        out / "demo.png", {network_label(one.scenario): one.shares() for one in demo.networks}, demo.overall,
        shown[0].job.scenario, [one.series[0] for one in shown],
        title=demo.message,
        explanation="Reward (goodput² / RTT, less for losses), as a share of the best single protocol's"
        f"{_LINES * (len(seeds) > 1)}. This is a demonstration\n"
        "on networks of the kinds that the rule was tuned on, not the test set. "
        f"Seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}, Linux {shown[0].release}, "
        f"results {demo.digest[:12]}.",
    )  # fmt: skip
    return demo


def time_needed(runs: int, parallel: int) -> str:
    """Return a text with the estimated time of the runs."""
    processor_min = runs * PROCESSOR_S_A_RUN / 60
    wall_min = processor_min / min(parallel, runs)
    return (
        f"{runs} runs: up to {processor_min:.0f} minutes of processor time, "
        f"and {wall_min:.0f} minutes where {min(parallel, runs)} cores are free"
    )


def ranking(shares: Mapping[str, float]) -> str:
    """Return a line that tells how the schemes rank. Schemes with the same two decimals rank equally."""
    told = {scheme: round(share, 2) for scheme, share in shares.items()}
    order = sorted(told, key=lambda scheme: -told[scheme])
    place = sum(told[scheme] > told[US] for scheme in order)
    level = [scheme for scheme in order if scheme != US and told[scheme] == told[US]]
    name = _PLACES[-1] if place and place + len(level) == len(order) - 1 else _PLACES[place]
    beside = f" with {' and '.join(level)}" if level else ""
    others = ", ".join(f"{scheme} {told[scheme]:.2f}" for scheme in order if scheme != US)
    return f"The {US} is {name}{beside}: {told[US]:.2f} of the best arm; {others}"


def _geometric_mean(shares: Iterable[float]) -> float:
    return geometric_mean([max(LEAST, share) for share in shares]).value


def print_demo(demo: Demo, console: Console, out: Path) -> None:
    """Print the shares by network and overall, the digest, and where picture and report are."""
    overall = demo.overall
    table = Table("share of the best arm", box=None, pad_edge=False)
    for scheme in overall:
        table.add_column(scheme, justify="right", no_wrap=True)
    rows = {one.scenario.name: one.shares() for one in demo.networks} | {"overall": overall}
    for name, shares in rows.items():
        told = [f"{shares[scheme].value:.2f}" for scheme in overall]
        marked = [f"[bold]{one}[/]" if one == max(told) else one for one in told]
        table.add_row(name, *marked)
        if any(share.interval for share in shares.values()):
            table.add_row("", *(_interval(shares[scheme].interval) for scheme in overall))
    console.print(table)
    console.print(
        f"\n{demo.message}\npicture: {out / 'demo.png'}\nreport:  {out / 'report.json'}\n"
        f"results: sha256 {demo.digest}\n"
        "         The same inputs give the same results on any host.",
        highlight=False, soft_wrap=True, markup=False,
    )  # fmt: skip


def _interval(of: tuple[float, float] | None) -> str:
    return "" if of is None else f"{of[0]:.2f} to {of[1]:.2f}"


def _report(demo: Demo, made: Mapping[str, object]) -> dict[str, object]:
    return {
        "sha256": demo.digest,
        "kernel": demo.outcomes[0].release,
        "daemon": DAEMON,
        "overall": {
            scheme: {"share": share.value, "interval": share.interval}
            for scheme, share in demo.overall.items()
        },
        "networks": {one.scenario.name: _network(demo, one) for one in demo.networks},
        "made": made,
    }


def _network(demo: Demo, network: Network) -> dict[str, object]:
    name = network.scenario.name
    schemes = {
        scheme: {
            "share": share.value,
            "interval": share.interval,
            "reward": network.reward(scheme),
            "runs": [
                {
                    "seed": run.summary.seed,
                    "utilisation": run.summary.utilisation,
                    "jain": run.summary.jain,
                    "flows": [asdict(flow) for flow in run.summary.flows],
                }
                for run in demo.of(name, scheme)
            ],
        }
        for scheme, share in network.shares().items()
    }
    return {"scenario": asdict(network.scenario), "best_arm": network.best_arm, "schemes": schemes}


def _processor_s() -> float:
    """Processor time so far of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _output(*command: str) -> str | None:
    """First line that a command prints; `None` if it cannot run."""
    try:
        text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return text.partition("\n")[0]
