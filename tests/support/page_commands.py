# SPDX-License-Identifier: Apache-2.0
"""The commands of a page in Markdown, as a shell would call them, each with its place."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from support.pages import parse

# With no program to be found, bash hands each call to this function, its words expanded. Each call becomes
# the number of its line in the page, its words, and a separator of records, with a NUL after each. This is
# one write, because both sides of a pipe write at the same time. A line's end would make it two.
_RECORDER: Final = """\
PATH=/none
command_not_found_handle() {
    printf '%s\\0' "${BASH_LINENO[@]: -2:1}" "$@" $'\\x1e' >&3
}
"""
_VENV: Final = re.compile(r"\.venv(?:-train)?/bin/")
_OUTPUT: Final = re.compile(r">>?\s*(?:\$\([^)]*\)|[^\s;|&)])+")
"""Output into a file. A page's code writes none here."""
_BEFORE: Final = re.compile(r"^(?:sudo |[A-Z_]+=\S+ )+")
"""Words before the name of a program."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a program: its words, and its place as `page:line`.

    in_sentence: whether it is a code span, which may name a part of a command only.
    """

    place: str
    words: tuple[str, ...]
    in_sentence: bool

    def __str__(self) -> str:
        return f"{self.place}: {shlex.join(self.words)}"


def calls(name: str, text: str, programs: Collection[str]) -> list[Call]:
    """The calls in a page's blocks of shell code, and in those code spans that begin with one of `programs`.

    bash itself reads the page, each line of code in its own place, so that loops, functions and quotes mean
    what they mean to a reader. No program runs. A span has the line in which its paragraph begins.

    Raises:
        ValueError: bash cannot read the page's code.
    """
    page = parse(text)
    script = [""] * (len(text.splitlines()) + 1)
    for line in page.shell:
        script[line.line] = _VENV.sub("", _OUTPUT.sub(">/dev/null", line.text))
    for span in page.spans:
        command = _BEFORE.sub("", _VENV.sub("", span.text.replace("\\|", "|")))
        if command.split(" ")[0] in programs:
            script[span.line] += f"eval {shlex.quote(command)};"
    # bash looks for a program with a slash in its name on the disk, but for a function first.
    functions = "".join(
        f'{program}() {{ command_not_found_handle {program} "$@"; }}; '
        for program in programs
        if "/" in program
    )
    with TemporaryDirectory() as folder:
        (place, record) = Path(folder, "page"), Path(folder, "calls")
        place.write_text(functions + "\n".join(script[1:]) + "\nwait\n")
        ran = subprocess.run(
            ["bash", "-c", f"{_RECORDER}exec 3>calls\nsource ./page"],
            cwd=folder, capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        recorded = record.read_text().split("\0\x1e\0")[:-1]
    if ran.returncode or ran.stderr:
        raise ValueError(f"{name}: {ran.stderr.strip()}")
    of_blocks = {line.line for line in page.shell}
    found = []
    for line in recorded:
        number, *words = line.split("\0")
        found.append(
            Call(f"{name}:{number}", tuple(words[words[0] == "sudo" :]), int(number) not in of_blocks)
        )
    return found
