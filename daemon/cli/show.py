# SPDX-License-Identifier: Apache-2.0
"""The commands that ask the running daemon for something, or change it, and print the answers."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Final, cast

import ltp_switcher
from ltp_switcher.commands import printable
from ltp_switcher.daemon.cli.main import settings
from ltp_switcher.daemon.cli.printing import (
    Object,
    as_object,
    as_objects,
    ask,
    ask_to_change,
    cell,
    console,
    print_json,
    print_object,
    print_table,
    print_terse,
    timed,
    words,
)
from ltp_switcher.daemon.control.client import ControlClient, ControlUnavailableError, Json
from ltp_switcher.errors import ConfigError, InvalidValueError

if TYPE_CHECKING:
    from rich.table import Table

ROWS: Final = 100
PAGE_MAX: Final = 1000
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
    """Print the state of the daemon."""
    return print_object(options, as_object(ask(options, "status")))


def flows(options: argparse.Namespace) -> int:
    """Print the flows with the most goodput, once, or again and again until the command is interrupted."""
    with ControlClient(settings(options).daemon.control_socket) as client:
        narrowed = {
            name: value
            for name in ("arm", "prefix", "order", "reverse")
            if (value := getattr(options, name)) not in (None, False)
        }

        def page(limit: int = options.limit or ROWS, offset: int = 0) -> Object:
            chosen: Object = {"order": "goodput"} if options.cursor is None else {"cursor": options.cursor}
            if offset:
                chosen["offset"] = offset
            return as_object(client.call("flows.page", limit=limit, **chosen | narrowed))

        def every() -> list[Json]:
            """All flows that were asked for, page by page."""
            if not narrowed:
                return list(as_objects(client.call("flows.list")))
            # A flow that moves to a later page meanwhile is still shown once.
            found: dict[Json, Json] = {}
            offset, total = 0, 1
            while offset < total:
                part = page(PAGE_MAX, offset)
                found |= {flow["cookie"]: flow for flow in as_objects(part["flows"])}
                offset, total = offset + PAGE_MAX, cast(int, part["total"])
            return list(found.values())

        if options.json:
            while True:
                if options.cursor is not None:
                    found: Json = page()
                else:
                    found = page()["flows"] if options.limit else every()
                print(json.dumps(found), flush=True)
                if not options.watch:
                    return 0
                time.sleep(options.interval)
        if options.terse:
            while True:
                print_terse(map(_cells, as_objects(page()["flows"])))
                if not options.watch:
                    return 0
                sys.stdout.flush()
                time.sleep(options.interval)
        terminal = console()
        # The reader of a pipe sees each table as soon as it is made.
        while not (options.watch and terminal.is_terminal):
            terminal.print(_flow_table(page()))
            if not options.watch:
                return 0
            sys.stdout.flush()
            time.sleep(options.interval)
        from rich.live import Live

        with Live(console=terminal, auto_refresh=False, screen=True) as live:
            while True:
                live.update(_flow_table(page()), refresh=True)
                time.sleep(options.interval)


def flow(options: argparse.Namespace) -> int:
    """Print the state of one flow."""
    found = as_object(ask(options, "flows.get", cookie=options.cookie))
    if not options.json:
        found["why"] = as_object(found["why"])["sentence"]
    return print_object(options, found)


def why(options: argparse.Namespace) -> int:
    """Print why a flow runs its arm, the rewards that the policy expects of arms, and the flow's last
    switches.
    """
    flow = as_object(ask(options, "flows.get", cookie=options.cookie))
    found = as_object(flow["why"])
    if options.json:
        return print_json({"cookie": flow["cookie"], "arm": flow["arm"], **found})
    lines = [f"Flow {flow['cookie']} to {flow['remote']}. {found['sentence']}"]
    for estimate in cast("list[dict[str, float]]", found["estimates"]):
        mean, lower, upper = estimate["mean"], estimate["lower"], estimate["upper"]
        lines.append(f"  {estimate['arm']:<10} expects a reward of {mean:.3f} ({lower:.3f} to {upper:.3f})")
    numbers = as_objects(found.get("path", []))
    lines += ["Its path, over the last looks of a quarter of a second or more:"] if numbers else []
    lines += [f"  {str(one['name']).replace('_', ' '):<20} {_number(one)}" for one in numbers]
    for switch in as_objects(found["switches"]):
        lines.append(f"{_ago(cast('float', switch['age_s']))}: {switch['sentence']}")
    if not found["switches"]:
        lines.append("It has not been switched since the daemon first saw it.")
    print("\n".join(printable(line) for line in lines))
    return 0


def _number(one: Object) -> str:
    """A measurement of the path in words, with its uncertainty, unit and age."""
    if one["value"] is None:
        return "not observed"
    doubt = "" if one["error"] is None else f" ± {one['error']:g}"
    return f"{one['value']:g}{doubt} {one['unit']}, {_ago(cast('float', one['age_s']))}"


def _ago(age_s: float) -> str:
    if age_s < 100:
        return f"{age_s:.0f} s ago"
    return f"{age_s / 60:.0f} min ago" if age_s < 6000 else f"{age_s / 3600:.0f} h ago"


def arms(options: argparse.Namespace) -> int:
    """Print the arms (the congestion controls among which the daemon chooses), or load one."""
    if options.load is not None:
        return print_object(options, as_object(ask(options, "arms.load", name=options.load)))
    found = as_objects(ask(options, "arms.list"))
    if options.json:
        return print_json(found)
    rows = [[cell(arm[name]) for name in ("id", "name", "state", "kind", "reason")] for arm in found]
    return print_table(options, ["id", "name", "state", "kind", "reason"], rows)


def pool(options: argparse.Namespace) -> int:
    """Print the pool of arms among which the daemon chooses, and the smaller teams for some prefixes; or set
    the pool.
    """
    if options.action == "set" and not options.arms:
        raise ConfigError("pool set", "", "names of arms, see `ltp-switcher arms`")
    if options.action == "set":
        found, status = ask_to_change(
            options, "pool.set", arms=options.arms, runtime=options.runtime, **timed(options)
        )
    else:
        found, status = as_object(ask(options, "pool.get")), 0
    if options.json:
        return print_json(found) or status
    rows = [["all others", words(found["arms"])]]
    rows += [[prefix, words(team)] for prefix, team in as_object(found["teams"]).items()]
    return print_table(options, ["prefix", "chosen among"], rows) or status


def team_size(options: argparse.Namespace) -> int:
    """Print or set k, the number of arms that team selection picks out of the pool for a prefix."""
    if options.k is None:
        return print_object(options, as_object(ask(options, "k.get")))
    found, status = ask_to_change(options, "k.set", k=options.k, runtime=options.runtime, **timed(options))
    if not options.json and found.get("note") is None:
        found.pop("note", None)
    return print_object(options, found) or status


def pin(options: argparse.Namespace) -> int:
    """Hold a flow at an arm, and print the flow."""
    found, status = ask_to_change(
        options, "pin", cookie=options.cookie, arm=options.arm, runtime=options.runtime
    )
    return _print_pin(options, found) or status


def unpin(options: argparse.Namespace) -> int:
    """Let the daemon choose the arm of a pinned flow again, and print the flow."""
    found, status = ask_to_change(options, "unpin", cookie=options.cookie)
    return _print_pin(options, found) or status


def mode(options: argparse.Namespace) -> int:
    """Print the daemon's mode (active, advise or off), or set it."""
    if options.mode is None:
        return print_object(options, as_object(ask(options, "mode.get")))
    found, status = ask_to_change(
        options, "mode.set", mode=options.mode, runtime=options.runtime, **timed(options)
    )
    return print_object(options, found) or status


