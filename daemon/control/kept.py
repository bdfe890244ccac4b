# SPDX-License-Identifier: Apache-2.0
"""The file of overrides, and its last good copy.

This file also holds the policies, and some of them exclude flows. A daemon that lost the policies would steer
flows that it must leave alone. So every save writes the content twice. A file that cannot be read stays in
its place until new content replaces it.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ltp_switcher.daemon.control.overrides import Overrides, decode, encode
from ltp_switcher.errors import ArtifactError, ArtifactMissingError
from ltp_switcher.files import STATE_MODE, read_whole, set_aside, write_atomically

log = logging.getLogger(__name__)

COPY: Final = ".good"
"""Suffix of the copy's name."""
BYTES_MAX: Final = 64 << 20
"""Largest size of the file in bytes. A pin takes about 60 bytes, so a million pins fit."""


@dataclass(frozen=True, slots=True)
class Found:
    """The overrides that were found on disk, and the state of their files."""

    overrides: Overrides
    faults: tuple[str, ...] = ()
    """Reasons why the file or the copy cannot be used."""
    lost: bool = False
    """Whether a file of overrides exists, but neither this file nor its copy can be read."""
    damaged: tuple[Path, ...] = ()
    """The files that cannot be read. They have to be renamed before new content takes their place."""
    equal: bool = True
    """Whether the file and the copy have the same content."""


def copy_of(path: Path) -> Path:
    """The path of the last good copy."""
    return path.with_name(path.name + COPY)


def read(path: Path) -> Found:
    """Read the overrides from the file or, if that fails, from its copy. Nothing changes on disk."""
    copy = copy_of(path)
    usable: dict[Path, Overrides] = {}
    faults: list[str] = []
    damaged: list[Path] = []
    for place in (path, copy):
        try:
            usable[place] = decode(read_whole(place, BYTES_MAX))
        except ArtifactMissingError:
            continue
        except ArtifactError as error:
            faults.append(f"{place} cannot be used: {error}")
            damaged.append(place)
    if copy in usable and path not in usable:
        faults.append(f"the last good copy {copy} counts")
    kept = usable.get(path, usable.get(copy))
    return Found(
        kept or Overrides(),
        tuple(faults),
        lost=bool(damaged) and kept is None,
        damaged=tuple(damaged),
        equal=kept is None or usable.get(path) == usable.get(copy),
    )


def write(path: Path, overrides: Overrides, damaged: tuple[Path, ...] = ()) -> None:
    """Write these overrides. The `damaged` files are renamed and kept. Raises `ArtifactError` if this fails.

    The copy is written first. So at every moment the file or the copy can be read, or the damaged files still
    exist.
    """
    content = encode(overrides)
    for place in (copy_of(path), path):
        if place in damaged:
            log.warning("%s could not be used and is kept as %s", place, set_aside(place))
        write_atomically(place, content, mode=STATE_MODE)
