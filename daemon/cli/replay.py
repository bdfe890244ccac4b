# SPDX-License-Identifier: Apache-2.0
"""`ltp-switcher replay` shows how well the learner would have chosen arms for visits. A visit is a group of
flows to a prefix, and comes from a log of outcomes (sums over the lives of flows).
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import sys
from pathlib import Path

import numpy as np

from ltp_switcher.arrays import Ints
from ltp_switcher.daemon.choose.visits.learner import Learner
from ltp_switcher.daemon.choose.visits.replay import Pool, Replayed, Window
from ltp_switcher.daemon.choose.visits.replay import replay as replayed
from ltp_switcher.daemon.cli.gain import named, tell_skipped
from ltp_switcher.daemon.cli.main import settings
from ltp_switcher.daemon.cli.printing import Object, print_json, print_table, with_nulls
from ltp_switcher.daemon.gain import log, outcomes
from ltp_switcher.errors import InvalidValueError


def replay(options: argparse.Namespace) -> int:
    """Let the learner choose arms for visits that are drawn from the log, and print its results. Raises
    `InvalidValueError` if no prefix has enough visits on every arm.
    """
    place: Path = options.log or Path(settings(options).daemon.state_dir) / outcomes.FOLDER
    skipped = log.Skipped()
    with named(options, "outcomes"):
        names = log.read_names(place, outcomes.OUTCOMES)
        rows = np.concatenate([np.zeros(0, outcomes.ROW_DTYPE), *outcomes.read(place, skipped=skipped)])
    tell_skipped(skipped)
    table = outcomes.visits_of(rows)
    arms = _arms(table, names, options.decision)
    prefixes, pools = _pools(table, arms, options.least)
    if not pools:
        raise InvalidValueError(
            "--least",
            options.least,
            f"at most the visits that some prefix has of each of {', '.join(_named(arms, names))}",
        )
    found = []
    for seed in range(1, options.seeds + 1):
        if sys.stderr.isatty():
            print(f"\rreplay {seed} of {options.seeds}", end="", file=sys.stderr, flush=True)
        found.append(replayed(pools, options.visits, Learner(len(arms)), seed))
    if sys.stderr.isatty():
        print(file=sys.stderr)
    return _print(options, found, _named(arms, names), [table.names[prefix] for prefix in prefixes])


def _arms(table: outcomes.VisitTable, names: dict[int, str], decision: str) -> list[int]:
    """The arms of the log, the decision's own choice first. Raises `InvalidValueError`."""
    seen = np.unique(table.arms).tolist()
    ids = {names.get(arm, str(arm)): arm for arm in seen}
    if decision not in ids:
        raise InvalidValueError(
            "--decision", decision, f"one of {', '.join(ids) or 'no arm: the log is empty'}"
        )
    return [ids[decision], *(arm for arm in seen if arm != ids[decision])]


def _pools(table: outcomes.VisitTable, arms: list[int], least: int) -> tuple[list[int], list[list[Pool]]]:
    """The prefixes with at least `least` visits on each arm, and for each of these prefixes the visits on
    each arm.
    """
    prefixes, pools = [], []
    for prefix in np.unique(table.prefixes).tolist():
        chosen = [np.flatnonzero((table.prefixes == prefix) & (table.arms == arm)) for arm in arms]
        if min(map(len, chosen)) >= least:
            prefixes.append(prefix)
            pools.append([_pool(table, places) for places in chosen])
    return prefixes, pools


def _pool(table: outcomes.VisitTable, places: Ints) -> Pool:
    return Pool(table.values[places], table.information[places], table.flows[places])


def _named(arms: list[int], names: dict[int, str]) -> list[str]:
    return [names.get(arm, str(arm)) for arm in arms]


def _print(options: argparse.Namespace, found: list[Replayed], arms: list[str], prefixes: list[str]) -> int:
    windows = [_mean([one.windows[place] for one in found]) for place in range(len(found[0].windows))]
    ledger, worst = max(one.ledger for one in found), max(one.worst_prefix for one in found)
    if options.json:
        made: Object = {
            "arms": [*arms],
            "prefixes": [*prefixes],
            "windows": [with_nulls(dataclasses.asdict(window)) for window in windows],
            "ledger_max": ledger,
            "worst_prefix_max": worst,
        }
        return print_json(made)
    if not options.terse:
        print(
            f"{len(prefixes)} prefixes, {len(found)} replays, arms {', '.join(arms)}; trials cost at most "
            f"{ledger:.2%} of the reward, {worst:.2%} of a prefix's"
        )
    rows = [
        [
            f"{one.first} to {one.last}",
            f"{math.exp(one.gain):.3f}",
            f"{math.exp(one.best_gain):.3f}",
            "-" if math.isnan(one.closed) else f"{one.closed:.2f}",
            f"{one.trials:.2%}",
            f"{one.cost:.2%}",
        ]
        for one in windows
    ]
    return print_table(options, ["VISITS", "REWARD", "BEST", "CLOSED", "TRIALS", "COST"], rows)


def _mean(windows: list[Window]) -> Window:
    """The mean of a window over replays."""
    means = np.mean([dataclasses.astuple(one) for one in windows], axis=0).tolist()
    first, last, gain, best, closed, trials, cost = means
    return Window(int(first), int(last), gain, best, closed, trials, cost)
