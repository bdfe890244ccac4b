# SPDX-License-Identifier: Apache-2.0
"""The commands about mahimahi: the set-up on this machine, and the comparison with the lab."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ltp_switcher.errors import EmulationError
from ltp_switcher.eval.cli.output import json_text, need_pictures
from ltp_switcher.eval.mahimahi.run import host_protocols
from ltp_switcher.eval.mahimahi.setup import fetch_shells, find_missing
from ltp_switcher.eval.report import engine_agreement as agreement
from ltp_switcher.eval.run.bundled import find_scenario
from ltp_switcher.eval.run.schemes import check_scheme


def mahimahi(options: argparse.Namespace, console: Console, _: Console) -> None:
    """`ltp-eval mahimahi`: it unpacks mahimahi's shells, and lists everything that keeps them from running
    here.

    Raises:
        EmulationError: a program or a right is missing.
    """
    folder, protocols, missing = fetch_shells(), host_protocols(), find_missing()
    if options.json:
        value = {
            "folder": str(folder), "protocols": list(protocols),
            "missing": [one.to_dict() for one in missing],
        }  # fmt: skip
        console.out(json_text(value), end="", highlight=False)
    else:
        console.print(f"mahimahi: {folder}", highlight=False, soft_wrap=True)
        console.print(f"protocols of this kernel: {', '.join(protocols)}", highlight=False)
    if missing:
        if not options.json:
            table = Table("missing", "remedy", box=None, pad_edge=False)
            for one in missing:
                table.add_row(one.what, one.remedy)
            console.print(table)
        raise EmulationError(f"mahimahi cannot run here: {', '.join(one.what for one in missing)} missing")


def agree(options: argparse.Namespace, console: Console, progress: Console) -> None:
    """`ltp-eval agree`: it makes the same runs in the lab and through mahimahi, and writes `agree.json` and a
    picture.
    """
    scenarios = [find_scenario(name) for name in options.scenario or agreement.SCENARIOS]
    if options.seconds is not None:
        scenarios = [agreement.shortened(scenario, float(options.seconds)) for scenario in scenarios]
    schemes = [check_scheme("--schemes", name) for name in options.schemes]
    need_pictures()
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)
    rows = agreement.measure_agreement(
        scenarios,
        schemes,
        options.seeds,
        options.repeats,
        out / "traces",
        progress,
        kernel=options.kernel,
        use_cache=options.cache,
    )
    text = json_text([row.to_dict() for row in rows])
    (out / "agree.json").write_text(text)
    agreement.draw_agreement(out / "agree.png", rows)
    if options.json:
        console.out(text, end="", highlight=False)
        return
    console.print(agreement.agreement_table(rows, options.repeats))
    console.print(f"\n{out}: agree.json, agree.png", highlight=False)
