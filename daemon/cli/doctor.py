# SPDX-License-Identifier: Apache-2.0
"""The command `doctor`."""

from __future__ import annotations

import argparse
import dataclasses
import json
from typing import Final

from ltp_switcher.daemon.cli.examination import examine
from ltp_switcher.daemon.cli.main import EXIT_REFUSED, settings

_COLOURS: Final = {"ok": "green", "warn": "yellow", "fail": "red"}


def doctor(options: argparse.Namespace) -> int:
    """Print the findings; the exit status is 1 if something does not work."""
    findings = list(examine(settings(options)))
    failed = any(finding.verdict == "fail" for finding in findings)
    if options.json:
        print(json.dumps([dataclasses.asdict(finding) for finding in findings], indent=2))
        return EXIT_REFUSED if failed else 0
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False, soft_wrap=True)
    for finding in findings:
        mark = f"[{_COLOURS[finding.verdict]}]{finding.verdict:<4}[/]"
        console.print(f"{mark}  {finding.subject:<14}  {escape(finding.detail)}")
        if finding.advice:
            console.print(f"{'':<22}[dim]→ {escape(finding.advice)}[/]")
    return EXIT_REFUSED if failed else 0
