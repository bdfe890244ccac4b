# SPDX-License-Identifier: Apache-2.0
"""The commands: each makes its runs, writes its files, and prints its table."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from rich.console import Console

from ltp_switcher.encoder.gru import GRUEncoder
from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.cli.output import json_text, need_pictures, show
from ltp_switcher.eval.lab.recorded_traces import fetch_traces
from ltp_switcher.eval.mahimahi.run import as_emulated
from ltp_switcher.eval.report import cost as costs
from ltp_switcher.eval.report import demo, step_cost, tables
from ltp_switcher.eval.report import handover as handovers
from ltp_switcher.eval.report import team_agreement as agreement
from ltp_switcher.eval.report.claims.catalogue import CLAIMS
from ltp_switcher.eval.report.compare import compare as run_and_compare
from ltp_switcher.eval.report.engine_agreement import shortened
from ltp_switcher.eval.run.batch import run_batch
from ltp_switcher.eval.run.bundled import bundled_scenarios, find_scenario
from ltp_switcher.eval.run.daemon_settings import parse_assignments
from ltp_switcher.eval.run.executor import executor_of
from ltp_switcher.eval.run.results import KERNELS, Job, RunResult
from ltp_switcher.eval.run.scenario import Scenario
from ltp_switcher.eval.run.schemes import AVAILABLE, NAMES, check_scheme
from ltp_switcher.eval.run.trace_files import list_traces

CONTEXT_SCENARIOS: Final = ("fixed", "high-rtt", "large-queue", "low-capacity", "lossy", "mixed")
"""Six network environments, as in Mutant Fig. 14."""


def run(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """`ltp-eval run`: it runs one scenario, and writes the run's files and `timeline.png`."""
    scenario = find_scenario(options.scenario)
    if options.every_flow and options.scheme is None:
        raise ConfigError("--every-flow", True, "with --scheme, which names the scheme of all flows")
    if options.scheme is not None:
        scenario = scenario.with_scheme(options.scheme, every_flow=options.every_flow)
    scenario = scenario.with_settings(parse_assignments(options.settings))
    if options.engine == "mahimahi":
        scenario = as_emulated(scenario)
    need_pictures()
    options.out.mkdir(parents=True, exist_ok=True)
    job = Job(scenario, options.seed, options.kernel, options.engine, options.daemon)
    # In real time no two runs are alike, so each run is made.
    (outcome,) = run_batch([job], progress, use_cache=options.cache and options.engine == "lab")
    outcome.export(options.out)
    if scenario.requests is None:
        _draw_run(options.out / "timeline.png", outcome)
    if options.json:
        console.out(outcome.summary.to_json(), end="", highlight=False)
    elif outcome.summary.requests is not None:
        console.print(tables.requests_table(outcome.summary, outcome.summary.requests))
    else:
        console.print(tables.summary_table(outcome.summary))


def _draw_run(path: Path, outcome: RunResult) -> None:
    from ltp_switcher.eval.report.timeline import draw_timeline

    job, summary = outcome.job, outcome.summary
    flow = summary.flows[0]
    what = f"{flow.throughput_mbps:.1f} Mbit/s at {flow.rtt_mean_ms:.0f} ms"
    of = "" if len(summary.flows) == 1 else f" (first of {len(summary.flows)} flows)"
    draw_timeline(
        path, job.scenario, outcome.series,
        title=f"{job.scheme} on {job.scenario.name}: {what}{of}",
        explanation=f"Goodput and mean RTT of one run: seed {job.seed}, Linux {summary.kernel}. "
        f"All flows use {summary.utilisation:.0%} of the link.",
    )  # fmt: skip


