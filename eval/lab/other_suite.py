# SPDX-License-Identifier: Apache-2.0
"""Packages of another Debian release than the machine's own, from the mirror that the machine's apt uses.

apt gets a source list and lists of its own, so that nothing of the machine's apt changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab.packages import run

_KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


def unpack(suite: str, packages: Sequence[str], private: Path, hint: str) -> Path:
    """Fetch packages of `suite` with apt, whose own state is in the folder `private`. Return the root of
    their files.

    The packages themselves stay in `private`, and their file names have the versions.

    Raises:
        LabError: a package cannot be fetched; the message ends with `hint`.
    """
    (private / "lists" / "partial").mkdir(parents=True)
    (private / "cache" / "archives" / "partial").mkdir(parents=True)
    signed = f"[signed-by={_KEYRING}] " if _KEYRING.is_file() else ""
    (private / "sources.list").write_text(f"deb {signed}{_mirror(hint)} {suite} main\n")
    # apt drops root for downloads, and its user must be able to write here.
    for path in (private, *private.rglob("*")):
        path.chmod(0o777 if path.is_dir() else 0o644)
    apt = [
        "apt-get", "-q",
        "-o", f"Dir::Etc::SourceList={private / 'sources.list'}",
        "-o", "Dir::Etc::SourceParts=/dev/null",
        "-o", f"Dir::State::Lists={private / 'lists'}",
        "-o", f"Dir::Cache={private / 'cache'}",
        "-o", "Acquire::Languages=none",
    ]  # fmt: skip
    run([*apt, "-o", "APT::Update::Error-Mode=any", "update"], hint=hint)
    run([*apt, "download", *packages], cwd=private, hint=hint)
    files = private / "files"
    for deb in sorted(private.glob("*.deb")):
        run(["dpkg-deb", "-x", str(deb), str(files)])
    return files


def _mirror(hint: str) -> str:
    """Return the address from which this machine's apt takes Debian's main archive."""
    filters = ["Created-By: Packages", "Origin: Debian", "Label: Debian"]
    addresses = run(["apt-get", "indextargets", "--format", "$(REPO_URI)", *filters]).split()
    if not addresses:
        raise LabError(f"this machine's apt has no source of Debian's main archive. {hint}")
    return addresses[0]
