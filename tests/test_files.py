# SPDX-License-Identifier: Apache-2.0
"""Files that are rewritten: whole or not at all, and by one program at a time."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ltp_switcher import files
from ltp_switcher.daemon.settings import tokens
from ltp_switcher.errors import ArtifactError
from ltp_switcher.files import locked, set_aside, write_atomically

WRITERS = 8


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "file"
    write_atomically(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(ArtifactError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    monkeypatch.undo()
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert [file.name for file in path.parent.iterdir()] == ["file"]


def test_what_is_set_aside_keeps_its_content(tmp_path: Path) -> None:
    path = tmp_path / "state.npz"
    path.write_bytes(b"junk")
    aside = set_aside(path)
    assert not path.exists()
    assert aside.read_bytes() == b"junk"


def test_programs_that_rewrite_a_file_at_once_lose_no_change(tmp_path: Path) -> None:
    """Each adds a line to what it finds, many times. Without the lock most of the lines are lost."""
    file, times = tmp_path / "lines", 25
    program = (
        "import sys; from pathlib import Path; from ltp_switcher.files import locked, write_atomically\n"
        "file = Path(sys.argv[1])\n"
        "for number in range(int(sys.argv[3])):\n"
        "    with locked(file):\n"
        "        before = file.read_bytes() if file.exists() else b''\n"
        "        write_atomically(file, before + f'{sys.argv[2]} {number}\\n'.encode())\n"
    )
    commands = [[sys.executable, "-c", program, str(file), str(one), str(times)] for one in range(WRITERS)]
    assert at_once(commands) == [0] * WRITERS
    written = file.read_text().splitlines()
    assert len(written) == len(set(written)) == WRITERS * times


def test_tokens_that_are_made_at_once_are_all_kept(tmp_path: Path) -> None:
    file = tmp_path / "tokens.json"
    program = [sys.executable, "-m", "ltp_switcher.daemon.cli", "token"]
    made = [[*program, "add", f"t{number}", "--read"] for number in range(WRITERS)]
    assert at_once(made, LTP_SWITCHER_API_TOKEN_FILE=str(file)) == [0] * WRITERS
    assert sorted(token.name for token in tokens.load(file)) == [f"t{number}" for number in range(WRITERS)]
    removed = [[*program, "remove", f"t{number}"] for number in range(0, WRITERS, 2)]
    added = [[*program, "add", f"u{number}", "--write"] for number in range(WRITERS // 2)]
    assert set(at_once([*removed, *added], LTP_SWITCHER_API_TOKEN_FILE=str(file))) == {0}
    assert sorted(token["name"] for token in json.loads(file.read_text())["tokens"]) == [
        "t1", "t3", "t5", "t7", "u0", "u1", "u2", "u3",
    ]  # fmt: skip


def test_a_lock_that_others_keep_is_told_and_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    write_atomically(file, b"old")
    with locked(file), pytest.raises(ArtifactError, match=r"another program .*fuser"), locked(file, 0.05):
        write_atomically(file, b"new")
    assert file.read_bytes() == b"old"
    with locked(file, 0.0):
        write_atomically(file, b"new")


def test_nobody_else_can_keep_the_writers_waiting(tmp_path: Path) -> None:
    """A lock file that others may open would let them hold it; one through a link would be another's."""
    before = os.umask(0)
    try:
        with locked(tmp_path / "file"):
            pass
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / ".file.lock").stat().st_mode) == 0o600
    (tmp_path / ".other.lock").symlink_to(tmp_path / "victim")
    with pytest.raises(ArtifactError, match="cannot be written"), locked(tmp_path / "other"):
        pass
    assert not (tmp_path / "victim").exists()


def at_once(commands: list[list[str]], **environment: str) -> list[int]:
    """Run programs side by side; returns their exit statuses."""
    running = [
        subprocess.Popen(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
        for command in commands
    ]
    return [one.wait(60) for one in running]