def compare(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """`ltp-eval compare`: it runs schemes on scenarios with seeds, and writes JSON, CSV and two pictures."""
    settings = parse_assignments(options.settings)
    scenarios = _unlike(find_scenario(name).with_settings(settings) for name in options.scenario)
    for scenario in scenarios:
        if scenario.requests is not None:
            raise ConfigError("scenario", scenario.name, "scenarios without [requests]; `run` takes them")
    schemes = [check_scheme("--schemes", name) for name in options.schemes]
    need_pictures()
    from ltp_switcher.eval.report.comparison_pictures import draw_rewards, draw_throughput_delay

    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    jobs = [
        Job(
            scenario.with_scheme(scheme, every_flow=options.every_flow),
            seed,
            options.kernel,
            daemon=options.daemon,
        )
        for scenario in scenarios
        for scheme in schemes
        for seed in options.seeds
    ]
    with executor_of(options.jobs, options.cluster) as executor:
        summaries, cells = run_and_compare(jobs, progress, use_cache=options.cache, executor=executor)
    text = json_text([cell.to_dict() for cell in cells])
    (out / "compare.json").write_text(text)
    (out / "compare.csv").write_text(tables.summaries_csv(summaries))
    draw_throughput_delay(out / "throughput-delay.png", cells)
    draw_rewards(out / "reward.png", cells)
    if options.json:
        console.out(text, end="", highlight=False)
        return
    console.print(tables.cells_table(cells))
    console.print(f"\n{out}: compare.json, compare.csv, throughput-delay.png, reward.png", highlight=False)


def _unlike(scenarios: Iterable[Scenario]) -> list[Scenario]:
    """Return each scenario once.

    Raises:
        ConfigError: two different scenarios have the same name, by which results are told apart.
    """
    found: dict[str, Scenario] = {}
    for scenario in scenarios:
        if found.setdefault(scenario.name, scenario) != scenario:
            raise ConfigError("scenario", scenario.name, "scenarios whose `name` differs")
    return list(found.values())


def demonstrate(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """`ltp-eval demo`: it compares the switcher with single protocols, and writes `demo.png` and
    `report.json`.
    """
    need_pictures()
    with executor_of(options.jobs, options.cluster) as executor:
        made = demo.run_demo(
            options.out, progress, seeds=options.seeds, kernel=options.kernel, executor=executor,
            use_cache=options.cache,
        )  # fmt: skip
    if options.json:
        console.out((options.out / "report.json").read_text(), end="", highlight=False)
    else:
        demo.print_demo(made, console, options.out)


def cost(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """`ltp-eval cost`: it measures the module's cost in instructions per acknowledged packet, or the daemon's
    cost in instructions per step.
    """
    if options.step_flows:
        step = step_cost.measure_step(progress, options.step_flows, kernel=options.kernel)
        show(options, console, step.to_dict(), lambda: step_cost.step_table(step))
        return
    measured = costs.measure_costs(progress, kernel=options.kernel, use_cache=options.cache)
    show(options, console, [one.to_dict() for one in measured], lambda: costs.costs_table(measured))


def handover(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """`ltp-eval handover`: it compares two windows that a flow can have after a switch of its arm: one that
    fits the path, and the old one.
    """
    gains = handovers.measure_handover(progress, kernel=options.kernel, use_cache=options.cache)
    show(options, console, [gain.to_dict() for gain in gains], lambda: handovers.gains_table(gains))


def speed(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """`ltp-eval speed`: it measures the lab's speed in virtual seconds per second of wall time."""
    measured = costs.measure_speed(progress, kernel=options.kernel)
    show(options, console, [one.to_dict() for one in measured], lambda: costs.speed_table(measured))


def teams(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """`ltp-eval teams`: it selects a team of arms with each seed, and shows how many arms the teams share."""
    scenario = find_scenario(options.scenario).with_settings(parse_assignments(options.settings))
    if len(options.seeds) < 2:
        raise ConfigError("--seeds", options.seeds, "two or more: teams are compared with each other")
    if options.seconds is not None:
        scenario = shortened(scenario, float(options.seconds))
    found = agreement.measure_agreement(
        scenario, options.seeds, options.method, progress, kernel=options.kernel
    )
    show(options, console, found.to_dict(), lambda: agreement.agreement_table(found))


def traces(options: argparse.Namespace, console: Console, _: Console) -> None:
    """`ltp-eval traces`: it fetches the recorded cellular traces if they are missing, and lists them."""
    folder = fetch_traces()
    found, unfit = list_traces(folder)
    show(
        options, console,
        {"folder": str(folder), "traces": [trace.to_dict() for trace in found], "unfit": unfit},
        lambda: tables.traces_table(folder, found),
    )  # fmt: skip
    if not options.json:
        for name, why in unfit.items():
            console.print(f"{name} is left out: {why}", highlight=False, markup=False, soft_wrap=True)


def list_names(options: argparse.Namespace, console: Console, _: Console) -> None:
    """`ltp-eval list`: it lists scenarios, schemes, claims and kernels."""
    scenarios = bundled_scenarios()
    claims = [claim.name for claim in CLAIMS]
    names = {
        "scenarios": list(scenarios),
        "schemes": list(AVAILABLE),
        "claims": claims,
        "kernels": list(KERNELS),
    }
    show(options, console, names, lambda: tables.scenarios_table(scenarios))
    if not options.json:
        console.print(
            f"\nschemes: {NAMES}\nclaims: {', '.join(claims)}\nkernels: {', '.join(KERNELS)}",
            highlight=False,
        )


def contexts(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """`ltp-eval contexts`: it shows how well the encoder's outputs (contexts) tell several paths apart, and
    writes `contexts.json` and a picture.
    """
    scenarios = _unlike(find_scenario(name) for name in options.scenario or CONTEXT_SCENARIOS)
    if len(scenarios) < 2:
        raise ConfigError("scenario", scenarios[0].name, "two scenarios or more, to tell apart")
    need_pictures(placed=True)
    from ltp_switcher.eval.report.contexts import contexts_table, draw_contexts, measure_contexts

    encoder = GRUEncoder.from_file(options.weights)
    found = measure_contexts(scenarios, encoder, progress, seed=options.seed, kernel=options.kernel)
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    (out / "contexts.json").write_text(json_text(found.to_dict()))
    draw_contexts(out / "contexts.png", found)
    show(options, console, found.to_dict(), lambda: contexts_table(found))
