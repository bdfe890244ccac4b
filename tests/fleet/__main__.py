# SPDX-License-Identifier: Apache-2.0
"""`make bench-fleet`: hosts that share lessons, in made worlds and on a real store. It only prints."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from fleet import faults, load, steps, world

SHOWN = range(301, 317)
"""Worlds from which the figures come; bounds and weights were chosen on others, 101 to 130."""
PARTS: Final[Mapping[str, Callable[[Path], dict[str, object]]]] = {
    "second-host": lambda _: world.second_host(SHOWN),
    "new-prefixes": lambda _: world.new_prefixes(range(1, 4)),
    "first-trial": lambda _: world.first_trials(range(1, 4)),
    "latency": faults.latency,
    "faults": faults.faults,
    "liar": lambda _: world.liar(SHOWN),
    "steps": steps.steps,
    "load": load.load,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print; return the exit status."""
    parser = argparse.ArgumentParser(prog="bench-fleet", description=__doc__)
    parser.add_argument("--part", action="append", choices=[*PARTS], help="only this one; may be repeated")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    found = {}
    for part in options.part or PARTS:
        print(f"bench-fleet: {part}", file=sys.stderr, flush=True)
        with TemporaryDirectory() as folder:
            found[part] = PARTS[part](Path(folder))
        if not options.json:
            print(f"\n{part}")
            for name, value in found[part].items():
                print(f"  {name}: {value}", flush=True)
    if options.json:
        print(json.dumps(found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
