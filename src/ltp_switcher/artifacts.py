# SPDX-License-Identifier: Apache-2.0
"""Files of arrays with a description and a checksum: trained weights, and the daemon's learned state.

A file is one uncompressed .npz. It holds the arrays by name, `metadata` (JSON, UTF-8 bytes) and `checksum`,
the `digest` of the arrays and the metadata. The same content gives the same bytes. Loading needs neither
PyTorch nor pickle.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import subprocess
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray

from ltp_switcher.errors import ArtifactError, ArtifactMissingError
from ltp_switcher.files import opened, write_atomically

Arrays = Mapping[str, NDArray[np.generic]]
BYTES_MAX: Final = 64 << 20
"""Largest size of a file in bytes. The learned state of 1024 prefixes takes 50 MB with all arms."""
_RESERVED: Final = ("metadata", "checksum")


def digest(arrays: Arrays) -> str:
    """SHA-256 over the names, types, shapes and bytes of the arrays, in the order of their names."""
    running = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        running.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        running.update(array.tobytes())
    return running.hexdigest()


def write(
    path: Path, arrays: Arrays, metadata: Mapping[str, object], *, version: int, mode: int | None = None
) -> str:
    """Replace the file as a whole, and return its checksum. A crash leaves the old file or the new one.
    `mode` is the new file's mode; see `write_atomically`.

    Raises:
        ArtifactError: a name is reserved, or the file cannot be written.
    """
    for name in _RESERVED:
        if name in arrays:
            raise ArtifactError(f"array name {name!r} is reserved in {path}")
    text = json.dumps({**metadata, "version": version}, sort_keys=True).encode()
    members: dict[str, NDArray[np.generic]] = {**arrays, "metadata": np.frombuffer(text, np.uint8)}
    checksum = digest(members)
    content = io.BytesIO()
    np.savez(content, allow_pickle=False, **members, checksum=np.frombuffer(checksum.encode(), np.uint8))
    write_atomically(path, content.getvalue(), mode=mode)
    return checksum


def read(
    path: Path, *, what: str, version: int, remedy: str, bytes_max: int = BYTES_MAX
) -> tuple[dict[str, NDArray[np.generic]], dict[str, object]]:
    """Read and check a file that `write` made.

    Args:
        path: the file.
        what: content of the file, for error messages ("encoder weights").
        version: the only version of the content that the caller can read.
        remedy: advice for the case that the file is missing ("train it with `make train-ltp`").
        bytes_max: largest size of the file. The arrays take no more memory than the file has bytes.

    Returns:
        The arrays by name, and the metadata with its `version`.

    Raises:
        ArtifactMissingError: there is no such file.
        ArtifactError: the file is unreadable, of another version, or fails its checksum.
    """
    try:
        with opened(path, bytes_max) as stream:
            _check_sizes(stream)
            with np.load(stream, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
        stored = bytes(arrays.pop("checksum")).decode()
        metadata = json.loads(bytes(arrays["metadata"]))
    except ArtifactMissingError as error:
        raise ArtifactMissingError(f"{what} not found at {path}: {remedy}") from error
    except ArtifactError as error:
        raise ArtifactError(f"{what} {path} cannot be read: {error}") from error
    except Exception as error:
        # Damage makes numpy and zipfile fail in many ways. numpy's advice is to unpickle the file, which
        # would be unsafe.
        raise ArtifactError(f"{what} {path} cannot be read: it is damaged, or no file of {what}") from error
    if digest(arrays) != stored:
        raise ArtifactError(f"{what} {path}: the checksum does not match, the file is corrupt")
    del arrays["metadata"]
    if not isinstance(metadata, dict) or metadata.get("version") != version:
        found = metadata.get("version") if isinstance(metadata, dict) else None
        raise ArtifactError(f"{what} {path} has version {found}; this release reads {version}")
    return arrays, metadata


def _check_sizes(stream: BinaryIO) -> None:
    """Raise `ArtifactError` if the archive's arrays would take more memory than its file has bytes.

    `write` never compresses, so a compressed file is not ours. A compressed file of 6.5 MB
    could hold 1.5 GB of zeros.
    """
    size = stream.seek(0, io.SEEK_END)
    with zipfile.ZipFile(stream) as archive:
        members = archive.infolist()
        # Members may overlap in a file that was made to do harm.
        if any(member.compress_type != zipfile.ZIP_STORED for member in members) or size < sum(
            member.file_size for member in members
        ):
            raise ArtifactError("it unpacks to more than it holds")
        for member in members:
            with archive.open(member) as array:
                if np.lib.format.read_magic(array) != (1, 0):
                    raise ArtifactError(f"{member.filename} is no array of version 1.0")
                shape, _, dtype = np.lib.format.read_array_header_1_0(array)
                count: int = math.prod(shape)
                told = count * dtype.itemsize
                if told != member.file_size - array.tell() or (count and not dtype.itemsize):
                    raise ArtifactError(f"{member.filename} is said to hold {told} bytes")
    stream.seek(0)


def revision() -> str:
    """The commit of the repository's checkout, for the description of an artifact; "unknown" outside of a
    repository.

    The text ends in "-dirty" if a file of the commit has been changed since.
    """
    folder = str(Path(__file__).resolve().parent)
    command = ["git", "-C", folder, "describe", "--always", "--exclude=*", "--dirty", "--abbrev=40"]
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return "unknown"
    return done.stdout.strip() or "unknown"
