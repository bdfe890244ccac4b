# SPDX-License-Identifier: Apache-2.0
"""`policy`: show the policies, apply a file of policies, or show the difference."""

from __future__ import annotations

import argparse
from typing import cast

from ltp_switcher.commands import printable
from ltp_switcher.daemon.cli.printing import Object, as_object, as_objects, ask, ask_to_change, print_json
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.settings.policies import parse, read
from ltp_switcher.errors import ConfigError


def policy(options: argparse.Namespace) -> int:
    """Print the policies, or apply a file."""
    if options.action is None:
        found = as_object(ask(options, "policies.get"))
        return print_json(found) if options.json else _print(as_objects(found["policies"]))
    if options.file is None:
        raise ConfigError("policy apply", "", "a file with tables [[policy]]; an empty one drops them all")
    entries = cast("Json", [dict(entry) for entry in read(options.file)])
    # For messages that name the place in the file, even where no daemon runs.
    parse(entries)
    found, status = ask_to_change(options, "policies.set", policies=entries, dry_run=options.dry_run)
    if options.json:
        return print_json(found) or status
    lines = [f"- {line}" for line in cast("list[str]", found["removed"])]
    lines += [f"+ {line}" for line in cast("list[str]", found["added"])]
    print("\n".join(map(printable, lines)) or "unchanged")
    return status


def _print(entries: list[Object]) -> int:
    for one in parse(entries).entries:
        print(printable(str(one)))
    return 0