def mpts(options: argparse.Namespace) -> int:
    """Print, start or cancel team selections, which search for the best arms for a prefix."""
    given: Object = {} if options.prefix is None or options.action is None else {"prefix": options.prefix}
    if options.by is not None:
        if options.action != "start":
            raise InvalidValueError("--by", options.by, "only with `start`")
        given["by"] = options.by
    found = as_object(ask(options, f"mpts.{options.action or 'status'}", **given))
    if options.json:
        return print_json(found)
    rows = []
    for search in as_objects(found["searches"]):
        told = [_pulls(search), *_cost(search), *_ratios(search)]
        rows.append([cell(search["prefix"]), "; ".join(told), ""])
    for search in as_objects(found.get("given_up", [])):
        told = [f"no team after {_pulls(search)}: {cell(search['reason'])}", *_cost(search), *_ratios(search)]
        rows.append([cell(search["prefix"]), "; ".join(told), ""])
    for team in as_objects(found["teams"]):
        gaps = ", ".join(f"{arm} {gap:.2g}" for arm, gap in as_object(team["gaps"]).items())
        told = ["found", *_cost(team), *([f"gaps: {gaps}"] if gaps else []), *_ratios(team)]
        rows.append([cell(team["prefix"]), "; ".join(told), words(team["arms"])])
    for found_one in as_objects(found.get("preferences", [])):
        arm, left = found_one["arm"], f"{float(cell(found_one['left_s'])) / 60:.0f} min left"
        says = "no arm is preferred" if arm is None else f"{arm} is preferred"
        rows.append([cell(found_one["prefix"]), "; ".join([f"{says}, {left}", *_ratios(found_one)]), ""])
    return print_table(options, ["prefix", "selection", "team"], rows)


