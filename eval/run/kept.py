# SPDX-License-Identifier: Apache-2.0
"""Results that the repository keeps: runs of the kernel's own protocols on the suite's paths.

Such a run depends on the path, the lab and the kernel alone, so its results outlive every change of the
daemon. The files are `suite/kept/<set>/<path>/<scheme>-<seed>-<kernel>.<fingerprint>.zip`. Each has the raw
files of one run, `run.json`, and `made.json`: the command and the revision that made it.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Final

from ltp_switcher.errors import ArtifactError, reason
from ltp_switcher.files import write_atomically

FOLDER: Final = Path(__file__).resolve().parents[1] / "suite" / "kept"
MADE: Final = "made.json"
_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
"""The first date that a zip file can have. With it, equal results give equal bytes."""


def read(fingerprint: str, names: Sequence[str]) -> dict[str, bytes] | None:
    """Return the files `names` of the run with this fingerprint, or None if the run is not kept.

    Raises:
        ArtifactError: the run's file is damaged.
    """
    path = _by_fingerprint(FOLDER).get(fingerprint)
    if path is None:
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            return {name: archive.read(name) for name in names}
    except (OSError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ArtifactError(
            f"cannot read {path} ({reason(error)}). Remove it to make the run anew."
        ) from error


def write(place: str, fingerprint: str, files: Mapping[str, bytes], made: Mapping[str, str]) -> Path:
    """Keep a run's files. They replace results of an earlier fingerprint at the same place.

    Args:
        place: `<set>/<path>/<scheme>-<seed>-<kernel>`.
        fingerprint: fingerprint of the run.
        files: content of the run's files by name.
        made: the command and the revision that made them.

    Raises:
        ArtifactError: the file cannot be written.
    """
    path = FOLDER / f"{place}.{fingerprint}.zip"
    # The results of this fingerprint are already there. New ones would differ in the wall time alone.
    if path.exists():
        return path
    stale = list(path.parent.glob(f"{path.name.removesuffix(f'{fingerprint}.zip')}*.zip"))
    content = BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_LZMA) as archive:
        for name, data in (*files.items(), (MADE, json.dumps(made).encode())):
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_LZMA)
    write_atomically(path, content.getvalue())
    for old in stale:
        old.unlink()
    _by_fingerprint.cache_clear()
    return path


@cache
def _by_fingerprint(folder: Path) -> dict[str, Path]:
    return {path.name.split(".")[-2]: path for path in folder.rglob("*.zip")}
