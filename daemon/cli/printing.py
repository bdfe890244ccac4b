# SPDX-License-Identifier: Apache-2.0
"""Sends the command line's requests to the daemon, and prints the answers."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from ltp_switcher.commands import printable
from ltp_switcher.daemon.cli.main import settings
from ltp_switcher.daemon.control.client import ControlClient, Json

if TYPE_CHECKING:
    from rich.console import Console

Object = dict[str, Json]


def ask(options: argparse.Namespace, method: str, **params: Json) -> Json:
    """Call a method of the daemon's control socket, and return its result. Raises `ControlError`."""
    with ControlClient(settings(options).daemon.control_socket) as client:
        return client.call(method, **params)


def ask_to_change(options: argparse.Namespace, method: str, **params: Json) -> tuple[Object, int]:
    """Call a method that changes something. Returns the method's result, and an exit status.

    A change that could not be saved is still in force until the daemon ends. Then a message says so on
    stderr, and the status is 1; otherwise it is 0.
    """
    found = as_object(ask(options, method, **params))
    status = 0
    if found.get("saved") is False:
        note = (
            f"the change is in force, but not saved: the next start will not know it ({found['save_error']})"
        )
        print(f"ltp-switcher: {printable(note)}", file=sys.stderr)
        status = 1
    if not options.json:
        found = {name: value for name, value in found.items() if name not in ("saved", "save_error")}
    return found, status


def timed(options: argparse.Namespace) -> Object:
    """The request's parameter `confirm_within_s`, the time in which a change must be confirmed; empty if the
    command line sets no time.
    """
    within_s: float | None = options.confirm_within
    return {} if within_s is None else {"confirm_within_s": within_s}


def with_nulls(made: Object) -> Object:
    """The object with null in place of numbers that are not known (NaN), which JSON does not have."""
    return {name: None if isinstance(v, float) and math.isnan(v) else v for name, v in made.items()}


def print_json(value: Json | Sequence[Object]) -> int:
    """Print a value as JSON. Returns the exit status 0."""
    print(json.dumps(value, indent=2))
    return 0


def print_object(options: argparse.Namespace, value: Object) -> int:
    """Print the members of an object, each on its own line, or as JSON. Returns the exit status 0."""
    if options.json:
        return print_json(value)
    if options.terse:
        return print_terse((name, cell(entry)) for name, entry in value.items())
    width = max(map(len, value), default=0)
    for name, entry in value.items():
        print(f"{printable(name):<{width}}  {cell(entry)}")
    return 0


def print_terse(rows: Iterable[Sequence[str]]) -> int:
    """Print rows for other programs, one row on a line, with tabs between values. Returns the exit
    status 0.
    """
    for row in rows:
        print("\t".join(map(printable, row)))
    return 0


def print_table(options: argparse.Namespace, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> int:
    """Print a table, or with --terse only its rows. Returns the exit status 0."""
    if options.terse:
        return print_terse(rows)
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        table.add_column(heading)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    console().print(table)
    return 0


def console() -> Console:
    """The terminal. If the output goes to a pipe, tables are 200 characters wide."""
    from rich.console import Console

    made = Console()
    # A pipe has no width to which a table would have to fit.
    return made if made.is_terminal else Console(width=200)


def cell(value: Json) -> str:
    """The text of a value in a table."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1 else f"{value:.1f}"
    if isinstance(value, dict):
        return ", ".join(f"{printable(name)} {cell(entry)}" for name, entry in value.items()) or "-"
    if isinstance(value, list):
        return words(value)
    return printable(str(value))


def words(value: Json) -> str:
    """The entries of a list with commas between them; a dash for an empty list."""
    return ", ".join(printable(str(entry)) for entry in value) if isinstance(value, list) and value else "-"


def as_object(value: Json) -> Object:
    """The value as a dictionary, for type checkers. The daemon's protocol makes sure that it is one."""
    return cast("Object", value)


def as_objects(value: Json) -> list[Object]:
    """The value as a list of dictionaries, for type checkers. The daemon's protocol makes sure that it is
    one.
    """
    return cast("list[Object]", value)
