# SPDX-License-Identifier: Apache-2.0
"""The commands for settings, and for the changes that operators have made at run time."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import cast

from ltp_switcher.commands import printable
from ltp_switcher.daemon.cli.main import layers
from ltp_switcher.daemon.cli.printing import (
    Object,
    as_object,
    as_objects,
    ask,
    ask_to_change,
    cell,
    print_json,
    print_object,
    print_table,
    timed,
    words,
)
from ltp_switcher.daemon.control.caller import in_words
from ltp_switcher.daemon.control.client import ControlUnavailableError, Json
from ltp_switcher.daemon.settings.load import as_dict, example, key_of, parse_assignment, to_toml
from ltp_switcher.errors import ConfigError


def config(options: argparse.Namespace) -> int:
    """Print the settings with their origins, or the example file; or override settings at run time, or drop
    such overrides.
    """
    if options.example:
        print(example(), end="")
        return 0
    if options.action is None:
        return _print(options, _in_force(options))
    if not options.settings:
        raise ConfigError(f"config {options.action}", "", "settings, as SECTION.KEY=VALUE or SECTION.KEY")
    values: dict[str, dict[str, object]] = {}
    for text in options.settings:
        name, value = (text, None) if options.action == "unset" else parse_assignment(text)
        key = key_of(name)
        values.setdefault(key.section, {})[key.name] = value
    given = cast("Json", values)
    found, status = ask_to_change(
        options, "config.set", values=given, runtime=options.runtime, **timed(options)
    )
    return _print(options, found if options.json else _only(found, values)) or status


def _only(found: Object, wanted: Mapping[str, Mapping[str, object]]) -> Object:
    """The settings that were asked for, by section and key."""
    values = {
        section: {name: value for name, value in as_object(entries).items() if name in wanted[section]}
        for section, entries in as_object(found["values"]).items()
        if section in wanted
    }
    return {**found, "values": cast("Json", values)}


def changes(options: argparse.Namespace) -> int:
    """Print the last changes, undo a change, or confirm the changes that would otherwise be undone after a
    time.
    """
    if options.revert is not None:
        reverted, status = ask_to_change(options, "changes.revert", number=options.revert)
        if options.json:
            return print_json(reverted) or status
        change = as_object(reverted["change"])
        line = f"{change['what']} is {_text(change['after'])} now, was {_text(change['before'])}"
        print(printable(f"change {change['number']}: {line}"))
        return status
    if options.confirm:
        confirmed, status = ask_to_change(options, "changes.confirm")
        return print_object(options, confirmed) or status
    found = as_objects(ask(options, "changes.list", limit=options.limit))
    if options.json:
        return print_json(found)
    rows = []
    for change in found:
        lasts = "" if change["lasts"] else "until the daemon ends"
        if change["confirm_within_s"] is not None:
            lasts = f"undone in {cell(change['confirm_within_s'])} s"
        rows.append(
            [str(change["number"]), str(change["time"]), str(change["what"]), _text(change["before"]),
             _text(change["after"]), lasts, in_words(as_object(change["caller"]))]
        )  # fmt: skip
    return print_table(options, ["number", "time", "what", "before", "after", "", "by"], rows)


def overrides(options: argparse.Namespace) -> int:
    """Print the values that override the configuration, or drop all of them."""
    if options.action == "clear":
        found, status = ask_to_change(options, "overrides.clear")
    else:
        found, status = as_object(ask(options, "config.get")), 0
    if options.json:
        return print_json(found) or status
    origins, values = as_object(found["origins"]), as_object(found["values"])
    rows = [
        [f"{section}.{name}", _text(as_object(values[section])[name]), str(origin)]
        for section, names in origins.items()
        for name, origin in as_object(names).items()
        if origin in ("override", "runtime")
    ]
    return print_table(options, ["setting", "value", "origin"], rows) or status


def _in_force(options: argparse.Namespace) -> Object:
    """The settings of the running daemon. If none runs, or if the command line names a file, the settings of
    the file.
    """
    if options.config is None:
        try:
            return as_object(ask(options, "config.get"))
        except ControlUnavailableError as error:
            note = f"{error}; shown are the settings of file and environment, without overrides"
            print(f"ltp-switcher: {printable(note)}", file=sys.stderr)
    given = layers(options)
    values = cast("Json", as_dict(given.config()))
    return {"values": values, "origins": cast("Json", given.origins_by_section()), "restart": []}


def _print(options: argparse.Namespace, found: Object) -> int:
    """Print the settings as TOML. A comment names the origin of a value that is not the default."""
    if options.json:
        return print_json(found)
    origins = as_object(found["origins"])
    for section, entries in as_object(found["values"]).items():
        print(f"[{printable(section)}]")
        for name, value in as_object(entries).items():
            origin = str(as_object(origins[section])[name])
            mark = "" if origin == "default" else f"  # {printable(origin)}"
            print(f"{printable(name)} = {printable(to_toml(cast('str', value)))}{mark}")
        if options.action is None:
            print()
    if found["restart"]:
        print(f"# These wait for a restart: {words(found['restart'])}")
    return 0


def _text(value: Json) -> str:
    return words(value) if isinstance(value, list) else "-" if value is None else printable(str(value))
