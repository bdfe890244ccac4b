# SPDX-License-Identifier: Apache-2.0
"""`ltp-switcher outcomes` summarises the outcomes of flows (sums over their lives) by destination prefix,
size, starting arm and group of an experiment.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
from pathlib import Path

import numpy as np

from ltp_switcher.daemon.cli.gain import named, since, tell_skipped
from ltp_switcher.daemon.cli.main import settings
from ltp_switcher.daemon.cli.printing import print_json, print_table, with_nulls
from ltp_switcher.daemon.gain import log
from ltp_switcher.daemon.gain import outcomes as outcome_log


def outcomes(options: argparse.Namespace) -> int:
    """Print a summary of the log of outcomes, which has the totals of each flow's life."""
    place: Path = options.log or Path(settings(options).daemon.state_dir) / outcome_log.FOLDER
    skipped = log.Skipped()
    with named(options, "outcomes"):
        names = log.read_names(place, outcome_log.OUTCOMES)
        rows = [*outcome_log.read(place, since(options), skipped)]
    tell_skipped(skipped)
    told = np.concatenate([np.zeros(0, outcome_log.ROW_DTYPE), *rows])
    found = outcome_log.summarised(told, names)
    if options.json:
        return print_json([with_nulls(dataclasses.asdict(one)) for one in found])
    return _print(options, found)


def _print(options: argparse.Namespace, found: list[outcome_log.Summary]) -> int:
    rows = [
        [
            one.prefix,
            one.size,
            one.arm,
            "-" if one.group == "none" else one.group,
            str(one.flows),
            f"{one.acked_bytes / 1e6:.2f}",
            f"{one.goodput_mbps:.2f}",
            f"{one.rtt_ms:.1f}",
            f"{one.loss * 100:.2f}",
            _number(one.value),
            _number(one.error),
        ]
        for one in found
    ]
    heads = ["PREFIX", "SIZE", "ARM", "GROUP", "FLOWS", "MB", "MBIT/S", "RTT MS", "LOSS %", "VALUE", "±"]
    return print_table(options, heads, rows)


def _number(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"
