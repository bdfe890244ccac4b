# SPDX-License-Identifier: Apache-2.0
"""`ltp-switcher`: run the daemon, show its flows, and give it commands.

The exit status is one of these:

- 0: the command succeeded.
- 1: the daemon or the kernel refused the command, or `doctor` found something that does not work.
- 2: the command line is wrong, or a file that it names.
- 3: the daemon cannot be reached.
- 4: the loaded kernel module has another version than the daemon.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import ltp_switcher
from ltp_switcher.commands import printable, seconds, whole
from ltp_switcher.completion import SHELLS, script
from ltp_switcher.daemon.control.client import ControlInvalidError, ControlUnavailableError
from ltp_switcher.daemon.settings import load
from ltp_switcher.daemon.settings.layers import Layers
from ltp_switcher.daemon.settings.schema import DEFAULT_PATH, Config
from ltp_switcher.errors import InvalidValueError, LtpSwitcherError, ModuleVersionError

PREFIXES_PATH: Final = Path("/etc/ltp-switcher/prefixes")
EXIT_REFUSED: Final = 1
EXIT_INPUT: Final = 2
EXIT_UNREACHABLE: Final = 3
EXIT_MODULE: Final = 4
"""Exit status if the loaded module has another version than the daemon. After this status systemd does not
restart ltp-switcher.service.
"""
COOKIE_HELP: Final = (
    "the flow's socket cookie as `ltp-switcher flows` shows it, or sk:HEX as `ss -tine` shows it"
)
EPILOG: Final = """\
exit status: 0 done; 1 refused by the daemon or the kernel, or doctor found a fault;
2 wrong command line or input; 3 the daemon cannot be reached;
4 the loaded module has another version than the daemon that is to run."""

Command = Callable[[argparse.Namespace], int]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return its exit status."""
    options = _parsed(arguments)
    command: Command = options.command
    try:
        return command(options)
    except (InvalidValueError, ControlInvalidError) as error:
        print(f"ltp-switcher: {printable(str(error))}", file=sys.stderr)
        return EXIT_INPUT
    except ControlUnavailableError as error:
        print(f"ltp-switcher: {printable(str(error))}", file=sys.stderr)
        return EXIT_UNREACHABLE
    except ModuleVersionError as error:
        print(f"ltp-switcher: {printable(str(error))}", file=sys.stderr)
        return EXIT_MODULE
    except LtpSwitcherError as error:
        print(f"ltp-switcher: {printable(str(error))}", file=sys.stderr)
        return EXIT_REFUSED
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of the pipe has closed it. Without this, Python would report the error once more at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The parsed command line. The options that all commands have may stand before the command, too."""
    made = parser()
    options = made.parse_args(arguments)
    given = [name for name in ("json", "terse") if getattr(options, name)]
    if len(given) > 1:
        made.error("argument --terse: not allowed with argument --json")
    if given and not options.prints:
        made.error(f"argument --{given[0]}: this command prints no table")
    return options


def settings(options: argparse.Namespace) -> Config:
    """The settings in force, with the flags of the command line applied. Raises `ConfigError`."""
    return layers(options).config()


def layers(options: argparse.Namespace) -> Layers:
    """The settings of each source (defaults, file, environment, flags of the command line). Raises
    `ConfigError`.
    """
    flags: dict[str, object] = {}
    for text in getattr(options, "set", None) or []:
        flags.update([load.parse_assignment(text)])
    if options.socket is not None:
        flags["daemon.control_socket"] = options.socket
    for flag in ("mode", "policy", "state_dir"):
        given = getattr(options, f"run_{flag}", None)
        if given is not None:
            flags[f"daemon.{flag}"] = given
    return load.layers(options.config, os.environ, flags)


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    # An option before the command stays in force, unless it is given again after the command.
    common = _common(argparse.SUPPRESS)
    printing = argparse.ArgumentParser(add_help=False, parents=[common])
    _add_forms(printing, default=argparse.SUPPRESS)

    changing = argparse.ArgumentParser(add_help=False, parents=[printing])
    changing.add_argument(
        "--runtime", action="store_true", help="only until the daemon ends; without it a change lasts"
    )

    timed = argparse.ArgumentParser(add_help=False)
    timed.add_argument(
        "--confirm-within", type=_age, metavar="AGE",
        help="undo the change after 60s, 5m or 1h, or at the next start, unless `changes --confirm` comes",
    )  # fmt: skip

    top = argparse.ArgumentParser(
        prog="ltp-switcher",
        parents=[_common(None)],
        description="Switch every TCP flow between congestion controls while it runs.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"%(prog)s {ltp_switcher.__version__}")
    _add_forms(top, default=False)
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")

    bare = argparse.ArgumentParser(add_help=False)

    def add(name: str, text: str, run: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=text, description=text, parents=parents or [printing])
        made.set_defaults(command=_lazy(run), prints=not {common, bare}.intersection(parents))
        return made

    run = add("run", "run the daemon in the foreground", "run:run", common)
    run.add_argument("--mode", dest="run_mode", help="active, advise or off (daemon.mode)")
    run.add_argument(
        "--policy", dest="run_policy", help="rule, mutant, keep, or one for experiments (daemon.policy)"
    )
    run.add_argument(
        "--state-dir", dest="run_state_dir", metavar="DIR", help="learned state (daemon.state_dir)"
    )
    run.add_argument("--record", type=Path, metavar="FILE", help="record every aggregate and decision")
    run.add_argument(
        "--set", action="append", metavar="SECTION.KEY=VALUE", help="override a setting; may be repeated"
    )

    add(
        "network",
        "ask the measurement agents of learned.owl_network_urls, and tell the daemon, until SIGTERM",
        "network:relay",
        common,
    )
    add(
        "give-back",
        "restore the default congestion control that a crashed daemon replaced",
        "run:give_back",
        common,
    )
    add("status", "show the daemon's state and counters", "show:status")
    flows = add("flows", "show all flows under mutant", "show:flows")
    flows.add_argument("--watch", action="store_true", help="repeat until Ctrl-C")
    flows.add_argument(
        "--interval", type=seconds(0.05, 3600), default=1.0, metavar="S", help="time between repeats, s"
    )
    flows.add_argument(
        "--limit", type=whole(1, 1000), metavar="N",
        help="only the N flows with the most goodput (default: 100 in the table, all with --json)",
    )  # fmt: skip
    flows.add_argument(
        "--cursor", metavar="COOKIE",
        help="by cookie, those behind this one; begin with 0. The page names the cursor of the next one",
    )  # fmt: skip
    flows.add_argument("--arm", metavar="NAME", help="only flows under this arm")
    flows.add_argument("--prefix", metavar="NETWORK", help="only flows to this network")
    flows.add_argument(
        "--order", metavar="KEY",
        help="goodput (the default), rtt, min_rtt, loss, switches, age: the largest first; remote, cookie",
    )  # fmt: skip
    flows.add_argument("--reverse", action="store_true", help="the other way round")
    flow = add("flow", "show everything about one flow", "show:flow")
    flow.add_argument("cookie", type=_cookie, help=COOKIE_HELP)
    why = add("why", "say why a flow runs its arm, with its last switches", "show:why")
    why.add_argument("cookie", type=_cookie, help=COOKIE_HELP)
    arms = add("arms", "show the arms, and why one is unavailable; or load one", "show:arms")
    arms.add_argument("--load", metavar="NAME", help="load a congestion control of this kernel as an arm")
    pool = add(
        "pool",
        "show the pool and the teams; or set the pool, which forgets the teams",
        "show:pool",
        changing,
        timed,
    )
    pool.add_argument("action", nargs="?", choices=["set"], help="choose among ARM... from now on")
    pool.add_argument("arms", nargs="*", metavar="ARM")
    k = add(
        "k", "show the size of a team; or set it, which forgets the teams", "show:team_size", changing, timed
    )
    k.add_argument("k", nargs="?", type=int)
    policy = add(
        "policy",
        "show the policies by prefix and port, or as a file; or put those of a file in their place",
        "policy:policy",
        printing,
        timed,
    )
    policy.add_argument("action", nargs="?", choices=["show", "apply"])
    policy.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="TOML, a table [[policy]] for each"
    )
    policy.add_argument("--toml", action="store_true", help="show: as the file that apply takes")
    policy.add_argument("--dry-run", action="store_true", help="only show the difference")
    _add_named(add)
    pin = add("pin", "switch a flow to an arm and hold it there", "show:pin", changing)
    pin.add_argument("cookie", type=_cookie, help=COOKIE_HELP)
    pin.add_argument("arm", help="the name of an arm")
    unpin = add("unpin", "let the daemon choose for a flow again", "show:unpin")
    unpin.add_argument("cookie", type=_cookie, help=COOKIE_HELP)
    mode = add("mode", "show the mode; or set it", "show:mode", changing, timed)
    mode.add_argument("mode", nargs="?", help="active, advise or off")
    mpts = add("mpts", "show current team selections and found teams; or select anew", "show:mpts")
    mpts.add_argument(
        "action", nargs="?", choices=["start", "cancel"],
        help="start: forget the teams and select them anew; cancel: end the selections under way",
    )  # fmt: skip
    mpts.add_argument("prefix", nargs="?", help="only for this destination prefix")
    mpts.add_argument(
        "--by", choices=["round-trips", "visits"],
        help="start: try each arm for some round trips of an open flow (the default), or for whole visits",
    )  # fmt: skip
    add(
        "reload",
        "read the settings anew and apply them; fails, and changes nothing, if they are wrong",
        "show:reload",
    )
    add("doctor", "check this machine, and name the remedy for each fault", "doctor:doctor")
    packed = add(
        "bundle", "write a support bundle: the daemon's answers, without the peers' addresses", "bundle:write"
    )
    packed.add_argument("file", nargs="?", type=Path, metavar="FILE", help="default: a name with the time")
    config = add(
        "config",
        "show the settings in force and their origins, or those of --config, or an example file; "
        "or set some over the configuration, or drop what was set",
        "settings:config",
        changing,
        timed,
    )
    config.add_argument("--example", action="store_true", help="print a file with every key and its default")
    config.add_argument("action", nargs="?", choices=["set", "unset"])
    config.add_argument(
        "settings", nargs="*", metavar="SETTING", help="set: SECTION.KEY=VALUE; unset: SECTION.KEY"
    )
    changes = add(
        "changes",
        "show the last changes, who made each, and what was before; or undo one, or confirm those that wait",
        "settings:changes",
    )
    changes.add_argument(
        "--limit", type=whole(1, 100), default=20, metavar="N", help="default 20, at most 100"
    )
    undoing = changes.add_mutually_exclusive_group()
    undoing.add_argument(
        "--revert", type=whole(1, 2**53), metavar="NUMBER", help="choose what was chosen before this change"
    )
    undoing.add_argument(
        "--confirm", action="store_true", help="keep the changes that were made with --confirm-within"
    )
    overrides = add(
        "overrides", "show what was set over the configuration; or drop all of it", "settings:overrides"
    )
    overrides.add_argument("action", nargs="?", choices=["clear"], help="policies and pins stay")
    evaluate = add(
        "evaluate",
        "estimate from the log of decisions what another policy would have earned; or export the log",
        "gain:judge",
    )
    evaluate.add_argument(
        "log", nargs="?", type=Path, metavar="LOG",
        help="folder or file of the log (default: that of daemon.state_dir)",
    )  # fmt: skip
    evaluate.add_argument(
        "--policy", metavar="NAME",
        help="an arm, for always this arm; uniform: all arms of the pool alike; policy: the daemon's choice "
        "without exploration",
    )  # fmt: skip
    evaluate.add_argument("--since", type=_age, metavar="AGE", help="only the last 7d, 12h, 30m or 90s")
    evaluate.add_argument(
        "--export",
        type=Path,
        metavar="FILE",
        help="write the log as CSV, or as Parquet where pyarrow is installed: by the file's ending",
    )
    gained = add(
        "report",
        "tell what the daemon gained, by the experiment under way; in mode advise, what it would change",
        "gain:report",
    )
    gained.add_argument(
        "log", nargs="?", type=Path, metavar="LOG",
        help="folder or file of the log (default: that of daemon.state_dir)",
    )  # fmt: skip
    gained.add_argument("--since", type=_age, metavar="AGE", help="only the last 7d, 12h, 30m or 90s")
    outcomes = add(
        "outcomes",
        "show what came of the flows, by destination prefix, size and the arm on which they began",
        "outcomes:outcomes",
    )
    outcomes.add_argument(
        "log", nargs="?", type=Path, metavar="LOG",
        help="folder or file of the log (default: that of daemon.state_dir)",
    )  # fmt: skip
    outcomes.add_argument("--since", type=_age, metavar="AGE", help="only the last 7d, 12h, 30m or 90s")
    visits = add("visits", "show what the daemon has learned from flow to flow, by prefix", "visits:visits")
    visits.add_argument("--prefix", metavar="NETWORK", help="only that of this address or network")
    visits.add_argument(
        "--limit", type=whole(1, 1000), default=100, metavar="N",
        help="only the N prefixes that were seen last (default: 100)",
    )  # fmt: skip
    fleet = add("fleet", "show what other hosts of the site have told", "fleet:fleet")
    fleet.add_argument("action", choices=["status"])
    replayed = add(
        "replay",
        "try the learner from flow to flow on visits drawn from a log of outcomes of flows on fixed arms",
        "replay:replay",
    )
    replayed.add_argument(
        "log", nargs="?", type=Path, metavar="LOG",
        help="folder or file of the log of outcomes (default: that of daemon.state_dir)",
    )  # fmt: skip
    replayed.add_argument(
        "--decision", required=True, metavar="ARM", help="the arm that stands for the decision's own choice"
    )
    replayed.add_argument(
        "--visits", type=whole(1, 10_000), default=400, metavar="N", help="visits of each prefix; default 400"
    )
    replayed.add_argument(
        "--least", type=whole(1, 10_000), default=5, metavar="N",
        help="only prefixes with so many visits of each arm; default 5",
    )  # fmt: skip
    replayed.add_argument(
        "--seeds", type=whole(1, 10_000), default=3, metavar="N", help="number of replays; default 3"
    )
    rollout = add(
        "rollout",
        "let the daemon steer 5, 20, 50, then all of the traffic, and none again where goodput suffers; show "
        "how that stands; or abort it",
        "rollout:rollout",
    )
    rollout.add_argument("action", choices=["start", "status", "abort"])
    rollout.add_argument(
        "--units", choices=["prefixes", "blocks"],
        help="start: draw lots for each destination prefix, or for time blocks of all traffic (default: "
        "prefixes where 1,000 or more have open flows)",
    )  # fmt: skip
    token = add("token", "make, list or remove tokens, which the API asks for over TCP", "token:token")
    token.add_argument("action", choices=["add", "list", "remove"])
    token.add_argument("name", nargs="?", metavar="NAME")
    scope = token.add_mutually_exclusive_group()
    for may, text in (("read", "add: for reading only"), ("write", "add: for changes, too")):
        scope.add_argument(f"--{may}", dest="scope", action="store_const", const=may, help=text)
    opened = add(
        "dashboard",
        "print an address that opens the dashboard in a browser, once and within a minute",
        "dashboard:dashboard",
    )
    opened.add_argument("--read", action="store_true", help="the browser may only read")
    add("version", "show the versions of program and daemon", "show:version")
    shell = add(
        "completion",
        "print the script by which a shell completes commands",
        "main:completion",
        bare,
    )
    shell.add_argument("shell", choices=SHELLS)
    return top


def completion(options: argparse.Namespace) -> int:
    """Print the shell's completion script."""
    print(script(parser(), options.shell))
    return 0


