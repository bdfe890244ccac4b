# SPDX-License-Identifier: Apache-2.0
"""`policy`: show the operators' policies, put a file of policies in force, or show how the file differs from
them.
"""

from __future__ import annotations

import argparse
from typing import cast

from ltp_switcher.commands import printable
from ltp_switcher.daemon.cli.printing import (
    Object,
    as_object,
    as_objects,
    ask,
    ask_to_change,
    print_json,
    timed,
)
from ltp_switcher.daemon.control.client import Json
from ltp_switcher.daemon.settings.policies import parse, read, to_toml
from ltp_switcher.errors import ConfigError


def policy(options: argparse.Namespace) -> int:
    """Print the policies in force, or put a file of policies in force. With --dry-run, only print the
    difference.
    """
    if options.action != "apply":
        if options.file is not None or options.dry_run:
            raise ConfigError(
                "policy show", str(options.file or "--dry-run"), "apply, to put a file in force"
            )
        found = as_object(ask(options, "policies.get"))
        return print_json(found) if options.json else _print(options, as_objects(found["policies"]))
    if options.file is None:
        raise ConfigError("policy apply", "", "a file with tables [[policy]]; an empty one drops them all")
    entries = cast("Json", [dict(entry) for entry in read(options.file)])
    # The daemon checks the entries, too. This check also works where no daemon runs, and its message names
    # the place in the file.
    parse(entries)
    found, status = ask_to_change(
        options, "policies.set", policies=entries, dry_run=options.dry_run, **timed(options)
    )
    if options.json:
        return print_json(found) or status
    lines = [f"- {line}" for line in cast("list[str]", found["removed"])]
    lines += [f"+ {line}" for line in cast("list[str]", found["added"])]
    print("\n".join(map(printable, lines)) or "unchanged")
    return status


def _print(options: argparse.Namespace, entries: list[Object]) -> int:
    policies = parse(entries)
    if options.toml:
        print(to_toml(policies), end="")
    elif not policies and not options.terse:
        print("no policies; `ltp-switcher policy apply FILE` puts those of a file in force")
    for one in () if options.toml else policies.entries:
        print(printable(str(one)))
    return 0
