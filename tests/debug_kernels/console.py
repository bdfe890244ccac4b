# SPDX-License-Identifier: Apache-2.0
"""Reads the reports of sanitizers, locks and the kernel itself out of its console.

Every report counts, with one exception: a data race between two functions that are both outside of
`tcp_mutant` is the kernel's own. KCSAN finds these in any kernel. They are listed apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

# The first line of each kind of report, after the time stamp. The first kind that fits counts.
_KINDS: Final = (
    ("KASAN", r"BUG: KASAN: .*"),
    ("KCSAN", r"BUG: KCSAN: .*"),
    ("UBSAN", r"UBSAN: .*"),
    ("kmemleak", r"unreferenced object .*"),
    ("sleep", r"BUG: (?:sleeping function|scheduling while atomic|Invalid wait context).*|\[ BUG: .*"),
    (
        "locks",
        r"WARNING: (?:possible (?:circular|recursive|irq lock)|inconsistent lock|bad unlock|suspicious RCU|"
        r"nested lock|.*lock (?:order|held)).*|INFO: trying to register non-static key.*|BUG: spinlock.*",
    ),
    ("RCU", r"(?:rcu: )?INFO: rcu.*|rcu: .*(?:stall|callback).*"),
    ("objects", r"ODEBUG: .*"),
    ("slab", r"BUG \S+ \(.*|BUG \S+: .*"),
    (
        "oops",
        r"Oops.*|general protection.*|Kernel panic.*|BUG: (?:kernel|unable|stack|Bad).*|kernel BUG at.*",
    ),
    ("hang", r"INFO: task .*|watchdog: .*|BUG: (?:soft|workqueue) lockup.*|unregister_netdevice: waiting.*"),
    ("list", r"list_(?:add|del) corruption.*|slab-.*corrupt.*"),
    ("WARN", r"WARNING: .*|refcount_t: .*"),
    ("BUG", r"BUG: .*"),
)
_START: Final = [(kind, re.compile(pattern)) for kind, pattern in _KINDS]
_STAMP: Final = re.compile(r"^(?:\[ *\d+\.\d+\](?:\[ *[TC]\d+\])? ?)?")
_RACE: Final = re.compile(r"BUG: KCSAN: \S+ in (.*)")
_PHASE: Final = "debug-phase: "
_MODULE: Final = "[tcp_mutant]"
_LINES: Final = 60


@dataclass(frozen=True, slots=True)
class Complaint:
    """One report.

    Attributes:
        kind: the sanitizer, or the part of the kernel that complains.
        title: first line of the report.
        phase: part of the round in which it came.
        text: the report's first lines.
        counted: False for a race of the kernel's own.
    """

    kind: str
    title: str
    phase: str
    text: str
    counted: bool


def complaints(console: str) -> list[Complaint]:
    """Return the reports of a console in their order."""
    lines = [_STAMP.sub("", line) for line in console.splitlines()]
    found: list[Complaint] = []
    phase = "boot"
    for number, line in enumerate(lines):
        if line.startswith(_PHASE):
            phase = line.removeprefix(_PHASE).strip()
            continue
        kind = next((kind for kind, pattern in _START if pattern.match(line)), None)
        if kind is not None:
            text = "\n".join(lines[number : number + _LINES])
            found.append(Complaint(kind, line.strip(), phase, text, _counted(kind, line)))
    return found


def _counted(kind: str, title: str) -> bool:
    race = _RACE.match(title) if kind == "KCSAN" else None
    return race is None or _MODULE in race[1]
