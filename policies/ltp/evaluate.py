# SPDX-License-Identifier: Apache-2.0
"""Judge LTP in the simulator. The commands:

estimators  coverage and width of the particle filter's and CCmatic's ranges (LTP, Section 7.1)
links       the policy on the reference link, one factor varied at a time, and beside Cubic (LTP, Section 7.3)
changes     the policy on a link that changes once, with pulses and without
swings      the probe reward of flows whose rate swings, on a link that is known exactly (LTP, Section 5)
paths       mean normalised reward of trained variants on 100 held-out paths a region (LTP, Section 7.2)
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ltp_switcher.commands import program, whole
from ltp_switcher.policies.ltp import ARM, changes, estimation, held_out, links, swings
from ltp_switcher.policies.ltp.balance import BalanceFilter
from ltp_switcher.policies.ltp.ccmatic import BeliefSets
from ltp_switcher.policies.ltp.estimator_traces import Trace, simulate
from ltp_switcher.policies.ltp.particles import PARTICLES, ParticleFilter
from ltp_switcher.policies.ltp.signals import INTERVAL_S
from ltp_switcher.policies.ltp.task import REGIONS
from ltp_switcher.policies.runtime.arm import Arm
from ltp_switcher.policies.simulator.paths import PPS_PER_MBPS, Flows, Paths
from ltp_switcher.policies.simulator.simulator import Roster

_TRACE_LINKS: Final = 8
_TRACE_S: Final = 30.0
_TRACE_SEED: Final = 3
_JOINS_S: Final = 5.0
"""Start of the second flow of a pair, in seconds."""


def _arm(weights: Path) -> Arm:
    return changes.arm(weights, pulses=False)


def traces(weights: Path) -> dict[str, Trace]:
    """Make two traces, of pairs of Cubic flows and of pairs of LTP flows, on links of 10 to 200 Mbit/s and 20
    to 100 ms.

    The second flow of a pair starts later.
    """
    rng = np.random.default_rng(_TRACE_SEED)
    rate_mbps = np.exp(rng.uniform(np.log(10.0), np.log(200.0), _TRACE_LINKS))
    rtt_ms = rng.uniform(20.0, 100.0, _TRACE_LINKS)
    paths = Paths(
        rate_mbps=rate_mbps,
        rtt_ms=rtt_ms,
        buffer_pkts=np.maximum(4.0, rate_mbps * PPS_PER_MBPS * rtt_ms / 1e3),
        loss=np.zeros(_TRACE_LINKS),
        jitter_ms=rng.uniform(0.0, 2.0, _TRACE_LINKS),
        trace=np.full(_TRACE_LINKS, -1),
        trace_start_ms=np.zeros(_TRACE_LINKS, np.int64),
    )
    shape = (2, _TRACE_LINKS)
    start_s = np.broadcast_to(np.array([[0.0], [_JOINS_S]]), shape).copy()
    flows = Flows(start_s, np.full(shape, np.inf), np.full(shape, np.nan))

    def record(roster: Roster, arm: Arm | None = None) -> Trace:
        return simulate(paths, flows, roster, duration_s=_TRACE_S, interval_s=INTERVAL_S, seed=1, arm=arm)

    return {"cubic pair": record(Roster(cubic=2)), "ltp pair": record(Roster(window=2), _arm(weights))}


def judge_estimators(options: argparse.Namespace) -> dict[str, dict[str, estimation.Judgement]]:
    """Judge each estimator on each trace; the judgements are keyed by trace and estimator."""
    return {
        name: {
            "balance": estimation.judge(
                BalanceFilter(INTERVAL_S, seed=1, particles=options.particles), trace
            ),
            "particles": estimation.judge(
                ParticleFilter(INTERVAL_S, seed=1, particles=options.particles), trace
            ),
            "ccmatic": estimation.judge(BeliefSets(INTERVAL_S), trace),
        }
        for name, trace in traces(options.weights).items()
    }


def judge_links(options: argparse.Namespace) -> dict[str, links.LinkSummary]:
    """Judge the policy on the links of `links`, and return a summary of each by name, the mean over
    `links.REPEATS` runs.
    """
    judged: dict[str, links.LinkSummary] = {}
    with _progress() as progress:
        task = progress.add_task("links", total=sum(round(length / INTERVAL_S) for _, length in links.RUNS))
        for together, duration_s in links.RUNS:
            figures = links.run(
                _arm(options.weights),
                [link for link in together for _ in range(links.REPEATS)],
                seed=1,
                duration_s=duration_s,
                on_step=lambda: progress.advance(task),
            )
            for link in together:
                repeats, figures = figures[: links.REPEATS], figures[links.REPEATS :]
                judged[link.name] = links.LinkSummary.mean(repeats)
    return judged


def judge_changes(options: argparse.Namespace) -> dict[str, dict[str, changes.Kept]]:
    """Return throughput share and RTT for each change of the link, with pulses and without.

    The figures are means over the seeds.
    """
    seeds: int = options.seeds
    judged: dict[str, dict[str, changes.Kept]] = {change.name: {} for change in changes.CHANGES}
    with _progress() as progress:
        task = progress.add_task("changes", total=2 * seeds * round(changes.JUDGED_S[1] / INTERVAL_S))
        for name, pulses in (("with pulses", True), ("without", False)):
            kept = changes.run(
                changes.arm(options.weights, pulses=pulses),
                changes.CHANGES,
                seeds=seeds,
                on_step=lambda: progress.advance(task),
            )
            for change, one in zip(changes.CHANGES, kept, strict=True):
                judged[change.name][name] = one
    return judged


def judge_swings(options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Return the mean probe reward (R_esti) by particle filter and by size of the rate's swing."""
    particles: int = options.particles
    filters: dict[str, estimation.Estimator] = {
        "particles": ParticleFilter(INTERVAL_S, seed=1, particles=particles),
        "particles, none drawn anew": ParticleFilter(INTERVAL_S, seed=1, particles=particles, fresh=0.0),
        "balance": BalanceFilter(INTERVAL_S, seed=1, particles=particles),
    }
    return {name: swings.judge(one, INTERVAL_S) for name, one in filters.items()}


