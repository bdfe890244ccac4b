# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval`: run scenarios in the lab and compare schemes. Results go to stdout, progress to stderr."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final

from rich.console import Console

import ltp_switcher
from ltp_switcher.artifacts import revision
from ltp_switcher.commands import whole
from ltp_switcher.errors import ConfigError, LtpSwitcherError
from ltp_switcher.eval.report import cost, demo, tables
from ltp_switcher.eval.report import team_agreement as teams
from ltp_switcher.eval.report.compare import compare
from ltp_switcher.eval.run.batch import default_parallel, run_batch
from ltp_switcher.eval.run.cache import SCENARIOS
from ltp_switcher.eval.run.daemon_settings import parse_assignments
from ltp_switcher.eval.run.results import KERNELS, Job
from ltp_switcher.eval.run.scenario import Scenario, load_scenario
from ltp_switcher.eval.run.schemes import AVAILABLE, KERNEL_ARMS, NAMES, check_scheme
from ltp_switcher.eval.run.summary import rounded

EXIT_ERROR: Final = 1
EXIT_INTERRUPTED: Final = 130
SEEDS_MAX: Final = 1000
_seed: Final = whole(0, 2**31 - 1)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return 0, or 1 on an error, 2 on wrong usage, 130 when interrupted."""
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace, Console, Console], None] = arguments.command
    try:
        command(arguments, Console(), Console(stderr=True))
    except LtpSwitcherError as error:
        print(f"ltp-eval: {error}", file=sys.stderr)
        return EXIT_ERROR
    except OSError as error:
        print(f"ltp-eval: {error.filename or 'system'}: {error.strerror or error}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("ltp-eval: interrupted; finished runs are kept", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def _run(arguments: argparse.Namespace, console: Console, progress: Console) -> None:
    scenario = find_scenario(arguments.scenario)
    if arguments.every_flow and arguments.scheme is None:
        raise ConfigError("--every-flow", True, "with --scheme, which says what replaces all flows' schemes")
    if arguments.scheme is not None:
        scenario = scenario.with_scheme(arguments.scheme, every_flow=arguments.every_flow)
    scenario = scenario.with_settings(parse_assignments(arguments.settings))
    figures = _figures()
    job = Job(scenario, arguments.seed, arguments.kernel)
    arguments.out.mkdir(parents=True, exist_ok=True)
    (outcome,) = run_batch([job], progress, use_cache=arguments.cache)
    outcome.export(arguments.out)
    figures.draw_timeline(arguments.out / "timeline.png", scenario, outcome.series())
    if arguments.json:
        console.out(outcome.summary.to_json(), end="", highlight=False)
    else:
        console.print(tables.summary_table(outcome.summary))


def _compare(arguments: argparse.Namespace, console: Console, progress: Console) -> None:
    settings = parse_assignments(arguments.settings)
    scenarios = _unlike(find_scenario(name).with_settings(settings) for name in arguments.scenario)
    schemes = [check_scheme("--schemes", name) for name in arguments.schemes]
    figures = _figures()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    jobs = [
        Job(scenario.with_scheme(scheme, every_flow=arguments.every_flow), seed, arguments.kernel)
        for scenario in scenarios
        for scheme in schemes
        for seed in arguments.seeds
    ]
    summaries, cells = compare(jobs, progress, use_cache=arguments.cache, parallel=arguments.jobs)
    text = _json_text([cell.to_dict() for cell in cells])
    (out / "compare.json").write_text(text)
    (out / "compare.csv").write_text(tables.summaries_csv(summaries))
    figures.draw_throughput_delay(out / "throughput-delay.png", cells)
    figures.draw_rewards(out / "reward.png", cells)
    if arguments.json:
        console.out(text, end="", highlight=False)
        return
    console.print(tables.cells_table(cells))
    console.print(f"\n{out}: compare.json, compare.csv, throughput-delay.png, reward.png", highlight=False)


def _unlike(scenarios: Iterable[Scenario]) -> list[Scenario]:
    """Each scenario once.

    Raises:
        ConfigError: two that differ have one name, by which results are told apart.
    """
    found: dict[str, Scenario] = {}
    for scenario in scenarios:
        if found.setdefault(scenario.name, scenario) != scenario:
            raise ConfigError("scenario", scenario.name, "scenarios whose `name` differs")
    return list(found.values())


def _demo(arguments: argparse.Namespace, console: Console, progress: Console) -> None:
    outcomes = demo.run_demo(
        arguments.out, progress, seed=arguments.seed, kernel=arguments.kernel, all_arms=arguments.all_arms
    )
    if arguments.json:
        console.out((arguments.out / "report.json").read_text(), end="", highlight=False)
    else:
        demo.print_demo(outcomes, console, arguments.out)


def _cost(arguments: argparse.Namespace, console: Console, progress: Console) -> None:
    costs = cost.measure_costs(progress, kernel=arguments.kernel, use_cache=arguments.cache)
    if arguments.json:
        console.out(_json_text([item.to_dict() for item in costs]), end="", highlight=False)
    else:
        console.print(cost.costs_table(costs))


def _claims(arguments: argparse.Namespace, console: Console, progress: Console) -> None:
    from ltp_switcher.eval.report.claims.catalogue import find_claims
    from ltp_switcher.eval.report.claims.runner import run_claims
    from ltp_switcher.eval.report.claims.tables import claims_page, claims_table

    _figures()
    from ltp_switcher.eval.report.claims.pictures import draw_claim

    claims = find_claims(arguments.claim, arguments.schemes)
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    # Of what is run, not of what a checkout has become hours later.
    made_of = revision()
    reached = run_claims(
        claims, progress, quick=arguments.quick, baselines=arguments.baselines,
        kernel=arguments.kernel, use_cache=arguments.cache, parallel=arguments.jobs,
    )  # fmt: skip
    text = _json_text([one.to_dict() for one in reached])
    (out / "claims.json").write_text(text)
    options = "".join(f" {name}" for name in arguments.claim)
    options += f" --schemes {','.join(arguments.schemes)}" * bool(arguments.schemes)
    options += " --quick" * arguments.quick + " --no-baselines" * (not arguments.baselines)
    how = f"`ltp-eval claims{options}`, Linux {arguments.kernel}, revision {made_of}"
    (out / "claims.md").write_text(claims_page(reached, how))
    for one in reached:
        draw_claim(out, one)
    if arguments.json:
        console.out(text, end="", highlight=False)
    else:
        console.print(claims_table(reached))


def _speed(arguments: argparse.Namespace, console: Console, progress: Console) -> None:
    speeds = cost.measure_speed(progress, kernel=arguments.kernel)
    if arguments.json:
        console.out(_json_text([item.to_dict() for item in speeds]), end="", highlight=False)
    else:
        console.print(cost.speed_table(speeds))


def _teams(arguments: argparse.Namespace, console: Console, progress: Console) -> None:
    scenario = find_scenario(arguments.scenario).with_settings(parse_assignments(arguments.settings))
    if len(arguments.seeds) < 2:
        raise ConfigError("--seeds", arguments.seeds, "two or more: teams are compared with each other")
    found = teams.measure_agreement(
        scenario, arguments.seeds, len(KERNEL_ARMS), progress, kernel=arguments.kernel
    )
    if arguments.json:
        console.out(_json_text(found.to_dict()), end="", highlight=False)
    else:
        console.print(teams.agreement_table(found))


def _list(arguments: argparse.Namespace, console: Console, _: Console) -> None:
    from ltp_switcher.eval.report.claims.catalogue import CLAIMS

    scenarios = {path.stem: load_scenario(path) for path in sorted(SCENARIOS.glob("*.toml"))}
    claims = [claim.name for claim in CLAIMS]
    if arguments.json:
        names = {
            "scenarios": list(scenarios),
            "schemes": list(AVAILABLE),
            "claims": claims,
            "kernels": list(KERNELS),
        }
        console.out(_json_text(names), end="", highlight=False)
        return
    console.print(tables.scenarios_table(scenarios))
    console.print(
        f"\nschemes: {NAMES}\nclaims: {', '.join(claims)}\nkernels: {', '.join(KERNELS)}",
        highlight=False,
    )


def find_scenario(name: str) -> Scenario:
    """Load a scenario by path, or by the name of one that comes with the project.

    Raises:
        ConfigError: there is no such scenario, or it is not valid.
    """
    bundled = SCENARIOS / f"{name}.toml"
    if "/" not in name and not name.endswith(".toml") and bundled.is_file():
        return load_scenario(bundled)
    if not Path(name).is_file():
        names = ", ".join(path.stem for path in sorted(SCENARIOS.glob("*.toml")))
        raise ConfigError("scenario", name, f"a TOML file, or one of {names}")
    return load_scenario(Path(name))


def _figures() -> ModuleType:
    try:
        from ltp_switcher.eval.report import figures
    except ImportError as error:
        raise LtpSwitcherError("the figures need matplotlib: pip install 'ltp-switcher[eval]'") from error
    return figures


def _json_text(value: object) -> str:
    return json.dumps(rounded(value), indent=2) + "\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="ltp-eval", description="Run and compare schemes in the lab.")
    parser.add_argument("--version", action="version", version=ltp_switcher.__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = _command(
        commands, "run", _run, "run one scenario; writes summary.json, timeseries.csv, timeline.png"
    )
    run.add_argument("scenario", metavar="SCENARIO", help="a TOML file, or the name of a bundled one")
    run.add_argument("--scheme", help="scheme of the first flow, in place of the scenario's")
    run.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the results")
    _run_options(run)

    versus = _command(commands, "compare", _compare, "schemes x scenarios x seeds: table, CSV, pictures")
    versus.add_argument("scenario", nargs="+", metavar="SCENARIO")
    versus.add_argument("--schemes", type=_names, default=list(demo.SCHEMES), metavar="A,B,...|all")
    versus.add_argument("--seeds", type=_seeds, default=[1], metavar="N|N-M|N,M,...", help="default: 1")
    versus.add_argument(
        "--jobs", type=whole(1, 64), default=default_parallel(), metavar="N", help="labs side by side"
    )
    versus.add_argument("--out", type=Path, default=Path("out/compare"), metavar="DIR")
    _run_options(versus)

    show = _command(commands, "demo", _demo, "the switcher on a changing path, beside cubic, bbr and vegas")
    show.add_argument("--all-arms", action="store_true", help="beside all 11 arms and random choice")
    show.add_argument("--out", type=Path, default=Path("out/demo"), metavar="DIR")

    again = _command(commands, "teams", _teams, "whether team selection finds the same team again")
    again.add_argument("scenario", metavar="SCENARIO")
    again.add_argument(
        "--seeds", type=_seeds, default=[1, 2, 3, 4], metavar="N-M|N,M,...", help="default: 1-4"
    )
    _settings_option(again)

    claims = _command(
        commands, "claims", _claims, "what the learned arms' papers claim, beside what is reached"
    )
    claims.add_argument("claim", nargs="*", metavar="CLAIM", help="default: all")
    claims.add_argument(
        "--schemes", type=_listed, default=[], metavar="A,B,...", help="what is claimed of these alone"
    )
    claims.add_argument("--quick", action="store_true", help="fewer and shorter runs, one seed")
    claims.add_argument(
        "--no-baselines", dest="baselines", action="store_false", help="without cubic, bbr and vegas beside"
    )
    claims.add_argument(
        "--jobs", type=whole(1, 64), default=default_parallel(), metavar="N", help="labs side by side"
    )
    claims.add_argument("--out", type=Path, default=Path("out/claims"), metavar="DIR")
    _cache_option(claims)

    _cache_option(_command(commands, "cost", _cost, "guest instructions per acknowledged packet"))
    _command(commands, "speed", _speed, "how fast the lab runs on this machine")
    _command(commands, "list", _list, "scenarios, schemes, claims and kernels there are")
    return parser


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
    function: Callable[[argparse.Namespace, Console, Console], None],
    text: str,
) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    parser.set_defaults(command=function)
    parser.add_argument("--json", action="store_true", help="print JSON in place of a table")
    if name != "list":
        parser.add_argument("--kernel", choices=KERNELS, default=KERNELS[0], help=f"default: {KERNELS[0]}")
    if name in ("run", "demo"):
        parser.add_argument("--seed", type=_seed, default=1, metavar="N", help="default: 1")
    return parser


def _run_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--every-flow", action="store_true", help="a scheme replaces all flows', not the first's"
    )
    _settings_option(parser)
    _cache_option(parser)


def _settings_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="a setting of the daemon, for schemes that run one; may be given again",
    )


def _cache_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-cache", dest="cache", action="store_false", help="run even what is in the cache"
    )


def _names(text: str) -> list[str]:
    return list(demo.ALL_SCHEMES) if text == "all" else _listed(text)


def _listed(text: str) -> list[str]:
    return list(dict.fromkeys(text.split(",")))


def _seeds(text: str) -> list[int]:
    """Parse `3`, `1-5` and `1,2,7-9`."""
    seeds: list[int] = []
    for part in text.split(","):
        low, dash, high = part.partition("-")
        block = range(_seed(low), _seed(high if dash else low) + 1)
        if not block or len(seeds) + len(block) > SEEDS_MAX:
            raise argparse.ArgumentTypeError(f"{text!r} is not a list of 1 to {SEEDS_MAX} seeds")
        seeds += block
    return list(dict.fromkeys(seeds))
