# SPDX-License-Identifier: Apache-2.0
"""The archive writer, read back by the system's cpio."""

from __future__ import annotations

import io
import subprocess
from pathlib import Path

import pytest

from ltp_switcher.errors import InvalidValueError
from ltp_switcher.eval.lab import cpio


def archive(entries: dict[str, cpio.Entry]) -> bytes:
    stream = io.BytesIO()
    cpio.write(stream, entries)
    return stream.getvalue()


def test_cpio_reads_back_what_was_written(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"from a path")
    entries = {
        "/a/deep/file": cpio.regular(b"12345"),
        "a/program": cpio.regular(source, executable=True),
        "link": cpio.symlink("a/deep/file"),
        "empty": cpio.directory(0o700),
    }
    target = tmp_path / "target"
    target.mkdir()
    subprocess.run(["cpio", "-idm", "--quiet"], input=archive(entries), cwd=target, check=True)
    assert (target / "a/deep/file").read_bytes() == b"12345"
    assert (target / "a/program").read_bytes() == b"from a path"
    assert (target / "a/program").stat().st_mode & 0o777 == 0o755
    assert (target / "link").readlink() == Path("a/deep/file")
    assert (target / "empty").stat().st_mode & 0o777 == 0o700
    assert (target / "a/deep/file").stat().st_mtime == 0


def test_bytes_do_not_depend_on_the_order_of_entries() -> None:
    one, two = cpio.regular(b"1"), cpio.regular(b"22")
    assert archive({"x/one": one, "two": two}) == archive({"two": two, "x/one": one})


def test_parts_are_aligned_to_four_bytes() -> None:
    for size in range(5):
        assert len(archive({"f": cpio.regular(b"x" * size)})) % 4 == 0


@pytest.mark.parametrize("path", ["", "/", "../etc/passwd", "a/../b"])
def test_paths_that_leave_the_guest_are_refused(path: str) -> None:
    with pytest.raises(InvalidValueError, match="overlay path"):
        archive({path: cpio.regular(b"")})


def test_tree_keeps_links_modes_and_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x").write_bytes(b"x")
    (tmp_path / "a").symlink_to("b/x")
    names = [name for name, _ in cpio.tree(tmp_path, "usr")]
    assert names == ["usr/a", "usr/b", "usr/b/x"]
