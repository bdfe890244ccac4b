# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval`: run scenarios in the lab and compare schemes. Results go to stdout, progress to stderr.

The exit status is 0 after success, 1 if something failed, 2 if the command line is wrong, and 130 after an
interrupt.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from rich.console import Console

import ltp_switcher
from ltp_switcher.commands import whole
from ltp_switcher.completion import SHELLS, script
from ltp_switcher.encoder.artifact import WEIGHTS
from ltp_switcher.errors import LtpSwitcherError, reason
from ltp_switcher.eval.cli import (
    ablate,
    claims,
    commands,
    engines,
    expectations,
    gain,
    prior,
    suite,
    traffic,
    traffic_compare,
    traffic_replay,
)
from ltp_switcher.eval.lab.script import PLACES, USUAL_PLACE
from ltp_switcher.eval.report import demo, engine_agreement, step_cost
from ltp_switcher.eval.run.executor import default_parallel
from ltp_switcher.eval.run.results import ENGINES, KERNELS
from ltp_switcher.eval.run.schemes import KERNEL_ARMS
from ltp_switcher.eval.suite import offsets
from ltp_switcher.eval.suite.studies import STUDIES
from ltp_switcher.eval.suite.traffic_sets import SETS as KINDS

EXIT_ERROR: Final = 1
EXIT_INTERRUPTED: Final = 130
SEEDS_MAX: Final = 1000
_seed: Final = whole(0, 2**31 - 1)

