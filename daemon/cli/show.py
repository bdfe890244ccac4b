# SPDX-License-Identifier: Apache-2.0
"""The commands that ask the running daemon and print its answer."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, cast

import ltp_switcher
from ltp_switcher.commands import printable
from ltp_switcher.daemon.cli.main import settings
from ltp_switcher.daemon.control.client import ControlClient, ControlUnavailableError, Json
from ltp_switcher.daemon.settings.load import as_dict, example
from ltp_switcher.errors import ConfigError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Object = dict[str, Json]
ROWS: Final = 100
COLUMNS = (
    ("cookie", "cookie"),
    ("remote", "to"),
    ("arm", "arm"),
    ("age_s", "age s"),
    ("cwnd_pkts", "cwnd"),
    ("srtt_ms", "srtt ms"),
    ("min_rtt_ms", "min ms"),
    ("delivery_rate_mbps", "rate Mbit/s"),
    ("goodput_mbps", "goodput"),
    ("lost_pkts", "lost"),
    ("reward", "reward"),
    ("switches", "switches"),
    ("state", ""),
)


def status(options: argparse.Namespace) -> int:
    """Print how the daemon stands."""
    return _print_object(options, _object(_call(options, "status")))


def flows(options: argparse.Namespace) -> int:
    """Print the flows with the most goodput, once or until interrupted."""
    with ControlClient(settings(options).daemon.control_socket) as client:

        def page() -> Object:
            return _object(client.call("flows.page", order="goodput", limit=options.limit or ROWS))

        if options.json:
            while True:
                found = page()["flows"] if options.limit else client.call("flows.list")
                print(json.dumps(found), flush=True)
                if not options.watch:
                    return 0
                time.sleep(options.interval)
        console = _console()
        if not options.watch:
            console.print(_flow_table(page()))
            return 0
        from rich.live import Live

        with Live(console=console, auto_refresh=False, screen=console.is_terminal) as live:
            while True:
                live.update(_flow_table(page()), refresh=True)
                time.sleep(options.interval)


def flow(options: argparse.Namespace) -> int:
    """Print one flow."""
    found = _object(_call(options, "flows.get", cookie=options.cookie))
    if not options.json:
        found["why"] = _object(found["why"])["sentence"]
    return _print_object(options, found)


def arms(options: argparse.Namespace) -> int:
    """Print the arms, or load one."""
    if options.load is not None:
        return _print_object(options, _object(_call(options, "arms.load", name=options.load)))
    found = _objects(_call(options, "arms.list"))
    if options.json:
        return _print_json(found)
    rows = [[_cell(arm[name]) for name in ("id", "name", "state", "kind", "reason")] for arm in found]
    return _print_table(["id", "name", "state", "kind", "reason"], rows)


def pool(options: argparse.Namespace) -> int:
    """Print the pool and the teams, or set the pool."""
    if options.action == "set" and not options.arms:
        raise ConfigError("pool set", "", "names of arms, see `ltp-switcher arms`")
    if options.action == "set":
        found = _object(_call(options, "pool.set", arms=options.arms))
    else:
        found = _object(_call(options, "pool.get"))
    if options.json:
        return _print_json(found)
    rows = [["all others", _words(found["arms"])]]
    rows += [[prefix, _words(team)] for prefix, team in _object(found["teams"]).items()]
    return _print_table(["prefix", "chosen among"], rows)


def team_size(options: argparse.Namespace) -> int:
    """Print k, or set it."""
    found = _call(options, "k.get") if options.k is None else _call(options, "k.set", k=options.k)
    return _print_object(options, _object(found))


def pin(options: argparse.Namespace) -> int:
    """Pin a flow."""
    return _print_pin(options, _object(_call(options, "pin", cookie=options.cookie, arm=options.arm)))


def unpin(options: argparse.Namespace) -> int:
    """Unpin a flow."""
    return _print_pin(options, _object(_call(options, "unpin", cookie=options.cookie)))


def mode(options: argparse.Namespace) -> int:
    """Print the mode, or set it."""
    given = options.mode is not None
    found = _call(options, "mode.set", mode=options.mode) if given else _call(options, "mode.get")
    return _print_object(options, _object(found))


def mpts(options: argparse.Namespace) -> int:
    """Print team selections, or start them."""
    if options.action == "start":
        prefix: Object = {} if options.prefix is None else {"prefix": options.prefix}
        found = _object(_call(options, "mpts.start", **prefix))
    else:
        found = _object(_call(options, "mpts.status"))
    if options.json:
        return _print_json(found)
    rows = [
        [_cell(search["prefix"]), f"{search['pulls']} of {search['budget']} pulls", ""]
        for search in _objects(found["searches"])
    ]
    rows += [[_cell(team["prefix"]), "found", _words(team["arms"])] for team in _objects(found["teams"])]
    return _print_table(["prefix", "selection", "team"], rows)


def reload(options: argparse.Namespace) -> int:
    """Let the daemon read its settings anew."""
    return _print_object(options, _object(_call(options, "reload")))


def config(options: argparse.Namespace) -> int:
    """Print the settings in force, those of a file, or the example file."""
    if options.example:
        print(example(), end="")
        return 0
    values = cast("dict[str, Json]", as_dict(settings(options)))
    if options.config is None:
        try:
            values = _object(_call(options, "config.get"))
        except ControlUnavailableError as error:
            note = f"{error}; shown are the settings of file and environment, which the next start takes"
            print(f"ltp-switcher: {printable(note)}", file=sys.stderr)
    if options.json:
        return _print_json(values)
    for section, entries in values.items():
        print(f"[{printable(section)}]")
        for name, value in _object(entries).items():
            print(f"{printable(name)} = {printable(json.dumps(value, ensure_ascii=False))}")
        print()
    return 0


def version(options: argparse.Namespace) -> int:
    """Print the versions; a daemon that does not run has none."""
    found: Object = {"program": ltp_switcher.__version__, "daemon": None}
    try:
        found["daemon"] = _object(_call(options, "version"))["version"]
    except ControlUnavailableError as error:
        found["note"] = str(error)
    return _print_object(options, found)


def _call(options: argparse.Namespace, method: str, **params: Json) -> Json:
    with ControlClient(settings(options).daemon.control_socket) as client:
        return client.call(method, **params)


def _print_json(value: Json | Sequence[Object]) -> int:
    print(json.dumps(value, indent=2))
    return 0


def _print_object(options: argparse.Namespace, value: Object) -> int:
    if options.json:
        return _print_json(value)
    width = max(map(len, value), default=0)
    for name, entry in value.items():
        print(f"{printable(name):<{width}}  {_cell(entry)}")
    return 0


def _print_pin(options: argparse.Namespace, flow: Object) -> int:
    shown = flow if options.json else {name: flow[name] for name in ("cookie", "remote", "arm", "pinned")}
    return _print_object(options, shown)


def _print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> int:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for heading in headings:
        table.add_column(heading)
    for row in rows:
        table.add_row(*(Text(printable(cell)) for cell in row))
    _console().print(table)
    return 0


def _console() -> Console:
    from rich.console import Console

    console = Console()
    # What reads a pipe has no width that a table would have to fit.
    return console if console.is_terminal else Console(width=200)


def _flow_table(page: Object) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name, heading in COLUMNS:
        text = name in ("remote", "arm", "state")
        table.add_column(heading, justify="left" if text else "right", no_wrap=True)
    found = _objects(page["flows"])
    if len(found) < cast("int", page["total"]):
        table.caption = f"{len(found)} of {page['total']} flows; --limit N shows up to 1000"
        table.caption_justify = "left"
    for entry in found:
        marks = [mark for mark in ("pinned", "fallen_back") if entry[mark]]
        shown = {**entry, "state": ", ".join(marks).replace("_", " ")}
        # A text, not markup: [2001:db8::1] is no tag.
        table.add_row(*(Text(_cell(shown[name])) for name, _ in COLUMNS))
    return table


def _cell(value: Json) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1 else f"{value:.1f}"
    if isinstance(value, dict):
        return ", ".join(f"{printable(name)} {_cell(entry)}" for name, entry in value.items()) or "-"
    if isinstance(value, list):
        return _words(value)
    return printable(str(value))


def _words(value: Json) -> str:
    return ", ".join(printable(str(entry)) for entry in value) if isinstance(value, list) and value else "-"


def _object(value: Json) -> Object:
    return cast("Object", value)


def _objects(value: Json) -> list[Object]:
    return cast("list[Object]", value)
