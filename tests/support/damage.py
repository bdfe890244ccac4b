# SPDX-License-Identifier: Apache-2.0
"""Damage to files of state, as disks, hands and other releases do it."""

from __future__ import annotations

import os
from pathlib import Path

KINDS = ("empty", "truncated", "future", "binary", "directory", "pipe", "unreadable")


def damage(path: Path, how: str) -> None:
    """Leave a file of one of the `KINDS` there, or none where it is to be "missing"."""
    content = path.read_bytes()
    path.unlink()
    if how == "directory":
        (path / "in it").mkdir(parents=True)
    elif how == "pipe":
        os.mkfifo(path)
    elif how == "unreadable":
        # No mode stops root; a link to itself does.
        path.symlink_to(path)
    elif how != "missing":
        contents = {
            "empty": b"",
            "truncated": content[: len(content) // 2],
            "future": b'{"version": 2, "all": {}}',
            "binary": b"\xff" * 50,
        }
        path.write_bytes(contents[how])