Command = Callable[[argparse.Namespace, Console, Console], None]
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status."""
    options = parser().parse_args(argv)
    command: Command = options.command
    try:
        command(options, Console(), Console(stderr=True))
    except LtpSwitcherError as error:
        print(f"ltp-eval: {error}", file=sys.stderr)
        return EXIT_ERROR
    except OSError as error:
        print(f"ltp-eval: {error.filename or 'system'}: {reason(error)}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("ltp-eval: interrupted; finished runs are kept", file=sys.stderr)
        return EXIT_INTERRUPTED
    return 0


def parser() -> argparse.ArgumentParser:
    """Make the parser for all commands."""
    made = argparse.ArgumentParser(
        prog="ltp-eval", description="Run scenarios in the lab, and compare schemes."
    )
    made.add_argument("--version", action="version", version=ltp_switcher.__version__)
    add = made.add_subparsers(required=True, metavar="COMMAND")
    _add_runs(add)
    _add_suite(add)
    _add_traffic(add)
    _add_claims(add)
    _add_gain(add)
    cost = _command(
        add, "cost", commands.cost,
        "count the guest's instructions per acknowledged packet, or those of a step of the daemon",
        kernel=True,
    )  # fmt: skip
    cost.add_argument(
        "--step-flows", type=whole(1, step_cost.FLOWS_MAX), metavar="N",
        help="count the instructions of a step of the daemon with N flows, and no packet's",
    )  # fmt: skip
    _cache_option(cost)
    handover = _command(
        add, "handover", commands.handover, "run a schedule of switches with and without a fitting window",
        kernel=True,
    )  # fmt: skip
    _cache_option(handover)
    _command(add, "speed", commands.speed, "measure how fast the lab runs on this machine", kernel=True)
    _command(add, "traces", commands.traces, "fetch the recorded cellular traces, and list them")
    _command(add, "mahimahi", engines.mahimahi, "fetch mahimahi, and list what it lacks to run here")
    _add_agree(add)
    apart = _command(
        add, "contexts", commands.contexts, "show how the encoder tells paths apart (Mutant Fig. 14)",
        kernel=True,
    )  # fmt: skip
    _scenarios_argument(apart, commands.CONTEXT_SCENARIOS)
    apart.add_argument("--seed", type=_seed, default=1, metavar="N", help="default: 1")
    _weights_option(apart)
    _out_option(apart, "out/contexts")
    completion = add.add_parser(
        "completion",
        help="print the script by which a shell completes commands",
        description="Print the script by which a shell completes commands.",
    )
    completion.set_defaults(command=_completion)
    completion.add_argument("shell", choices=SHELLS)
    _command(add, "list", commands.list_names, "list scenarios, schemes, claims and kernels")
    return made


def _completion(options: argparse.Namespace, _console: Console, _progress: Console) -> None:
    print(script(parser(), options.shell))


def _add_runs(add: Commands) -> None:
    run = _command(
        add, "run", commands.run, "run one scenario, and write its results and a picture", kernel=True
    )
    run.add_argument("scenario", metavar="SCENARIO", help="a TOML file, or the name of a bundled scenario")
    run.add_argument("--scheme", help="replace the scheme of the first flow")
    run.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the results")
    run.add_argument("--seed", type=_seed, default=1, metavar="N", help="default: 1")
    run.add_argument(
        "--engine", choices=ENGINES, default=ENGINES[0],
        help="lab: virtual time; mahimahi: real time, on this machine's own kernel; default: lab",
    )  # fmt: skip
    _run_options(run)

    compare = _command(
        add, "compare", commands.compare, "run schemes x scenarios x seeds, and compare them", kernel=True
    )
    compare.add_argument(
        "scenario", nargs="+", metavar="SCENARIO", help="TOML files, or names of bundled scenarios"
    )
    compare.add_argument(
        "--schemes", type=_schemes, default=list(demo.SCHEMES), metavar="A,B,...|all",
        help=f"default: {','.join(demo.SCHEMES)}",
    )  # fmt: skip
    compare.add_argument("--seeds", type=_seeds, default=[1], metavar="N|N-M|N,M,...", help="default: 1")
    _executor_options(compare)
    _out_option(compare, "out/compare")
    _run_options(compare)

    show = _command(
        add, "demo", commands.demonstrate,
        "run the switcher, ltp, bbr, vegas and cubic on six small networks, and draw how they compare",
        kernel=True,
    )  # fmt: skip
    show.add_argument("--seeds", type=_seeds, default=[1], metavar="N|N-M|N,M,...", help="default: 1")
    _executor_options(show)
    _cache_option(show)
    _out_option(show, "out/demo")

    teams = _command(
        add, "teams", commands.teams, "test whether team selection finds the same team again", kernel=True
    )
    teams.add_argument("scenario", metavar="SCENARIO", help="a TOML file, or the name of a bundled scenario")
    teams.add_argument(
        "--seeds", type=_seeds, default=[1, 2, 3, 4], metavar="N-M|N,M,...", help="default: 1-4"
    )
    teams.add_argument(
        "--method", choices=("tournament", "budget"), default="tournament",
        help="tournament: the automatic selection; budget: Algorithm 2 (`mpts start`); default: tournament",
    )  # fmt: skip
    teams.add_argument(
        "--seconds", type=whole(2, 3600), metavar="S", help="run the first S seconds; default: all"
    )
    _settings_option(teams)


def _add_agree(add: Commands) -> None:
    agree = _command(
        add, "agree", engines.agree, "compare runs in the lab with runs through mahimahi",
        kernel=True,
    )  # fmt: skip
    _scenarios_argument(agree, engine_agreement.SCENARIOS)
    agree.add_argument(
        "--schemes", type=_listed, default=list(engine_agreement.SCHEMES), metavar="A,B,...",
        help=f"default: {','.join(engine_agreement.SCHEMES)}",
    )  # fmt: skip
    agree.add_argument(
        "--seeds", type=_seeds, default=[1], metavar="N-M|N,M,...", help="the lab's; default: 1"
    )
    agree.add_argument(
        "--repeats", type=whole(2, 100), default=3, metavar="N", help="runs through mahimahi; default: 3"
    )
    agree.add_argument(
        "--seconds", type=whole(1, 3600), metavar="N", help="run the first N seconds of each scenario only"
    )
    _out_option(agree, "out/agree")
    _cache_option(agree)


def _add_suite(add: Commands) -> None:
    whole_suite = _command(
        add, "suite", suite.evaluate, "run all schemes on the paths of the suite, and report", kernel=True
    )
    whole_suite.add_argument(
        "--quick", action="store_true", help="8 paths, half of their time, 5 schemes, one seed"
    )
    whole_suite.add_argument(
        "--study", choices=tuple(STUDIES), help="the schemes and paths of a study, each with its figure"
    )
    whole_suite.add_argument(
        "--set",
        default="test",
        metavar="SET",
        help="tuning, test, or a folder of scenario files; default: test",
    )
    whole_suite.add_argument("--schemes", type=_listed, default=[], metavar="A,B,...", help="default: all")
    whole_suite.add_argument("--paths", type=_listed, default=[], metavar="A,B,...", help="default: all")
    whole_suite.add_argument(
        "--seeds", type=whole(1, 5), metavar="N", help="seeds of every scheme; default: most where it decides"
    )
    whole_suite.add_argument(
        "--keep", action="store_true",
        help="keep the results of the kernel's own protocols in eval/suite/kept, to commit them",
    )  # fmt: skip
    whole_suite.add_argument(
        "--cached", action="store_true", help="make no run: report on those that are made so far"
    )
    _daemon_option(whole_suite)
    _executor_options(whole_suite)
    _out_option(whole_suite, "out/eval")

    drawn = _command(add, "draw", suite.draw_set, "draw a new set of paths, for `suite --set`")
    which = drawn.add_mutually_exclusive_group(required=True)
    which.add_argument("--seed", type=_seed, metavar="N", help="of the set: other paths")
    which.add_argument(
        "--offsets", type=whole(1, offsets.COUNT_MAX), metavar="N",
        help="the traces of a set of the suite, each from N places on, 30 s",
    )  # fmt: skip
    drawn.add_argument(
        "--wide", type=whole(1, 1000), metavar="N",
        help="with --seed: N paths of one flow from wide ranges; default: the suite's families",
    )  # fmt: skip
    drawn.add_argument("--set", metavar="SET", help="with --offsets: tuning or test; default: test")
    drawn.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for their files")

    apart = _command(
        add, "ablate", ablate.ablate, "measure what each special case of the rule is worth", kernel=True
    )
    apart.add_argument(
        "--set", default="tuning-kinds", metavar="SET", help="as of `suite`; default: tuning-kinds"
    )
    apart.add_argument("--paths", type=_listed, default=[], metavar="A,B,...", help="default: all")
    apart.add_argument("--cases", type=_listed, default=[], metavar="A,B,...", help="default: all")
    apart.add_argument("--quick", action="store_true", help="half of each path's time")
    apart.add_argument(
        "--replay", action="store_true", help="only tell on which paths each case acts: no run without a case"
    )
    _jobs_option(apart)

    told = _command(
        add, "expectations", expectations.expectations,
        "show what the path model's numbers say of each arm, on kinds of path that are left out in turn",
        kernel=True,
    )  # fmt: skip
    told.add_argument(
        "set", nargs="*", metavar="SET", help="as --set of `suite`, but none held out; default: tuning-kinds"
    )
    told.add_argument("--paths", type=_listed, default=[], metavar="A,B,...", help="default: all")
    told.add_argument(
        "--schemes", type=_listed, default=["ltp", "bbr", "vegas", "cubic"], metavar="A,B,...",
        help="arms; default: ltp,bbr,vegas,cubic",
    )  # fmt: skip
    told.add_argument("--quick", action="store_true", help="half of each path's time")
    told.add_argument(
        "--look", type=float, default=2.0, metavar="SECONDS", help="that the daemon has seen; default: 2"
    )
    _jobs_option(told)

    guess = _command(
        add, "prior", prior.prior, "show how well one look at BBR's start picks the arm", kernel=True
    )
    guess.add_argument(
        "--set", required=True, metavar="SET", help="as of `suite`; uses the runs that are made"
    )
    guess.add_argument("--quick", action="store_true", help="those of `suite --quick`")
    guess.add_argument(
        "--schemes", type=_listed, default=["bbr", "vegas", "ltp", "rule"], metavar="A,B,...",
        help="arms, and one that chooses among them; default: bbr,vegas,ltp,rule",
    )  # fmt: skip
    guess.add_argument(
        "--look", type=float, default=2.5, metavar="SECONDS", help="of BBR that are looked at; default: 2.5"
    )
    guess.add_argument(
        "--contexts", action="store_true",
        help="record each path's look, and also score the models on the encoder's context of it",
    )  # fmt: skip
    _weights_option(guess)
    _daemon_option(guess)
    _jobs_option(guess)


def _weights_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--weights",
        type=Path,
        default=WEIGHTS,
        metavar="FILE",
        help="of the encoder; default: the shipped ones",
    )


def _add_traffic(add: Commands) -> None:
    made = _command(
        add, "traffic", traffic.traffic,
        "run a server's flows over several paths at once, and compare schemes",
        kernel=True,
    )  # fmt: skip
    made.add_argument(
        "--kinds", choices=KINDS, default=KINDS[0],
        help=f"the paths for tuning, or those that are held out; default: {KINDS[0]}",
    )  # fmt: skip
    made.add_argument(
        "--paths", type=_listed, default=[], metavar="N|A,B,...", help="the first N, or some; default: all"
    )
    made.add_argument(
        "--flows", type=whole(1, 1000), default=60, metavar="N", help="to each path; default: 60"
    )
    made.add_argument(
        "--load", type=float, default=0.25, metavar="X",
        help="mean share of a path's rate that flows ask for, 0.01 to 0.9; default: 0.25",
    )  # fmt: skip
    made.add_argument(
        "--schemes", type=_listed, default=list(traffic.SCHEMES), metavar="A,B,...",
        help="arms, schemes of the daemon, and `mutant`, which is the switcher with the settings of --set; "
        f"default: {','.join(traffic.SCHEMES)}",
    )  # fmt: skip
    made.add_argument(
        "--seeds", type=_seeds, default=[], metavar="N|N-M|N,M,...",
        help="the first half chooses the oracle's arms, and the figures are of the others; default: 1-2",
    )  # fmt: skip
    _settings_option(made)
    _daemon_option(made)
    _executor_options(made)
    _out_option(made, "out/traffic")
    _cache_option(made)
    _add_traffic_compare(add)
    _add_traffic_replay(add)


def _add_traffic_compare(add: Commands) -> None:
    made = _command(
        add, "traffic-compare", traffic_compare.compare,
        "compare schemes or revisions flow by flow, from the folders that `traffic` has written",
    )  # fmt: skip
    made.add_argument(
        "folders", nargs="+", type=Path, metavar="DIR", help="results of `traffic`; several count as one"
    )
    made.add_argument(
        "--against", nargs="+", type=Path, default=[], metavar="DIR",
        help="results of the same flows by another revision; default: the same folders",
    )  # fmt: skip
    made.add_argument(
        "--scheme", default=traffic.DECISION, metavar="A",
        help=f"a scheme of the first folders, or `oracle`; default: {traffic.DECISION}",
    )  # fmt: skip
    made.add_argument(
        "--over", metavar="B", help="a scheme of --against, or `oracle`; default: the scheme of --scheme"
    )
    made.add_argument(
        "--choose", type=_seeds, default=[], metavar="N|N-M|N,M,...",
        help="seeds that choose the oracle's arms; all figures are of the others",
    )  # fmt: skip
    made.add_argument(
        "--arms", type=_listed, default=[], metavar="A,B,...",
        help="arms among which the oracle chooses; default: all that ran alone",
    )  # fmt: skip
    _narrowing_options(made)
    made.add_argument(
        "--after-visits", type=whole(0, 10_000), default=0, metavar="N",
        help="leave out N visits at the beginning of each of our runs; default: 0",
    )  # fmt: skip


def _narrowing_options(made: argparse.ArgumentParser) -> None:
    """Add the options that leave out some flows of the folders."""
    made.add_argument(
        "--paths", type=_listed, default=[], metavar="A,B,...", help="only these paths; default: all"
    )
    made.add_argument(
        "--seeds", type=_seeds, default=[], metavar="N|N-M|N,M,...", help="only these seeds; default: all"
    )


def _add_traffic_replay(add: Commands) -> None:
    made = _command(
        add, "traffic-replay", traffic_replay.replay,
        "replay the learner from flow to flow, in true time, on folders that `traffic` has written",
    )  # fmt: skip
    made.add_argument(
        "folders", nargs="+", type=Path, metavar="DIR",
        help=f"results of `traffic` with {traffic.DECISION} and arms alone; several count as one",
    )  # fmt: skip
    _narrowing_options(made)
    made.add_argument(
        "--visits", type=whole(10, 10_000), default=400, metavar="N", help="visits to each path; default: 400"
    )
    made.add_argument(
        "--replays", type=whole(2, 1000), default=8, metavar="N", help="number of replays; default: 8"
    )
    made.add_argument(
        "--alike", action="store_true",
        help=f"give every arm the visits of {traffic.DECISION}, so that each other incumbent is a false one",
    )  # fmt: skip


def _add_claims(add: Commands) -> None:
    judge = _command(add, "claims", claims.judge, "test the claims of the learned arms' papers", kernel=True)
    judge.add_argument("claim", nargs="*", metavar="CLAIM", help="default: all claims")
    judge.add_argument(
        "--schemes",
        type=_listed,
        default=[],
        metavar="A,B,...",
        help="test only the claims about these schemes",
    )
    judge.add_argument("--quick", action="store_true", help="fewer and shorter runs, with one seed")
    judge.add_argument(
        "--no-baselines", dest="baselines", action="store_false", help="do not run cubic, bbr and vegas too"
    )
    judge.add_argument(
        "--update",
        action="store_true",
        help="also write the figures into docs/claims.json, and make its page",
    )
    _executor_options(judge)
    _out_option(judge, "out/claims")
    _cache_option(judge)

    page = _command(
        add, "claims-page", claims.page, "make docs/claims.md and its pictures from docs/claims.json"
    )
    page.add_argument("--check", action="store_true", help="change nothing; fail if the page is stale")


def _add_gain(add: Commands) -> None:
    made = _command(
        add, "gain-coverage", gain.coverage,
        "simulate experiments, and count how often the intervals of `ltp-switcher report` hold the truth",
    )  # fmt: skip
    made.add_argument(
        "--experiments", type=whole(0, 100_000), default=2000, metavar="N",
        help="experiments of each design without an effect; default: 2000",
    )  # fmt: skip
    made.add_argument(
        "--power-experiments", type=whole(0, 100_000), default=200, metavar="N",
        help="experiments of each size with the effect; default: 200",
    )  # fmt: skip
    made.add_argument(
        "--effect", type=float, default=0.05, metavar="X", help="the effect on goodput; default: 0.05"
    )
    made.add_argument("--seed", type=_seed, default=1, metavar="N", help="of the first; default: 1")
    _jobs_option(made)
    made.add_argument("--out", type=Path, metavar="FILE", help="write the JSON there, too")
    made = _command(
        add, "gain-rollout", gain.rollouts,
        "simulate rollouts, and count how often a harm is taken back, and how soon, and how often none is",
    )  # fmt: skip
    made.add_argument(
        "--runs", type=whole(1, 100_000), default=1000, metavar="N",
        help="rollouts of each design, with the effect and without; default: 1000",
    )  # fmt: skip
    made.add_argument(
        "--effect", type=float, default=-0.1, metavar="X", help="the effect on goodput; default: -0.1"
    )
    made.add_argument("--seed", type=_seed, default=1, metavar="N", help="of the first; default: 1")
    _jobs_option(made)
    made.add_argument("--out", type=Path, metavar="FILE", help="write the JSON there, too")


def _command(
    add: Commands, name: str, function: Command, text: str, *, kernel: bool = False
) -> argparse.ArgumentParser:
    made = add.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
    made.set_defaults(command=function)
    made.add_argument("--json", action="store_true", help="print JSON instead of a table")
    if kernel:
        made.add_argument("--kernel", choices=KERNELS, default=KERNELS[0], help=f"default: {KERNELS[0]}")
    return made


def _scenarios_argument(made: argparse.ArgumentParser, default: Sequence[str]) -> None:
    made.add_argument(
        "scenario", nargs="*", metavar="SCENARIO",
        help=f"TOML files, or names of bundled scenarios; default: {', '.join(default)}",
    )  # fmt: skip


def _run_options(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--every-flow", action="store_true", help="replace the scheme of every flow, not of the first only"
    )
    _settings_option(made)
    _daemon_option(made)
    _cache_option(made)


def _settings_option(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        metavar="SECTION.KEY=VALUE",
        help="a setting of the daemon, for schemes that run one; may be repeated",
    )


def _daemon_option(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--daemon", choices=PLACES, default=USUAL_PLACE,
        help="inside: in the guest; beside: on the host, in the guest's time, with a modelled time for its "
        f"work, about twice as fast; default: {USUAL_PLACE}",
    )  # fmt: skip


def _cache_option(made: argparse.ArgumentParser) -> None:
    made.add_argument(
        "--no-cache", dest="cache", action="store_false", help="run even if the result is in the cache"
    )


def _jobs_option(made: argparse._ActionsContainer) -> None:
    made.add_argument(
        "--jobs", type=whole(1, 64), default=default_parallel(), metavar="N",
        help="processes to run side by side; default: one for each CPU",
    )  # fmt: skip


def _executor_options(made: argparse.ArgumentParser) -> None:
    either = made.add_mutually_exclusive_group()
    _jobs_option(either)
    either.add_argument(
        "--cluster", metavar="ADDRESS",
        help="make the runs on the workers of this Dask scheduler, tls://HOST:PORT or tcp://127.0.0.1:PORT",
    )  # fmt: skip


def _out_option(made: argparse.ArgumentParser, default: str) -> None:
    made.add_argument("--out", type=Path, default=Path(default), metavar="DIR", help=f"default: {default}")


def _schemes(text: str) -> list[str]:
    return [demo.US, "random", *KERNEL_ARMS] if text == "all" else _listed(text)


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


if __name__ == "__main__":
    raise SystemExit(main())