def _pulls(search: Object) -> str:
    """The pulls of a selection so far, and its budget."""
    kinds = {"tournament": "at most {} pairs", "visits": "{} visits"}
    return f"{search['pulls']} of {kinds.get(str(search['method']), '{} pulls').format(search['budget'])}"


def _cost(selection: Object) -> list[str]:
    """The cost of a selection by visits in words."""
    cost = selection.get("cost_flows")
    return [] if cost is None else [f"cost: {cost:.1f} flows"]


def _ratios(selection: Object) -> list[str]:
    """The log ratios of a tournament or of visits in words, with the intervals of a tournament."""
    halves = as_object(selection["half_width"])
    told = []
    for arm, ratio in as_object(selection["log_ratio"]).items():
        if ratio is not None:
            half = halves.get(arm)
            told.append(f"{arm} {ratio:.2f}" + ("" if half is None else f" ± {half:.2f}"))
    return [f"log ratios: {', '.join(told)}"] if told else []


def reload(options: argparse.Namespace) -> int:
    """Let the daemon read its settings anew."""
    return print_object(options, as_object(ask(options, "reload")))


def version(options: argparse.Namespace) -> int:
    """Print the versions of this program and of the running daemon, if one runs."""
    found: Object = {"program": ltp_switcher.__version__, "daemon": None}
    try:
        found["daemon"] = as_object(ask(options, "version"))["version"]
    except ControlUnavailableError as error:
        found["note"] = str(error)
    return print_object(options, found)


def _print_pin(options: argparse.Namespace, flow: Object) -> int:
    shown = flow if options.json else {name: flow[name] for name in ("cookie", "remote", "arm", "pinned")}
    return print_object(options, shown)


def _flow_table(page: Object) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name, heading in COLUMNS:
        text = name in ("remote", "arm", "state")
        table.add_column(heading, justify="left" if text else "right", no_wrap=True)
    found = as_objects(page["flows"])
    if len(found) < cast("int", page["total"]):
        more = "--limit N shows up to 1000"
        if page.get("next_cursor") is not None:
            more = f"the next ones: --cursor {page['next_cursor']}"
        table.caption = f"{len(found)} of {page['total']} flows; {more}"
        table.caption_justify = "left"
    for entry in found:
        # The value is a text and not markup: [2001:db8::1] is no tag.
        table.add_row(*map(Text, _cells(entry)))
    return table


def _cells(flow: Object) -> list[str]:
    marks = [mark for mark in ("pinned", "fallen_back") if flow[mark]]
    shown = {**flow, "state": ", ".join(marks).replace("_", " ")}
    return [cell(shown[name]) for name, _ in COLUMNS]
