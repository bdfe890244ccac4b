# SPDX-License-Identifier: Apache-2.0
import copy
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from ltp_switcher import artifacts
from ltp_switcher.errors import ArtifactError, ArtifactMissingError


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


def test_damage_at_any_byte_or_end_is_refused_or_harmless(tmp_path: Path) -> None:
    path = tmp_path / "arrays.npz"
    arrays = {"a": np.arange(3.0)}
    artifacts.write(path, arrays, {"of": "x"}, version=1)
    content = path.read_bytes()
    damaged = [content[:end] for end in range(len(content))]
    for place in range(len(content)):
        # The method of compression is 0; 8 is deflate. Bit 0 of the flags is encryption.
        for flipped in (0x01, 0x08, 0xFF):
            damaged.append(content[:place] + bytes([content[place] ^ flipped]) + content[place + 1 :])
    refused = 0
    for other in damaged:
        path.write_bytes(other)
        try:
            found, metadata = artifacts.read(path, what="test arrays", version=1, remedy="")
        except ArtifactError:
            refused += 1
        else:
            assert (found["a"].tolist(), found.keys()) == ([0.0, 1.0, 2.0], {"a"})
            assert metadata == {"of": "x", "version": 1}
    assert refused > len(damaged) / 2


@pytest.mark.parametrize("error", [zlib.error, struct.error, MemoryError, IndexError, TypeError, SyntaxError])
def test_whatever_reading_fails_with_is_one_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error("damaged")

    artifacts.write(tmp_path / "one", {"a": np.arange(3)}, {}, version=1)
    monkeypatch.setattr(artifacts.np, "load", fails)
    with pytest.raises(ArtifactError, match="damaged, or no file of test arrays"):
        artifacts.read(tmp_path / "one", what="test arrays", version=1, remedy="")


def npz(path: Path, *, compressed: bool = False) -> None:
    """A file whose checksum is right, of 64 MiB of zeros."""
    arrays = {"a": np.zeros(1 << 23), "metadata": np.frombuffer(b'{"version": 1}', np.uint8)}
    save = np.savez_compressed if compressed else np.savez
    save(path, **arrays, checksum=np.frombuffer(artifacts.digest(arrays).encode(), np.uint8))


def compressed(path: Path) -> None:
    """1000 times smaller than what it unpacks to."""
    npz(path, compressed=True)


def doubled(path: Path) -> None:
    """One array of 1 MB that many names of the archive point to."""
    artifacts.write(path, {"a": np.zeros(1 << 17)}, {}, version=1)
    with zipfile.ZipFile(path, "a") as archive:
        first = archive.getinfo("a.npy")
        for number in range(100):
            other = copy.copy(first)
            other.filename = f"a{number}.npy"
            archive.filelist.append(other)
        archive.start_dir = archive.fp.tell() if archive.fp else 0
        archive._didModify = True


def of_header(path: Path, header: bytes) -> None:
    """An archive whose one array has this header, and no content."""
    length = (128 - 10 - len(header)) % 64 + len(header)
    member = b"\x93NUMPY\x01\x00" + struct.pack("<H", length) + header.ljust(length - 1) + b"\n"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", member)


def huge(path: Path) -> None:
    """Its header tells of 8 GB, which numpy would reserve."""
    of_header(path, b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000,), }")


def countless(path: Path) -> None:
    """Texts of no length take no room, however many they are."""
    of_header(path, b"{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000,), }")


def long(path: Path) -> None:
    """A file with a hole of 1 TB."""
    with path.open("wb") as file:
        file.truncate(1 << 40)


@pytest.mark.parametrize("make", [compressed, doubled, huge, countless, long])
def test_no_file_takes_more_memory_than_it_has_bytes(tmp_path: Path, make: Callable[[Path], None]) -> None:
    path = tmp_path / "one.npz"
    make(path)
    tracemalloc.start()
    try:
        with pytest.raises(ArtifactError):
            artifacts.read(path, what="test arrays", version=1, remedy="")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < (1 << 20) + 2 * min(path.stat().st_size, 1 << 20)


def test_what_is_within_the_bound_is_read(tmp_path: Path) -> None:
    path = tmp_path / "one.npz"
    npz(path)
    with pytest.raises(ArtifactError, match="no release writes more than"):
        artifacts.read(path, what="test arrays", version=1, remedy="")
    found, _ = artifacts.read(path, what="test arrays", version=1, remedy="", bytes_max=1 << 30)
    assert found["a"].shape == (1 << 23,)


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
