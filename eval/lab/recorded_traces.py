# SPDX-License-Identifier: Apache-2.0
"""Recorded cellular traces: the files of Debian's package mahimahi-traces, fetched into the cache.

Winstein, Sivaraman and Balakrishnan recorded them for Sprout (NSDI 2013). They are under GPL-3, so the
project does not carry them. The package is built from mahimahi's source package, which only Debian 11
has.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab.other_suite import unpack
from ltp_switcher.eval.lab.packages import building, locked, say
from ltp_switcher.policies.simulator.delivery_traces import traces_folder

PACKAGE: Final = "mahimahi-traces"
SUITE: Final = "bullseye"
_TRACES: Final = Path("usr/share/mahimahi/traces")
_LICENCE: Final = Path("usr/share/doc") / PACKAGE / "copyright"
_HINT: Final = (
    "Check that this machine reaches its Debian mirror. Or put traces in mahimahi's form into a folder, "
    "and name it in LTP_TRACES."
)


def fetch_traces() -> Path:
    """Return the folder of recorded traces. If it is the cache's folder and still empty, fill it first.

    Raises:
        LabError: `LTP_TRACES` names no folder, or the package cannot be fetched.
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
                files = unpack(SUITE, (PACKAGE,), Path(private), _HINT)
                for path in (*(files / _TRACES).iterdir(), files / _LICENCE):
                    path.rename(scratch / path.name)
    return folder
