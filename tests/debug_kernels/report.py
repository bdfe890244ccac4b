# SPDX-License-Identifier: Apache-2.0
"""The results of a run: for the terminal, as JSON, and as a page of the lab notes."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from debug_kernels.planted import Fault
from debug_kernels.rounds import Kept

COLUMNS = 120
"""Longest line of a page."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of the command: its rounds, the planted faults, and the round of each that was run."""

    rounds: Sequence[Kept]
    planted: Sequence[tuple[Fault, Kept | None]]
    revision: str
    command: str

    @property
    def clean(self) -> bool:
        """No round found a fault, and each planted fault was caught."""
        return not any(kept.faults for kept in self.rounds) and all(
            kept and kept.faults for _, kept in self.planted
        )


def as_json(run: Run) -> str:
    """Return everything of a run as JSON."""
    return json.dumps(
        {
            "clean": run.clean,
            "revision": run.revision,
            "command": run.command,
            "rounds": [asdict(kept) for kept in run.rounds],
            "planted": [
                {**asdict(fault), "reports": kept.faults if kept else None} for fault, kept in run.planted
            ],
        },
        indent=1,
    )


def terminal(run: Run) -> str:
    """Return the sums by kernel, each report, and each planted fault."""
    lines = [
        f"{flavour}: {sum(k.switches for k in rounds)} switches, {sum(k.messages for k in rounds)} messages, "
        f"{sum(k.wall_s for k in rounds):.0f} s, {sum(len(k.faults) for k in rounds)} reports"
        for flavour, rounds in _by_flavour(run).items()
    ]
    lines += [f"  {fault}" for kept in run.rounds for fault in kept.faults]
    lines += [f"planted {fault.name}: {_caught(kept)}" for fault, kept in run.planted]
    return "\n".join([*lines, "clean" if run.clean else "NOT clean"])


def table_of_faults(run: Run) -> str:
    """Return the planted faults as a table in Markdown."""
    rows = [f"| {f.description} | {f.flavour} | {_caught(kept)} |" for f, kept in run.planted]
    return "\n".join(["| planted fault | kernel | caught by |", "|---|---|---|", *rows])


def page(run: Run) -> str:
    """Return the page of the lab notes."""
    sums = [
        f"| {flavour} | {rounds[0].kernel} | {_sums(rounds)} |"
        for flavour, rounds in _by_flavour(run).items()
    ]
    foreign = Counter(title for kept in run.rounds for title in kept.foreign)
    reports = sum(len(kept.faults) for kept in run.rounds)
    caught = sum(bool(kept and kept.faults) for _, kept in run.planted)
    planted = f"; planted faults caught: {caught} of {len(run.planted)}" * bool(run.planted)
    listed = [
        f"- {kept.flavour}, seed {kept.seed}: `{fault}`" for kept in run.rounds for fault in kept.faults
    ]
    return "\n".join(
        [
            "# Debug kernels",
            "Question: does the module misuse memory or locks, or race, when four processors run it at once?",
            *textwrap.wrap(
                f"Measurement: `{run.command}` at revision {run.revision}. That command writes this page.",
                COLUMNS,
                break_long_words=False,
                break_on_hyphens=False,
            ),
            "The configurations are in `tests/debug_kernels/configuration/`. `kmemleak` is the kernel of",
            "`kasan` with kmemleak on, and with one processor. The others have four.",
            "`stock` is Debian's own kernel, which poisons the module's objects when they are freed.",
            "",
            f"Conclusion: **reports: {reports}{planted}**.",
            "The target is a million switches and a million messages.",
            "",
            "| kernel | release | rounds | switches | fuzzed messages | seconds | reports |",
            "|---|---|---|---|---|---|---|",
            *sums,
            f"| all | | {_sums(run.rounds)} |",
            "",
            *([*listed, ""] if listed else []),
            *(["## Planted faults", table_of_faults(run), ""] if run.planted else []),
            "## Data races of the kernel's own",
            "A race counts if one of its two functions is the module's. The others are listed here.",
            "",
            *([f"- {count} times `{title}`" for title, count in foreign.most_common()] or ["None."]),
            "",
        ]
    )


def _sums(rounds: Sequence[Kept]) -> str:
    return (
        f"{len(rounds)} | {sum(k.switches for k in rounds):,} | {sum(k.messages for k in rounds):,} "
        f"| {sum(k.wall_s for k in rounds):,.0f} | {sum(len(k.faults) for k in rounds)}"
    )


def _caught(kept: Kept | None) -> str:
    if kept is None:
        return "not run"
    if not kept.faults:
        return "**nothing**"
    more = f" and {len(kept.faults) - 1} more" * (len(kept.faults) > 1)
    return f"`{kept.faults[0]}`{more}"


def _by_flavour(run: Run) -> dict[str, list[Kept]]:
    found: dict[str, list[Kept]] = {}
    for kept in run.rounds:
        found.setdefault(kept.flavour, []).append(kept)
    return found
