# SPDX-License-Identifier: Apache-2.0
"""`ltp-switcher evaluate` and `ltp-switcher report`: estimate the rewards of policies and the daemon's gain
from the log of decisions.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from ltp_switcher.daemon.cli.main import settings
from ltp_switcher.daemon.cli.printing import Object, print_json, print_table
from ltp_switcher.daemon.gain import log
from ltp_switcher.daemon.gain import report as reports
from ltp_switcher.daemon.gain.columns import KeptLog
from ltp_switcher.daemon.gain.effect import Effect
from ltp_switcher.daemon.gain.evaluate import Evaluation, evaluate
from ltp_switcher.daemon.gain.export import ExportError, export
from ltp_switcher.daemon.gain.flows import KeptFlows
from ltp_switcher.daemon.gain.rows import ROW_DTYPE
from ltp_switcher.errors import ArtifactError, ConfigError


def judge(options: argparse.Namespace) -> int:
    """Carry out `evaluate`: estimate the reward that a policy would have earned, or export the log."""
    if options.policy is None and options.export is None:
        raise ConfigError("--policy", None, "--policy NAME or --export FILE")
    place, skipped = options.log or place_of(options), log.Skipped()
    with named(options):
        names, parts = log.read_names(place), log.read(place, since(options), skipped)
        if options.export is not None:
            export(parts, names, options.export, _tell_progress)
            tell_skipped(skipped)
            return 0
        rows = np.concatenate([np.zeros(0, ROW_DTYPE), *parts])
    tell_skipped(skipped)
    found = evaluate(rows, options.policy, names)
    return print_json(_json(found)) if options.json else _print(options, found)


def report(options: argparse.Namespace) -> int:
    """Print the daemon's gain. In mode advise, print the gain that the daemon's advice would bring."""
    # The rows before --since tell how the prefixes of an experiment differed before it.
    place = options.log or place_of(options)
    kept, flows = KeptLog(place), KeptFlows(place)
    with named(options):
        kept.refresh()
    flows.refresh()
    skipped = kept.skipped + flows.skipped
    tell_skipped(skipped)
    found = reports.report(kept.columns, kept.names, since(options), skipped, flows.rows)
    if options.json:
        made: Object = dataclasses.asdict(found)
        return print_json(made)
    return _print_report(options, found)


@contextlib.contextmanager
def named(options: argparse.Namespace, what: str = "decisions") -> Iterator[None]:
    """A context that turns a failure to read the log into `ConfigError`, if the command line names the log.
    `what` is the kind of entries in the log, for the message.
    """
    try:
        yield
    except ArtifactError as error:
        if options.log is None or isinstance(error, ExportError):
            raise
        raise ConfigError(
            "LOG", str(options.log), f"a folder or a file of a log of {what} ({error})"
        ) from error


def _tell_progress(rows: int) -> None:
    """Tell a person how far a long export is."""
    if sys.stderr.isatty():
        print(f"\r{rows} decisions", end="", file=sys.stderr, flush=True)


def tell_skipped(skipped: log.Skipped) -> None:
    """Print on stderr how many parts of the log were left out. Programs that read stdout do not see this."""
    if skipped.damaged:
        print(f"ltp-switcher: {skipped.damaged} damaged records of the log are left out", file=sys.stderr)
    if skipped.old:
        print(
            f"ltp-switcher: the {skipped.old} oldest files are left out, because the log is so large",
            file=sys.stderr,
        )
    if skipped.foreign:
        print(
            f"ltp-switcher: {skipped.foreign} files of another version of ltp-switcher are left out",
            file=sys.stderr,
        )


def place_of(options: argparse.Namespace) -> Path:
    """The folder of the log of decisions, in the state directory of the settings."""
    return Path(settings(options).daemon.state_dir) / log.FOLDER


def since(options: argparse.Namespace) -> float:
    """The Unix time from which rows of the log count; 0 if all count."""
    return time.time() - options.since if options.since is not None else 0.0


def _json(found: Evaluation) -> Object:
    made: Object = dataclasses.asdict(found)
    return made


def _print(options: argparse.Namespace, found: Evaluation) -> int:
    _say(
        options,
        f"{found.policy}: {found.decisions} decisions, effective sample size {found.effective:.0f}, "
        f"{found.clusters} independent units ({found.of}); {found.without_reward} decisions were too short",
    )
    rows = [
        [name, f"{mean.value:.4f}", f"{mean.lower:.4f} to {mean.upper:.4f}"]
        for name, mean in (
            ("logged policy", found.logged),
            ("IPS estimate", found.ips),
            ("SNIPS estimate", found.snips),
        )
    ]
    return print_table(options, ["", "mean reward", "95 % interval"], rows)


def _print_report(options: argparse.Namespace, found: reports.Report) -> int:
    if found.design == "none":
        _say(
            options,
            f"{found.decisions} decisions, none of an experiment: set gain.design to measure what they gain.",
        )
    else:
        _say(options, f"A {found.design}, {found.decisions} decisions. Change by the daemon's choices:")
        print_table(options, ["", "change", "95 % interval", "units"], _effects("all", found.overall))
        for prefix, effects in found.prefixes.items():
            print_table(options, ["", "change", "95 % interval", "units"], _effects(prefix, effects))
    if found.flow_reward:
        _say(options, "\nChange of a flow's reward, by the outcomes of flows of all sizes and of each:")
        print_table(
            options, ["", "change", "95 % interval", "units"],
            [_effect(f"flow reward, {name}", effect, " %") for name, effect in found.flow_reward.items()],
        )  # fmt: skip
    _say(options, "\nUse of protocols, means over destination prefixes:")
    print_table(
        options,
        ["protocol", "of the data", "goodput, Mbit/s", "p95 RTT, ms", "retransmits, %", "completion, s"],
        [
            [name, f"{use.share:.1%}", _mean(use.goodput_Bps, 8e-6), _mean(use.rtt_p95_us, 1e-3),
             _mean(use.retransmits, 100.0), _mean(use.completion_time_s, 1.0)]
            for name, use in found.arms.items()
        ],
    )  # fmt: skip
    if not found.advice:
        return 0
    agreed = "" if found.agreed is None else f", {found.agreed[0]:.0%} of the time on the mean prefix"
    _say(
        options,
        f"\nAdvice and traffic agreed{agreed}. The expected change is an estimate: no lot drew the flows.",
    )
    return print_table(
        options,
        ["prefix", "agreed", "expected change of the reward", "verdict"],
        [
            [prefix, f"{one.agreed:.0%}", "" if one.expected is None else _interval(one.expected, 1.0, ""),
             one.verdict]
            for prefix, one in found.advice.items()
        ],
    )  # fmt: skip


def _say(options: argparse.Namespace, text: str) -> None:
    """Print a sentence for people. With --terse, which is for programs, print nothing."""
    if not options.terse:
        print(text)


def _effects(of: str, effects: Mapping[str, Effect | None]) -> list[list[str]]:
    return [
        _effect(f"{of}: {name}", effect, " %" if name in reports.RATIOS else " points")
        for name, effect in effects.items()
    ]


def _effect(name: str, effect: Effect | None, unit: str) -> list[str]:
    if effect is None:
        return [name, "not known yet", "too few units", ""]
    return [
        name, f"{100 * effect.value:+.2f}{unit}", _interval(effect, 100.0, unit),
        f"{effect.treated} and {effect.control}",
    ]  # fmt: skip


def _interval(effect: Effect, scale: float, unit: str) -> str:
    return f"{scale * effect.lower:+.2f} to {scale * effect.upper:+.2f}{unit}"


def _mean(found: tuple[float, float, float] | None, scale: float) -> str:
    if found is None:
        return "too few prefixes"
    value, lower, upper = (scale * one for one in found)
    return f"{value:.2f} ({lower:.2f} to {upper:.2f})"
