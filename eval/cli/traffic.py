# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval traffic`: a server's flows over several paths at once, under each scheme."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from rich.console import Console

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.cli.output import json_text, need_pictures
from ltp_switcher.eval.report import traffic_results as report
from ltp_switcher.eval.report.traffic_flows import FILE, flows_csv
from ltp_switcher.eval.run.batch import run_batch
from ltp_switcher.eval.run.checked_table import LIMITS
from ltp_switcher.eval.run.daemon_settings import Settings, parse_assignments
from ltp_switcher.eval.run.executor import executor_of
from ltp_switcher.eval.run.results import Job
from ltp_switcher.eval.run.schemes import (
    DAEMON_SCHEMES,
    KERNEL_ARMS,
    LEARNED_ARMS,
    PINNED_PREFIX,
    VARIANTS,
    check_scheme,
)
from ltp_switcher.eval.run.traffic import Traffic
from ltp_switcher.eval.suite import traffic_sets as suite
from ltp_switcher.eval.suite.paths import is_held_out

SCHEMES: Final = ("switcher", "ltp", "bbr", "cubic", "vegas")
DECISION: Final = "switcher"
LIVE: Final = "mutant"
"""Name of the scheme for which `--set` gives the daemon's settings, such as those that turn the learner
on."""


def traffic(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """Run the schemes and compare them. Write JSON, all flows, and a picture."""
    need_pictures()
    low, high = LIMITS["load"]
    if not low <= options.load <= high:
        raise ConfigError("--load", options.load, f"a number from {low:g} to {high:g}")
    settings = parse_assignments(options.settings)
    seeds = options.seeds or list(suite.SEEDS[options.kinds])
    paths = suite.chosen(options.kinds, options.paths)
    jobs = {
        (scheme, seed): Job(
            suite.scenario_of(
                options.kinds, paths, Traffic(options.flows, options.load), _run_by(scheme, settings), seed
            ).with_settings(settings if scheme == LIVE else ()),
            seed,
            options.kernel,
            daemon=options.daemon,
        )
        for scheme in options.schemes
        for seed in seeds
    }
    if is_held_out(options.kinds) and not {*DAEMON_SCHEMES, LIVE}.isdisjoint(options.schemes):
        progress.print("this is a look at paths that are held out: write it into docs/lab-notes/held-out.md")
    labels = {job: f"{scheme}, seed {seed}" for (scheme, seed), job in jobs.items()}
    with executor_of(options.jobs, options.cluster) as executor:
        made = run_batch(
            list(jobs.values()),
            progress,
            use_cache=options.cache,
            executor=executor,
            label=labels.__getitem__,
        )
    runs = [report.made_of(scheme, result) for (scheme, _), result in zip(jobs, made, strict=True)]
    found = report.figures(
        report.gathered(runs),
        reference=DECISION if DECISION in options.schemes else options.schemes[0],
        arms=[scheme for scheme in options.schemes if is_fixed(scheme)],
        seeds=seeds,
    )
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    text = json_text(found.to_dict())
    (out / "traffic.json").write_text(text)
    (out / FILE).write_text(flows_csv(found.traffics))
    from ltp_switcher.eval.report.traffic_tables import draw_traffic, tables

    draw_traffic(out / "traffic.png", found)
    if options.json:
        console.out(text, end="", highlight=False)
        return
    for table in tables(found):
        console.print(table, highlight=False)
    console.print(f"\n{out}: traffic.json, {FILE}, traffic.png", highlight=False)


def _run_by(scheme: str, settings: Settings) -> str:
    """The scheme of a scenario that runs a scheme of the command."""
    if scheme == LIVE:
        if not settings:
            raise ConfigError("--schemes", LIVE, "this scheme with --set, which says what the daemon does")
        return DECISION
    if scheme in KERNEL_ARMS:
        # The scheme runs under the module, so that the module reports the flows' outcomes.
        return f"{PINNED_PREFIX}{scheme}"
    return check_scheme("--schemes", scheme, more=(LIVE,))


def is_fixed(scheme: str) -> bool:
    """Whether the scheme is one arm for all flows."""
    return scheme in (*KERNEL_ARMS, *LEARNED_ARMS, *VARIANTS)
