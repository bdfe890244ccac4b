# SPDX-License-Identifier: Apache-2.0
"""Asks the daemon for the command line, and prints the daemon's answers."""

from __future__ import annotations

import argparse
import json
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
    """Call a method of the daemon. Raises `ControlError`."""
    with ControlClient(settings(options).daemon.control_socket) as client:
        return client.call(method, **params)


def ask_to_change(options: argparse.Namespace, method: str, **params: Json) -> tuple[Object, int]:
    """Call a method that changes something. Returns the method's answer and the exit status so far.

    A change that could not be saved is in force all the same. Then a message says so, and the status is 1.
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
    """The request's parameter for the time in which a change has to be confirmed."""
    within_s: float | None = options.confirm_within
    return {} if within_s is None else {"confirm_within_s": within_s}


def print_json(value: Json | Sequence[Object]) -> int:
    """Print a value as JSON."""
    print(json.dumps(value, indent=2))
    return 0


def print_object(options: argparse.Namespace, value: Object) -> int:
    """Print the members of an object, each on its own line, or as JSON."""
    if options.json:
        return print_json(value)
    if options.terse:
        return print_terse((name, cell(entry)) for name, entry in value.items())
    width = max(map(len, value), default=0)
    for name, entry in value.items():
        print(f"{printable(name):<{width}}  {cell(entry)}")
    return 0


def print_terse(rows: Iterable[Sequence[str]]) -> int:
    """Print rows for other programs: one line for each row, with tabs between values."""
    for row in rows:
        print("\t".join(map(printable, row)))
    return 0


def print_table(options: argparse.Namespace, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> int:
    """Print a table, or only its rows."""
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
    """The terminal. Tables are 200 characters wide if the output goes to a pipe."""
    from rich.console import Console

    made = Console()
    # A pipe has no width to which a table would have to fit.
    return made if made.is_terminal else Console(width=200)


def cell(value: Json) -> str:
    """A value as a table shows it."""
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
    """The entries of a list with commas between them."""
    return ", ".join(printable(str(entry)) for entry in value) if isinstance(value, list) and value else "-"


def as_object(value: Json) -> Object:
    """The value as an object. The protocol says that it is one."""
    return cast("Object", value)


def as_objects(value: Json) -> list[Object]:
    """The value as a list of objects. The protocol says that it is one."""
    return cast("list[Object]", value)
