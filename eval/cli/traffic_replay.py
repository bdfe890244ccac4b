# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval traffic-replay`: replay the learner from flow to flow, in true time, on folders that `ltp-eval
traffic` has written.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from ltp_switcher.eval.cli.output import json_text
from ltp_switcher.eval.cli.traffic import DECISION
from ltp_switcher.eval.report import traffic_replay
from ltp_switcher.eval.report.traffic_flows import read_flows
from ltp_switcher.eval.report.traffic_pairs import narrowed


def replay(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """Replay the learner `options.replays` times, and print a table or JSON. No lab is run."""
    flows = narrowed(read_flows(options.folders), options.paths, options.seeds, [])
    paths = traffic_replay.measured(flows, DECISION)
    if options.alike:
        paths = traffic_replay.alike(paths)
    seeds = track(range(1, options.replays + 1), "replaying", console=progress, transient=True)
    found = [traffic_replay.replay(paths, seed, options.visits) for seed in seeds]
    if options.json:
        value = {
            "paths": {path.path: {str(lot): gain for lot, gain in path.gains.items()} for path in paths},
            "replays": [asdict(one) for one in found],
        }
        console.out(json_text(value), end="", highlight=False)
        return
    console.print(f"{len(found)} replays of {', '.join(path.path for path in paths)}", highlight=False)
    console.print(_table(found), highlight=False)
    console.print(
        f"the ledger had {max(one.ledger for one in found):.2%} of all reward at most; "
        f"{np.mean([one.path_changes for one in found]):.1f} false alarms in a replay",
        highlight=False,
    )


def _table(found: list[traffic_replay.Replay]) -> Table:
    table = Table(box=None, pad_edge=False)
    heads = "visits", "reward over the decision", "gap closed", "flows in trials", "on other incumbents"
    for head in heads:
        table.add_column(head)
    for windows in zip(*(one.windows for one in found), strict=True):
        first = windows[0]
        table.add_row(
            f"{first.first} to {first.last}",
            _mean([window.reward for window in windows], "{:.3f}"),
            _mean([window.closed for window in windows], "{:.2f}"),
            f"{np.mean([window.trials for window in windows]):.1%}",
            f"{np.mean([window.others for window in windows]):.1%}",
        )
    return table


def _mean(values: list[float], form: str) -> str:
    """The mean with its standard error."""
    error = float(np.std(values) / np.sqrt(max(len(values) - 1, 1)))
    return f"{form.format(float(np.mean(values)))} ± {form.format(error)}"
