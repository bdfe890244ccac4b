# SPDX-License-Identifier: Apache-2.0
"""`use`, `unuse`, `used`: choose the destinations whose connections run `mutant`. A BPF program gives them
`mutant`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from ltp_switcher.commands import printable
from ltp_switcher.daemon.cli.main import settings
from ltp_switcher.daemon.cli.printing import Object, print_json, print_table
from ltp_switcher.daemon.named import store
from ltp_switcher.daemon.named.program import Program
from ltp_switcher.daemon.named.rules import Count, Named, Rules, Verdict, flatten
from ltp_switcher.daemon.settings.policies import Policies
from ltp_switcher.daemon.settings.prefixes import Network, prefix_of
from ltp_switcher.errors import DatapathError, InvalidValueError, LtpSwitcherError
from ltp_switcher.files import locked

_OWN_NAMESPACE = Path("/proc/self/ns/net")

Counts = Mapping[bytes, tuple[Verdict, Count]]


def use(options: argparse.Namespace) -> int:
    """Add destination prefixes, and put them in force. The command is refused if the module is not loaded, or
    if the BPF program cannot run.
    """
    asked = [prefix_of(text) for text in options.prefix]
    program = Program()
    obstacle = program.obstacle()
    if not obstacle and not program.module_loaded():
        obstacle = "the module is not loaded; `modprobe tcp_mutant`, and `ltp-switcher doctor` says more"
    if obstacle:
        raise DatapathError(f"nothing was changed: {obstacle}")
    with locked(options.file):
        before = store.read(options.file)
        after = before.with_more(asked)
        rules = _change(options, program, before, after)
    return _show(options, rules, program, asked)


def unuse(options: argparse.Namespace) -> int:
    """Remove destination prefixes, and take them out of force."""
    if not options.prefix and not options.all:
        raise InvalidValueError("PREFIX", "", "a prefix that `ltp-switcher used` lists, or --all")
    asked = [prefix_of(text) for text in options.prefix]
    program = Program()
    with locked(options.file):
        before = store.read(options.file)
        present = before.prefixes
        gone = present if options.all else asked
        for prefix in gone:
            if prefix not in present:
                allowed = ", ".join(map(str, present[:10])) or "none: no prefix is used"
                raise InvalidValueError("PREFIX", str(prefix), allowed)
        _change(options, program, before, before.without(gone))
    if options.json:
        told: list[Object] = [{"removed": str(prefix)} for prefix in gone]
        return print_json(told)
    print("\n".join(f"{prefix} is not used any more" for prefix in gone) or "unchanged")
    return 0


def used(options: argparse.Namespace) -> int:
    """List prefixes and policies with the counts of their flows, or put them in force, or take all of them
    out of the kernel.
    """
    program = Program()
    if options.withdraw:
        program.withdraw()
        return 0
    content = store.read(options.file)
    rules = _rules(options, content.prefixes)
    _warn(content.faults)
    if options.apply:
        program.put(rules)
        if rules.table and not program.module_loaded():
            _warn(["the module is not loaded: until it is, flows run the system's default"])
        return 0
    return _show(options, rules, program, None)


def _change(
    options: argparse.Namespace, program: Program, before: store.PrefixFile, after: store.PrefixFile
) -> Rules:
    """Put other prefixes in force and save them. Either both succeed or nothing is changed."""
    _warn(after.faults)
    rules = _rules(options, after.prefixes)
    program.put(rules)
    if after != before:
        try:
            store.write(options.file, after)
        except LtpSwitcherError:
            program.put(_rules(options, before.prefixes))
            raise
    return rules


def _rules(options: argparse.Namespace, prefixes: list[Network]) -> Rules:
    policies = Policies()
    state = settings(options).daemon.state_dir
    if state:
        policies, faults = store.read_policies(Path(state) / store.POLICIES_FILE)
        _warn(faults)
    return flatten(prefixes, policies, policies.namespaces(), _OWN_NAMESPACE.stat().st_ino)


def _warn(faults: tuple[str, ...] | list[str]) -> None:
    for fault in faults:
        print(f"ltp-switcher: {printable(fault)}", file=sys.stderr)


def _show(options: argparse.Namespace, rules: Rules, program: Program, asked: list[Network] | None) -> int:
    """Print the rules; if `asked` is given, print only the rules of these prefixes."""
    only = None if asked is None else set(map(str, asked))
    shown = [one for one in rules.named if only is None or (one.match in only and not one.policy)]
    counts: Counts | None = {}
    why = ""
    if shown:
        try:
            counts = program.counts()
        except DatapathError as error:
            counts, why = None, str(error)
    told = [_told(one, rules, counts) for one in shown]
    if options.json:
        return print_json(told)
    if not told and not options.terse:
        print("no prefix is used; add one with `ltp-switcher use PREFIX`")
        return 0
    if why:
        _warn([f"flows are not known: {why}"])
    headings = ("FLOWS TO", "BY", "RUN", "FLOWS", "FIRST", "LAST", "STATE")
    rows = [tuple("-" if value is None else str(value) for value in one.values()) for one in told]
    return print_table(options, headings, rows)


def _told(one: Named, rules: Rules, counts: Counts | None) -> Object:
    """A rule as it is printed. The numbers of flows are None if they are not known."""
    count = Count()
    for key in one.keys:
        if counts is not None and key in counts:
            count += counts[key][1]
    known = counts is not None and one.chosen
    return {
        "match": one.match,
        "by": "policy" if one.policy else "use",
        "run": "mutant" if one.chosen else "what they would",
        "flows": count.hits if known else None,
        "first": _time(count.first_ns),
        "last": _time(count.last_ns),
        "state": _state(one, rules, counts, count),
    }


def _state(one: Named, rules: Rules, counts: Counts | None, count: Count) -> str | None:
    if counts is None:
        return None
    if any(key not in counts or counts[key][0] != rules.table[key] for key in one.keys):
        return "not in force; `systemctl restart ltp-switcher-use`"
    if count.missed:
        return f"in force; {count.missed} flows could not have it: was the module loaded?"
    return "in force"


def _time(boot_ns: int) -> str | None:
    """A time since boot as local time, to the second."""
    if not boot_ns:
        return None
    since_s = (time.clock_gettime_ns(time.CLOCK_BOOTTIME) - boot_ns) / 1e9
    return datetime.fromtimestamp(time.time() - since_s).astimezone().isoformat(timespec="seconds")
