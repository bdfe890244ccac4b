# SPDX-License-Identifier: Apache-2.0
"""The results of a run: for the terminal, as JSON, and as a page of the lab notes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mutation.recorder import FOLDERS
from mutation.trial import Outcome

TARGET: Final = 0.9


@dataclass(frozen=True)
class Run:
    """One run of the command. excused: how many equivalent faults were drawn and replaced."""

    outcomes: Sequence[Outcome]
    excused: int
    seed: int
    revision: str
    wall_s: float

    @property
    def caught(self) -> int:
        """How many faults were caught."""
        return sum(outcome.caught for outcome in self.outcomes)

    @property
    def line(self) -> str:
        """The result in a line."""
        return f"caught {self.caught} of {len(self.outcomes)}"

    @property
    def enough(self) -> bool:
        """Whether the target is met."""
        return self.caught >= TARGET * len(self.outcomes)

    @property
    def survivors(self) -> list[Outcome]:
        """Faults that no test noticed."""
        return [outcome for outcome in self.outcomes if not outcome.caught]


def terminal(run: Run) -> str:
    """Return the survivors with their changes, and the count in the last line."""
    parts = []
    for outcome in run.survivors:
        mutant = outcome.mutant
        what = mutant.name or mutant.change.operator
        parts += [f"{mutant.place}  {what}  ({outcome.by})", *(f"    {line}" for line in mutant.diff), ""]
    return "\n".join([*parts, run.line])


def as_json(run: Run) -> str:
    """Return everything of a run as JSON."""
    return json.dumps(
        {
            "caught": run.caught,
            "planted": len(run.outcomes),
            "excused": run.excused,
            "seed": run.seed,
            "revision": run.revision,
            "wall_s": round(run.wall_s),
            "faults": [
                {
                    "place": outcome.mutant.place,
                    "name": outcome.mutant.name,
                    "operator": outcome.mutant.change.operator,
                    "diff": outcome.mutant.diff,
                    "caught": outcome.caught,
                    "by": outcome.by,
                    "wall_s": round(outcome.wall_s, 1),
                }
                for outcome in run.outcomes
            ],
        },
        indent=1,
    )


def page(run: Run) -> str:
    """Return a page of the lab notes."""
    planted = Counter(_folder(outcome) for outcome in run.outcomes if not outcome.mutant.name)
    caught = Counter(_folder(o) for o in run.outcomes if not o.mutant.name and o.caught)
    lines = [
        "# Planted faults",
        "Question: do the tests notice a fault? Measurement: `make mutate` plants one fault at a time and",
        "runs the tests that reach it. That command writes this page; see `tests/mutation/`.",
        "",
        f"Conclusion: **{run.line}**, at revision {run.revision}, seed {run.seed}.",
        f"The run took {run.wall_s / 60:.0f} minutes.",
        f"Drawn faults that change nothing: {run.excused}. They are listed with their reasons in",
        "`tests/mutation/equivalent.toml`, and others were drawn in their place.",
        "",
        "## Named faults",
        "| fault | file | caught by |",
        "|---|---|---|",
        *(
            f"| {o.mutant.name} | `{o.mutant.path}` | {_test(o) if o.caught else '**not caught**'} |"
            for o in run.outcomes
            if o.mutant.name
        ),
        "",
        "## Drawn faults",
        "| folder | planted | caught |",
        "|---|---|---|",
        *(f"| {folder} | {planted[folder]} | {caught[folder]} |" for folder in FOLDERS),
        "",
        "## Not caught",
        "```diff",
        *(line for o in run.survivors for line in (f"# {o.mutant.path}", *o.mutant.diff)),
        "```",
    ]
    return "\n".join(lines) + "\n"


def _folder(outcome: Outcome) -> str:
    return outcome.mutant.path.split("/")[0]


def _test(outcome: Outcome) -> str:
    path, found, name = outcome.by.partition("::")
    return f"`{path.rpartition('/')[2]}` {name}".strip() if found else outcome.by