def judge_paths(options: argparse.Namespace) -> dict[str, dict[str, held_out.Rewards]]:
    """Return the mean rewards on held-out paths by weight file and training region."""
    policies = {path.stem: held_out.Policy.read(path) for path in options.files}
    steps = round(held_out.DURATION_S / INTERVAL_S) * len(policies) * len(options.regions)
    with _progress() as progress:
        task = progress.add_task("paths", total=steps)
        return {
            name: {
                region: held_out.judge(
                    policy, region, particles=options.particles, on_step=lambda: progress.advance(task)
                )
                for region in options.regions
            }
            for name, policy in policies.items()
        }


def _progress() -> Progress:
    return Progress(console=Console(stderr=True), transient=True)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="right" if number else "left")
    return table


def _show_estimators(judged: Mapping[str, Mapping[str, estimation.Judgement]]) -> Table:
    table = _table(
        "trace", "estimator", *(f"{kind}\n{q}" for q in ("x/c", "xo/c", "d") for kind in ("cov.", "width"))
    )
    for trace, estimators in judged.items():
        for name, found in estimators.items():
            cells = [
                f"{value:.3f}"
                for quality in (found.rate, found.others, found.delay_s)
                for value in (quality.coverage, quality.width)
            ]
            table.add_row(trace, name, *cells)
    return table


def _show_links(judged: Mapping[str, links.LinkSummary]) -> Table:
    table = _table("link", "utilisation", "RTT / base", "loss %", "/ Cubic")
    for name, found in judged.items():
        ratio = "" if found.ratio_to_cubic is None else f"{found.ratio_to_cubic:.2f}"
        table.add_row(
            name, f"{found.utilisation:.3f}", f"{found.rtt_ratio:.2f}", f"{100 * found.loss:.2f}", ratio
        )
    return table


def _show_changes(judged: Mapping[str, Mapping[str, changes.Kept]]) -> Table:
    table = _table(
        "link after the change", "share\nwith pulses", "without", "RTT / own\nwith pulses", "without"
    )
    for name, kept in judged.items():
        shares = [f"{one.share:.2f}" for one in kept.values()]
        table.add_row(name, *shares, *(f"{one.rtt_ratio:.2f}" for one in kept.values()))
    return table


def _show_swings(judged: Mapping[str, Mapping[str, float]]) -> Table:
    table = _table("R_esti by", *(f"{100 * swing:g} %" for swing in swings.SWINGS))
    for name, rewards in judged.items():
        table.add_row(name, *(f"{reward:.2f}" for reward in rewards.values()))
    return table


def _show_paths(judged: Mapping[str, Mapping[str, held_out.Rewards]]) -> Table:
    columns = [field.name for field in fields(held_out.Rewards)]
    table = _table("weights", "region", *(name.replace("_", " ") for name in columns))
    for name, regions in judged.items():
        for region, found in regions.items():
            table.add_row(name, region, *(f"{getattr(found, column):.3f}" for column in columns))
    return table


_COMMANDS: Final[Mapping[str, tuple[Callable[[argparse.Namespace], Any], Callable[[Any], Table]]]] = {
    "estimators": (judge_estimators, _show_estimators),
    "links": (judge_links, _show_links),
    "changes": (judge_changes, _show_changes),
    "swings": (judge_swings, _show_swings),
    "paths": (judge_paths, _show_paths),
}


@program("evaluate")
def main(arguments: Sequence[str] | None) -> int:
    """Run the command that the arguments name; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m ltp_switcher.policies.ltp.evaluate",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    commands = parser.add_subparsers(dest="command", required=True)
    estimators = commands.add_parser("estimators")
    on_links = commands.add_parser("links")
    changing = commands.add_parser("changes")
    swinging = commands.add_parser("swings")
    paths = commands.add_parser("paths")
    for command in (estimators, on_links, changing):
        command.add_argument("--weights", type=Path, default=ARM.variants[0].weights, metavar="FILE")
    for command in (estimators, swinging, paths):
        command.add_argument("--particles", type=whole(2, 100_000), default=PARTICLES, metavar="N")
    changing.add_argument("--seeds", type=whole(1, 100), default=3, metavar="N", help="default: 3")
    paths.add_argument("files", type=Path, nargs="+", metavar="FILE", help="weights of trained variants")
    paths.add_argument("--regions", nargs="+", choices=REGIONS, default=list(REGIONS))
    options = parser.parse_args(arguments)
    judge, show = _COMMANDS[options.command]
    judged = judge(options)
    if options.json:
        print(json.dumps(judged, default=asdict))
    else:
        Console().print(show(judged))
    return 0


if __name__ == "__main__":
    sys.exit(main())
