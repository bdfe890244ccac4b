# SPDX-License-Identifier: Apache-2.0
"""The faults to plant: those named in `faults.toml`, and a sample drawn by seed."""

from __future__ import annotations

import difflib
import random
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mutation.operators import Change, Source
from mutation.sites import changes, differs

HERE: Final = Path(__file__).parent
FAULTS: Final = HERE / "faults.toml"
EQUIVALENT: Final = HERE / "equivalent.toml"


class MovedError(Exception):
    """A listed fault no longer fits the code."""


@dataclass(frozen=True)
class Mutant:
    """A fault to plant. name: as listed, or "" if it was drawn."""

    path: str
    change: Change
    source: str
    name: str = ""

    @property
    def text(self) -> str:
        """The module with the fault in it."""
        return self.change.apply(self.source)

    @property
    def place(self) -> str:
        """File and line."""
        return f"{self.path}:{self.change.line}"

    @property
    def diff(self) -> tuple[str, ...]:
        """The lines that change, as `-old` and `+new`."""
        lines = difflib.unified_diff(self.source.splitlines(), self.text.splitlines(), n=0, lineterm="")
        return tuple(line for line in lines if not line.startswith(("---", "+++", "@@")))


@dataclass(frozen=True)
class Excuse:
    """Why a change makes no difference that a test could see. old, new: the whole changed lines, stripped."""

    path: str
    old: str
    new: str
    why: str

    def fits(self, mutant: Mutant) -> bool:
        """Whether it excuses this fault."""
        old = " ".join(line[1:].strip() for line in mutant.diff if line.startswith("-"))
        new = " ".join(line[1:].strip() for line in mutant.diff if line.startswith("+"))
        return (self.path, self.old, self.new) == (mutant.path, old, new)


def named(root: Path, listed: Path = FAULTS) -> list[Mutant]:
    """Return the listed faults.

    Raises:
        MovedError: the old text of a fault does not stand exactly once in its file.
    """
    found = []
    for entry in tomllib.loads(listed.read_text())["fault"]:
        path, old, new = entry["path"], entry["old"], entry["new"]
        source = (root / path).read_text() if (root / path).exists() else ""
        if (count := source.count(old)) != 1:
            raise MovedError(
                f"{listed.name}: {entry['name']!r}: {path} holds {old!r} {count} times, not once"
            )
        start = len(source[: source.index(old)].encode())
        span = Source(source)
        end = start + len(old.encode())
        lines = (span.line(start), span.line(end))
        found.append(Mutant(path, Change(lines[0], start, end, "named", new, lines), source, entry["name"]))
    return found


def excuses(listed: Path = EQUIVALENT) -> list[Excuse]:
    """Return the changes that make no difference."""
    return [Excuse(**entry) for entry in tomllib.loads(listed.read_text()).get("equivalent", [])]


def stale(root: Path, listed: Sequence[Excuse]) -> list[Excuse]:
    """Return the excuses that fit no change of the code as it is."""
    sources = {
        path: (root / path).read_text() for excuse in listed if (root / (path := excuse.path)).exists()
    }
    alive = set()
    for path, source in sources.items():
        wanted = [excuse for excuse in listed if excuse.path == path]
        for change in changes(path, source):
            mutant = Mutant(path, change, source)
            alive |= {excuse for excuse in wanted if excuse.fits(mutant)}
    return [excuse for excuse in listed if excuse not in alive]


@dataclass(frozen=True)
class Sample:
    """What was drawn. excused: drawn, but equivalent, and replaced by the next one."""

    mutants: list[Mutant]
    excused: list[Excuse]


def draw(sources: Mapping[str, str], seed: int, count: int, listed: Sequence[Excuse] = ()) -> Sample:
    """Draw faults: a line among all lines that may change, then one of its changes.

    Args:
        sources: the text of each module, by path.
        seed: the same seed and sources draw the same faults.
        count: how many; fewer if there are not as many lines.
        listed: changes that make no difference.
    """
    random_ = random.Random(seed)
    lines: dict[tuple[str, int], list[Change]] = {}
    for path, source in sorted(sources.items()):
        for change in changes(path, source):
            lines.setdefault((path, change.line), []).append(change)
    places = sorted(lines)
    random_.shuffle(places)
    sample = Sample([], [])
    for path, line in places:
        if len(sample.mutants) == count:
            break
        mutant = Mutant(path, random_.choice(lines[path, line]), sources[path])
        if not differs(mutant.source, mutant.text):
            continue
        excuse = next(_excusing(mutant, listed), None)
        if excuse:
            sample.excused.append(excuse)
        else:
            sample.mutants.append(mutant)
    return sample


def _excusing(mutant: Mutant, listed: Sequence[Excuse]) -> Iterator[Excuse]:
    return (excuse for excuse in listed if excuse.fits(mutant))
