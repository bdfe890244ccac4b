# SPDX-License-Identifier: Apache-2.0
"""The time that Careful Resume saves, by path and size: `python tests/kmod/bench_resume.py [--arms bbr]`.

A row is an arm, a path of a bandwidth-delay product with an RTT of 80 ms, and a size. Its first flow (8 MB)
shows the capacity of the path. Then two flows carry the size, one with Careful Resume and one without. The
receiver does not limit. "possible" is the saving of ideal slow start, the handshake included. Ranges are over
the seeds.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.table import Table
from support.module_lab import KERNELS, guest_files, run

from ltp_switcher.errors import LtpSwitcherError

HEAD = ("arm", "BDP, packets", "size, KB", "s without", "s with", "ratio", "share of the possible")
WORTH_S = 0.01
"""A possible saving below this has no share."""


def measure(kernel: str, arms: Sequence[str], seed: int) -> list[dict[str, Any]]:
    """The rows of one boot. Raises `LtpSwitcherError`."""
    command = f"python3 -m kmod_guest.resume_times {' '.join(arms)}"
    result = run(kernel, command, guest_files(), python=True, seed=seed)
    if "/tmp/report.json" not in result.files:  # noqa: S108
        raise LtpSwitcherError(f"The guest left no report:\n{result.console[-2000:]}")
    rows: list[dict[str, Any]] = json.loads(result.files["/tmp/report.json"])  # noqa: S108
    return [row | {"seed": seed} for row in rows]


def spread(values: Sequence[float]) -> str:
    """The mean, and the range where there is more than one value."""
    return f"{fmean(values):.2f}" + (f" ({min(values):.2f} to {max(values):.2f})" if len(values) > 1 else "")


def lines(rows: Sequence[dict[str, Any]]) -> Iterator[list[str]]:
    """The table's rows, over the seeds."""
    for key in dict.fromkeys((row["arm"], row["bdp_pkts"], row["size_bytes"]) for row in rows):
        of = [row for row in rows if (row["arm"], row["bdp_pkts"], row["size_bytes"]) == key]
        shares = [
            (row["without_s"] - row["with_s"]) / row["possible_s"]
            for row in of
            if row["possible_s"] > WORTH_S
        ]
        yield [
            str(key[0]), str(key[1]), str(key[2] // 1000),
            spread([row["without_s"] for row in of]), spread([row["with_s"] for row in of]),
            spread([row["with_s"] / row["without_s"] for row in of]),
            spread(shares) if shares else "nothing to save",
        ]  # fmt: skip


def main() -> int:
    """Run the boots, and print the table, or the rows as JSON."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kernel", default=KERNELS[0], help="default: %(default)s")
    parser.add_argument("--arms", default="cubic", help="one or more, with commas; default: %(default)s")
    parser.add_argument("--seeds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for seed in range(1, options.seeds + 1):
        print(f"seed {seed} of {options.seeds}", file=sys.stderr)
        try:
            rows += measure(options.kernel, options.arms.split(","), seed)
        except LtpSwitcherError as error:
            print(f"bench_resume: {error}", file=sys.stderr)
            return 1
    if options.json:
        print(json.dumps(rows))
        return 0
    table = Table(*HEAD, box=None, pad_edge=False)
    for line in lines(rows):
        table.add_row(*line)
    Console(width=120).print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