def _common(default: str | None) -> argparse.ArgumentParser:
    """Make a parser of the options that all commands have. `default` is the value of an absent option."""
    made = argparse.ArgumentParser(add_help=False)
    made.add_argument(
        "--config", type=Path, metavar="FILE", default=default, help=f"settings (default {DEFAULT_PATH})"
    )
    made.add_argument(
        "--socket", metavar="PATH", default=default, help="the daemon's socket (daemon.control_socket)"
    )
    return made


def _add_forms(made: argparse.ArgumentParser, default: object) -> None:
    """Add the options of the commands that print."""
    form = made.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", default=default, help="print JSON")
    form.add_argument(
        "--terse",
        action="store_true",
        default=default,
        help="print tables without headings, a tab between values",
    )


def _add_named(add: Callable[..., argparse.ArgumentParser]) -> None:
    """Add the commands about destinations, which need no daemon."""
    use = add(
        "use",
        "run new connections to these destinations under mutant; no route is touched",
        "named:use",
    )
    use.add_argument("prefix", nargs="+", metavar="PREFIX", help="such as 203.0.113.0/24 or 2001:db8::/32")
    unuse = add("unuse", "leave new connections to these destinations as they would be", "named:unuse")
    unuse.add_argument("prefix", nargs="*", metavar="PREFIX")
    unuse.add_argument("--all", action="store_true", help="all that are used")
    used = add(
        "used",
        "list the destinations that are used or that policies name, and how many connections each has had",
        "named:used",
    )
    doing = used.add_mutually_exclusive_group()
    doing.add_argument(
        "--apply", action="store_true",
        help="put them in force, as the service ltp-switcher-use does at boot and after each change",
    )  # fmt: skip
    doing.add_argument(
        "--withdraw", action="store_true",
        help="take the program out of the kernel; the destinations are kept for the next --apply",
    )  # fmt: skip
    for made in (use, unuse, used):
        made.add_argument(
            "--file", type=Path, default=PREFIXES_PATH, help=f"where they are kept (default {PREFIXES_PATH})"
        )


def _lazy(place: str) -> Command:
    """A command by `module:function`, imported when it runs: the help must not wait for numpy."""

    def call(options: argparse.Namespace) -> int:
        from importlib import import_module

        module, _, name = place.partition(":")
        command: Command = getattr(import_module(f"ltp_switcher.daemon.cli.{module}"), name)
        return command(options)

    return call


def _age(text: str) -> float:
    """A time such as 7d, in seconds."""
    units = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
    number, unit = text[:-1], text[-1:]
    if not (number.isascii() and number.isdecimal() and unit in units and 0 < int(number) < 10**6):
        raise argparse.ArgumentTypeError(f"{text!r} is not valid; allowed: 7d, 12h, 30m or 90s")
    return float(int(number) * units[unit])


def _cookie(text: str) -> str:
    """A cookie in decimal, as the daemon takes it."""
    digits = text.removeprefix("sk:")
    try:
        cookie = int(digits, 10 if digits == text else 16)
    except ValueError:
        cookie = 0
    if not 0 < cookie < 2**64:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no socket cookie; allowed: a decimal number from 1 to 2^64 - 1, "
            "or sk: and a hexadecimal one, as `ss -tine` shows it"
        )
    return str(cookie)


if __name__ == "__main__":
    sys.exit(main())
