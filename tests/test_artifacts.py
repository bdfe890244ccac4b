# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

import numpy as np
import pytest

from ltp_switcher import artifacts
from ltp_switcher.artifacts import write_atomically
from ltp_switcher.errors import ArtifactError, ArtifactMissingError


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "file"
    write_atomically(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(artifacts.os, "fsync", full)
    with pytest.raises(ArtifactError, match="No space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    monkeypatch.undo()
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert [file.name for file in path.parent.iterdir()] == ["file"]


def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    arrays = {"b": np.arange(3), "a": np.zeros((2, 0), np.float32)}
    sums = {artifacts.write(tmp_path / name, arrays, {"of": "x"}, version=4) for name in ("one", "two")}
    assert len(sums) == 1
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    found, metadata = artifacts.read(tmp_path / "one", what="test arrays", version=4, remedy="")
    assert metadata == {"of": "x", "version": 4}
    assert {name: (array.dtype, array.tolist()) for name, array in found.items()} == {
        name: (array.dtype, array.tolist()) for name, array in arrays.items()
    }


def test_the_description_is_part_of_the_checksum(tmp_path: Path) -> None:
    arrays = {"a": np.arange(3)}
    assert artifacts.write(tmp_path / "one", arrays, {"of": "x"}, version=1) != artifacts.write(
        tmp_path / "two", arrays, {"of": "y"}, version=1
    )


def test_a_missing_file_is_named_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(ArtifactMissingError, match=r"test arrays not found at .*none: make it"):
        artifacts.read(tmp_path / "none", what="test arrays", version=1, remedy="make it")
    with pytest.raises(ArtifactError, match="cannot be read"):
        artifacts.read(tmp_path, what="test arrays", version=1, remedy="make it")
