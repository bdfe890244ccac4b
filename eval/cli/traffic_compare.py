# SPDX-License-Identifier: Apache-2.0
"""`ltp-eval traffic-compare`: compare two schemes or two revisions flow by flow, from folders that `ltp-eval
traffic` has written.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from ltp_switcher.errors import ConfigError
from ltp_switcher.eval.cli.output import json_text
from ltp_switcher.eval.cli.traffic import is_fixed
from ltp_switcher.eval.report import traffic_pairs
from ltp_switcher.eval.report.traffic_flows import FlowSet, read_flows
from ltp_switcher.eval.report.traffic_pair_tables import pair_tables


def compare(options: argparse.Namespace, console: Console, _: Console) -> None:
    """Compare our side with theirs, each a scheme's finished flows, and print tables or JSON.
    Nothing is run.
    """
    scheme, over = options.scheme, options.over or options.scheme
    if not options.against and over == scheme:
        raise ConfigError(
            "--against", "", f"folders of another revision, or --over another one than {scheme}"
        )
    flows = read_flows(options.folders)
    others = read_flows(options.against) if options.against else flows
    ours, theirs = _side(flows, scheme, options), _side(others, over, options)
    found = traffic_pairs.compare(ours, theirs, options.choose, options.after_visits)
    if options.json:
        console.out(json_text(asdict(found)), end="", highlight=False)
        return
    seeds = ", ".join(map(str, found.seeds))
    later = f", visits after the first {options.after_visits}" if options.after_visits else ""
    console.print(f"seeds {seeds}{later}; ours: {scheme} of {_listed(options.folders)}", highlight=False)
    console.print(f"theirs: {over} of {_listed(options.against or options.folders)}", highlight=False)
    for table in pair_tables(found):
        console.print(table, highlight=False)


def _side(flows: FlowSet, scheme: str, options: argparse.Namespace) -> traffic_pairs.Side:
    flows = traffic_pairs.narrowed(flows, options.paths, options.seeds, options.choose)
    arms = options.arms or list(filter(is_fixed, flows.schemes))
    return traffic_pairs.side_of(flows, scheme, arms, options.choose)


def _listed(folders: Sequence[Path]) -> str:
    return ", ".join(map(str, folders))
