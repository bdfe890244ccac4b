# SPDX-License-Identifier: Apache-2.0
"""Write cpio archives in the `newc` format that Linux unpacks as its initramfs.

The bytes depend on the entries alone: names sorted, times and owners zero, inodes counted from 1. The
kernel's documentation describes the format in driver-api/early-userspace/buffer-format.rst.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Final

from ltp_switcher.errors import InvalidValueError

_TRAILER: Final = "TRAILER!!!"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of an archive: its type and permission bits, and its content.

    `data` is the content of a regular file, or the path from which the content is copied. For a symbolic
    link, `data` is the target. `device` is the (major, minor) number of a character device.
    """

    mode: int
    data: bytes | Path = b""
    device: tuple[int, int] = (0, 0)

    def content(self) -> bytes:
        """Return the bytes that follow the entry's name in the archive."""
        return self.data if isinstance(self.data, bytes) else self.data.read_bytes()


def regular(data: bytes | Path, *, executable: bool = False) -> Entry:
    """Return a regular file."""
    return Entry(stat.S_IFREG | (0o755 if executable else 0o644), data)


def symlink(target: str) -> Entry:
    """Return a symbolic link to `target`."""
    return Entry(stat.S_IFLNK | 0o777, target.encode())


def directory(mode: int = 0o755) -> Entry:
    """Return a directory."""
    return Entry(stat.S_IFDIR | mode)


def character_device(major: int, minor: int) -> Entry:
    """Return a character device that root may read and write."""
    return Entry(stat.S_IFCHR | 0o600, device=(major, minor))


def tree(folder: Path, prefix: str = "") -> Iterator[tuple[str, Entry]]:
    """Yield every file under `folder` as an entry named below `prefix`, symbolic links kept as they are."""
    for path in sorted(folder.rglob("*")):
        name = str(PurePosixPath(prefix, path.relative_to(folder)))
        if path.is_symlink():
            yield name, symlink(str(path.readlink()))
        elif path.is_dir():
            yield name, directory()
        else:
            yield name, regular(path, executable=bool(path.stat().st_mode & 0o111))


def write(archive: BinaryIO, entries: Mapping[str, Entry]) -> None:
    """Write `entries`, keyed by their absolute or relative path, and the folders above them.

    Raises:
        InvalidValueError: a path is empty or climbs with `..`.
    """
    named: dict[str, Entry] = {}
    for path, entry in entries.items():
        parts = PurePosixPath(path).parts
        name = "/".join(part for part in parts if part != "/")
        if not name or ".." in parts:
            raise InvalidValueError("overlay path", path, "a path inside the guest, without '..'")
        named[name] = entry
        for parent in PurePosixPath(name).parents:
            if str(parent) != ".":
                named.setdefault(str(parent), directory())
    for inode, name in enumerate(sorted(named), start=1):
        _write_entry(archive, inode, name, named[name])
    _write_entry(archive, 0, _TRAILER, Entry(0))


def _write_entry(archive: BinaryIO, inode: int, name: str, entry: Entry) -> None:
    content = entry.content()
    encoded = name.encode() + b"\0"
    links = 2 if stat.S_ISDIR(entry.mode) else 1
    fields = (
        inode, entry.mode, 0, 0, links, 0, len(content), 0, 0,
        entry.device[0], entry.device[1], len(encoded), 0,
    )  # fmt: skip
    archive.write(b"070701" + b"".join(b"%08x" % field for field in fields) + encoded)
    archive.write(b"\0" * (-(110 + len(encoded)) % 4) + content + b"\0" * (-len(content) % 4))
