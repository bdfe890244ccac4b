# SPDX-License-Identifier: Apache-2.0
"""Recorded cellular traces: the files of Debian's package mahimahi-traces, fetched into the cache.

Winstein, Sivaraman and Balakrishnan recorded them for Sprout (NSDI 2013). They are under GPL-3, so the
project does not carry them. The package is built from mahimahi's source package, which only Debian 11
has. So apt asks for it in that suite, from the mirror that this machine uses, with lists of its own.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab.packages import building, locked, run, say
from ltp_switcher.policies.simulator.delivery_traces import traces_folder

PACKAGE: Final = "mahimahi-traces"
SUITE: Final = "bullseye"
_TRACES: Final = Path("usr/share/mahimahi/traces")
_LICENCE: Final = Path("usr/share/doc") / PACKAGE / "copyright"
_KEYRING: Final = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_HINT: Final = (
    "Check that this machine reaches its Debian mirror. Or put traces in mahimahi's form into a folder, "
    "and name it in LTP_TRACES."
)


def fetch_traces() -> Path:
    """Return the folder of recorded traces, and fill it first if it is the cache's and not there yet.

    Raises:
        LabError: `LTP_TRACES` names no folder, or the package cannot be had.
    """
    folder = traces_folder()
    if os.environ.get("LTP_TRACES"):
        if not folder.is_dir():
            raise LabError(f"LTP_TRACES names {folder}, which is no folder. Unset it to fetch the traces.")
        return folder
    with locked("traces"):
        if not folder.is_dir():
            say(f"lab: fetching {PACKAGE} from Debian's suite {SUITE}")
            with building(folder) as scratch, tempfile.TemporaryDirectory(dir=folder.parent) as private:
                files = _unpack(Path(private))
                for path in (*(files / _TRACES).iterdir(), files / _LICENCE):
                    path.rename(scratch / path.name)
    return folder


def _unpack(private: Path) -> Path:
    """Fetch the package with apt, its own state in the folder `private`; return its files' root."""
    (private / "lists" / "partial").mkdir(parents=True)
    (private / "cache" / "archives" / "partial").mkdir(parents=True)
    signed = f"[signed-by={_KEYRING}] " if _KEYRING.is_file() else ""
    (private / "sources.list").write_text(f"deb {signed}{_mirror()} {SUITE} main\n")
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
    run([*apt, "-o", "APT::Update::Error-Mode=any", "update"], hint=_HINT)
    run([*apt, "download", PACKAGE], cwd=private, hint=_HINT)
    files = private / "files"
    for deb in private.glob("*.deb"):
        run(["dpkg-deb", "-x", str(deb), str(files)])
    return files


def _mirror() -> str:
    """Return the address from which this machine's apt takes Debian's main archive."""
    filters = ["Created-By: Packages", "Origin: Debian", "Label: Debian"]
    addresses = run(["apt-get", "indextargets", "--format", "$(REPO_URI)", *filters]).split()
    if not addresses:
        raise LabError(f"this machine's apt has no source of Debian's main archive. {_HINT}")
    return addresses[0]
