# SPDX-License-Identifier: Apache-2.0
"""Two files behind the rules: the file of used prefixes, one on each line, and a copy of the daemon's
policies.

A bad line of the first file does no harm to other lines. It is reported by its number, and stays in the file.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ltp_switcher.daemon.settings.policies import Policies, Policy, parse
from ltp_switcher.daemon.settings.prefixes import Network, prefix_of
from ltp_switcher.errors import ArtifactError, ArtifactMissingError, ConfigError, InvalidValueError
from ltp_switcher.files import STATE_MODE, read_whole, set_aside, write_atomically

log = logging.getLogger(__name__)

POLICIES_FILE: Final = "named-policies.json"
"""Name of the file of policies, in the daemon's state directory."""
BYTES_MAX: Final = 16 << 20
"""Largest size in bytes of each of the two files. 65,536 prefixes take 3 MB."""
_HEAD: Final = (
    "# Destinations under the congestion control mutant, one prefix a line; see `ltp-switcher use`."
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of the file of prefixes. `prefix` is None for comments, empty lines and bad lines."""

    text: str
    prefix: Network | None


@dataclass(frozen=True, slots=True)
class PrefixFile:
    """The content of the file of prefixes: its lines, and a sentence about each bad line."""

    lines: tuple[Line, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def prefixes(self) -> list[Network]:
        """The prefixes in the file's order, each once."""
        return list(dict.fromkeys(line.prefix for line in self.lines if line.prefix is not None))

    def with_more(self, prefixes: Iterable[Network]) -> PrefixFile:
        """The content with these prefixes added. Prefixes that the file has already are not added again."""
        present = set(self.prefixes)
        head = self.lines or (Line(_HEAD, None),)
        more = [prefix for prefix in dict.fromkeys(prefixes) if prefix not in present]
        return PrefixFile((*head, *(Line(str(prefix), prefix) for prefix in more)), self.faults)

    def without(self, prefixes: Collection[Network]) -> PrefixFile:
        """The content with these prefixes removed. Comments and bad lines stay."""
        left = tuple(line for line in self.lines if line.prefix is None or line.prefix not in prefixes)
        return PrefixFile(left, self.faults)


def read(file: Path) -> PrefixFile:
    """Read the file of prefixes. A missing file counts as an empty one.

    Raises:
        ArtifactError: the file cannot be read.
    """
    try:
        # A byte-order mark is no part of the first line. Bytes that are not text are kept as they are.
        content = read_whole(file, BYTES_MAX).removeprefix(b"\xef\xbb\xbf")
    except ArtifactMissingError:
        return PrefixFile()
    except ArtifactError as error:
        raise ArtifactError(f"{file} cannot be read: {error}") from error
    text = content.decode("utf-8", "surrogateescape")
    lines, faults = [], []
    for number, line in enumerate(text.splitlines(), 1):
        prefix = None
        words = line.partition("#")[0].strip()
        if words:
            try:
                prefix = prefix_of(words, f"{file}:{number}")
            except InvalidValueError as error:
                faults.append(str(error))
        lines.append(Line(line, prefix))
    return PrefixFile(tuple(lines), tuple(faults))


def write(file: Path, content: PrefixFile) -> None:
    """Write the file of prefixes as a whole. If nothing but the program's own comment is left, the file is
    removed.

    Raises:
        ArtifactError: the file cannot be written.
    """
    texts = [line.text for line in content.lines]
    if any(text.strip() and text != _HEAD for text in texts):
        lines = "".join(f"{text}\n" for text in texts)
        write_atomically(file, lines.encode("utf-8", "surrogateescape"), mode=0o644)
        return
    try:
        file.unlink(missing_ok=True)
    except OSError as error:
        raise ArtifactError(f"{file} cannot be removed: {error.strerror}") from error


def read_policies(file: Path) -> tuple[Policies, list[str]]:
    """Return the policies that the daemon has saved for the rules, and a sentence about each policy that
    cannot be read.

    Raises:
        ArtifactError: the file exists but cannot be read.
    """
    try:
        entries = json.loads(read_whole(file, BYTES_MAX))
    except ArtifactMissingError:
        return Policies(), []
    except (ArtifactError, ValueError, RecursionError) as error:
        raise ArtifactError(f"{file} cannot be read: {error}") from error
    found: list[Policy] = []
    faults = []
    for number, entry in enumerate(entries if isinstance(entries, list) else [entries]):
        try:
            found += parse([entry], field=f"{file}: policies").entries
        except ConfigError as error:
            faults.append(f"policy {number}: {error}")
    return Policies(found), faults


def write_policies(file: Path, policies: Policies) -> None:
    """Save the policies for the rules, unless the file has them already. Raises `ArtifactError`."""
    content = json.dumps([policy.entry() for policy in policies.entries], indent=1).encode() + b"\n"
    try:
        if read_whole(file, BYTES_MAX) == content:
            return
    except ArtifactMissingError:
        pass
    except ArtifactError as error:
        log.warning("%s could not be used (%s) and is kept as %s", file, error, set_aside(file))
    write_atomically(file, content, mode=STATE_MODE)
