# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval demo`: the switcher on a path that changes, and single protocols on the same path."""

from __future__ import annotations

import json
import platform
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Final

import numpy as np
from rich.console import Console

import ltp_switcher
from ltp_switcher.artifacts import revision
from ltp_switcher.eval.report.tables import schemes_table
from ltp_switcher.eval.run.batch import run_batch
from ltp_switcher.eval.run.bundled import SCENARIOS
from ltp_switcher.eval.run.results import Job, RunResult
from ltp_switcher.eval.run.scenario import load_scenario
from ltp_switcher.eval.run.schemes import KERNEL_ARMS
from ltp_switcher.eval.run.summary import rounded

SCHEMES: Final = ("switcher", "cubic", "bbr", "vegas")
ALL_SCHEMES: Final = ("switcher", "random", *KERNEL_ARMS)
_PLACES: Final = {1: "second", 2: "third"}


def run_demo(
    out: Path, progress: Console, *, seed: int, seeds: int, kernel: str, all_arms: bool
) -> list[RunResult]:
    """Run the demo's schemes, and write `demo.png` and `report.json` into `out`.

    Args:
        out: folder.
        progress: takes the runs' progress.
        seed: seed of the runs in the picture.
        seeds: runs of each scheme, each with the next seed.
        kernel: the guest's.
        all_arms: whether to run all kernel protocols.

    Returns:
        The runs, seed by seed, the schemes of each in their order.

    Raises:
        LabError: the lab failed.
    """
    # matplotlib is an extra, and `ltp-eval list` needs none.
    from ltp_switcher.eval.report.timeline import draw_timeline

    began = time.monotonic()
    made_of = revision()
    scenario = load_scenario(SCENARIOS / "demo.toml")
    schemes = ALL_SCHEMES if all_arms else SCHEMES
    out.mkdir(parents=True, exist_ok=True)
    jobs = [
        Job(scenario.with_scheme(scheme), one, kernel)
        for one in range(seed, seed + seeds)
        for scheme in schemes
    ]
    outcomes = run_batch(
        jobs, progress, use_cache=False,
        label=lambda job: job.scheme if seeds == 1 else f"{job.scheme} #{job.seed}",
    )  # fmt: skip
    shown = [outcome for outcome in outcomes[: len(schemes)] if outcome.job.scheme in SCHEMES]
    scores = {outcome.job.scheme: outcome.summary.flows[0].reward for outcome in shown}
    draw_timeline(
        out / "demo.png", scenario, [outcome.series()[0] for outcome in shown],
        title=who_won(scores, "switcher"),
        explanation="The same changing link under each scheme, one flow at a time. "
        f"One run each: seed {seed}, Linux {kernel}.",
        scores=scores,
    )  # fmt: skip
    report = _report(outcomes, made_of, wall_s=time.monotonic() - began)
    (out / "report.json").write_text(json.dumps(rounded(report), indent=2) + "\n")
    return outcomes


def medians(outcomes: Sequence[RunResult]) -> dict[str, float]:
    """The median reward of each scheme over its seeds, the highest first."""
    rewards: dict[str, list[float]] = {}
    for outcome in outcomes:
        rewards.setdefault(outcome.job.scheme, []).append(outcome.summary.flows[0].reward)
    found = {scheme: median(of) for scheme, of in rewards.items()}
    return dict(sorted(found.items(), key=lambda pair: -pair[1]))


def who_won(scores: Mapping[str, float], us: str) -> str:
    """Say in a line which scheme has the highest score, and how far `us` is ahead or behind."""
    ranking = sorted(scores, key=lambda scheme: -scores[scheme])
    first, second = ranking[:2]
    if scores[first] == 0.0:
        return "No scheme has a score"
    if first == us:
        if scores[second] == 0.0:
            return f"The {us} wins. No other scheme has a score"
        return f"The {us} wins, {100.0 * (scores[us] / scores[second] - 1.0):.0f} % ahead of {second}"
    place = "last" if ranking[-1] == us else _PLACES.get(ranking.index(us), f"number {ranking.index(us) + 1}")
    return f"{first} wins. The {us} is {place}, {100.0 * (1.0 - scores[us] / scores[first]):.0f} % behind"


def _report(outcomes: Sequence[RunResult], made_of: str, *, wall_s: float) -> dict[str, object]:
    job = outcomes[0].job
    return {
        "scenario": asdict(job.scenario),
        "seed": job.seed,
        "rewards": {
            scheme: {
                "median": value,
                "by_seed": {
                    outcome.job.seed: outcome.summary.flows[0].reward
                    for outcome in outcomes
                    if outcome.job.scheme == scheme
                },
            }
            for scheme, value in medians(outcomes).items()
        },
        "schemes": {
            outcome.job.scheme: {
                **asdict(outcome.summary.flows[0]),
                "utilisation": outcome.summary.utilisation,
                "wall_s": outcome.summary.wall_s,
                "virtual_s": outcome.virtual_s,
            }
            for outcome in outcomes
            if outcome.job.seed == job.seed
        },
        "versions": {
            "ltp_switcher": ltp_switcher.__version__,
            "kernel": outcomes[0].release,
            "qemu": _output("qemu-system-x86_64", "--version"),
            "python": platform.python_version(),
            "numpy": np.__version__,
        },
        "git_revision": made_of,
        "wall_s": wall_s,
    }


def _output(*command: str) -> str | None:
    """First line that a command prints; `None` if it cannot run."""
    try:
        text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    return text.partition("\n")[0]


def print_demo(outcomes: Sequence[RunResult], console: Console, out: Path) -> None:
    """Print the comparison, and where the picture and the report are."""
    first = [outcome for outcome in outcomes if outcome.job.seed == outcomes[0].job.seed]
    summaries = [outcome.summary for outcome in first]
    console.print()
    console.print(schemes_table(f"{summaries[0].scenario}: the same path under each scheme", summaries))
    if len(outcomes) > len(first):
        found = ", ".join(f"{scheme} {value:.2f}" for scheme, value in medians(outcomes).items())
        console.print(
            f"\nMedian reward of {len(outcomes) // len(first)} seeds: {found}",
            highlight=False,
            soft_wrap=True,
        )
    console.print(
        f"\npicture: {out / 'demo.png'}\nreport:  {out / 'report.json'}", highlight=False, soft_wrap=True
    )
