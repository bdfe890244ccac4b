# SPDX-License-Identifier: Apache-2.0
"""`make bench-api`: daemon and API under load, on the recorded stream. It prints, and judges nothing."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from load import blocks, full_disk, listeners, listing, report, restart
from load.blocks import Load
from load.service import STEP_MS, Wanted
from ltp_switcher.errors import LtpSwitcherError

PARTS = ("load", "listeners", "listing", "restart", "report", "full-disk")


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print; return the exit status."""
    options = _parser().parse_args(arguments)
    try:
        found = {part: _measure(part, options) for part in options.part or PARTS}
    except LtpSwitcherError as error:
        print(f"bench-api: {error}", file=sys.stderr)
        return 1
    if options.json:
        print(json.dumps(found, indent=2))
    else:
        for part, figures in found.items():
            print(f"\n{part}")
            _print(figures)
    return 0


def _measure(part: str, options: argparse.Namespace) -> dict[str, object]:
    def tell(text: str) -> None:
        print(f"bench-api: {part}: {text}", file=sys.stderr, flush=True)

    with TemporaryDirectory(prefix="bench-api-") as name:
        folder = Path(name)
        # For the other users of the sockets' group.
        folder.chmod(0o710)
        wanted = Wanted(folder, options.flows, options.policy, churn=2, seed=options.seed)
        load = Load(
            options.clients, options.rate, options.half_open, options.pairs, options.block_s, options.abuse_s
        )
        if part == "listeners":
            return listeners.measure(wanted, options.crowd or (20, 100), load, tell)
        if part == "load":
            return blocks.measure(wanted, load, tell)
        if part == "listing":
            wanted = Wanted(folder, options.many, options.policy, churn=2, seed=options.seed)
            return listing.measure(wanted, options.repeats, tell)
        if part == "full-disk":
            return full_disk.measure(wanted, load, tell)
        if part == "report":
            wanted = Wanted(folder, 100, options.policy, churn=2, seed=options.seed, log_mb=10_000)
            return report.measure(wanted, options.rows, options.prefixes, tell)
        wanted = Wanted(folder, options.flows, "mutant", seed=options.seed)
        return restart.measure(wanted, options.restarts, tell)


def _print(value: object, indent: int = 1) -> None:
    if not isinstance(value, dict):
        print("  " * indent + str(value))
        return
    width = max(len(str(name)) for name in value) if value else 0
    for name, entry in value.items():
        if isinstance(entry, dict) and any(isinstance(part, dict) for part in entry.values()):
            print("  " * indent + str(name))
            _print(entry, indent + 1)
        elif isinstance(entry, dict):
            print("  " * indent + f"{name:<{width}}  " + ", ".join(f"{k} {v}" for k, v in entry.items()))
        else:
            print("  " * indent + f"{name:<{width}}  {entry}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m load", description=__doc__)
    parser.add_argument("--part", action="append", choices=PARTS, help="only this part; may be repeated")
    parser.add_argument("--policy", choices=sorted(STEP_MS), default="rule", help="of load and listing")
    parser.add_argument("--flows", type=int, default=1000)
    parser.add_argument("--many", type=int, default=10_000, help="flows of the listing")
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument(
        "--crowd", type=int, action="append", help="clients over TCP without a token; may be repeated"
    )
    parser.add_argument("--rate", type=float, default=1.0, help="requests a second of each client")
    parser.add_argument("--half-open", type=int, default=1024)
    parser.add_argument("--pairs", type=int, default=6, help="blocks with load, and as many without")
    parser.add_argument("--block-s", type=float, default=15.0)
    parser.add_argument("--abuse-s", type=float, default=60.0)
    parser.add_argument("--repeats", type=int, default=100)
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the report's log")
    parser.add_argument("--prefixes", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    return parser


if __name__ == "__main__":
    sys.exit(main())
