# SPDX-License-Identifier: Apache-2.0
"""Oracle's bpftune for the guest: Debian 13's package with the libraries that it needs, as a layer.

bpftune is a daemon with BPF programs. Each of its tuners is a library. The tuner `tcp_conn_tuner` chooses a
connection's congestion control. It takes the one with the best results of earlier connections to the address,
or BBR if more than 1/64 of the segments were sent again. The layer has this tuner only. The other tuners set
buffers and other limits, which would change a comparison.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Final

from ltp_switcher.eval.lab import cpio
from ltp_switcher.eval.lab.layers import GUEST, layer
from ltp_switcher.eval.lab.other_suite import unpack
from ltp_switcher.eval.lab.packages import building, lab_cache, locked, say
from ltp_switcher.eval.lab.script import asks_bpftune
from ltp_switcher.eval.run.scenario import Scenario

SUITE: Final = "trixie"
PACKAGES: Final = (
    "bpftune", "libbpftune0", "libbpf1", "libc6", "libcap2", "libelf1t64", "libzstd1", "zlib1g",
)  # fmt: skip
"""Packages of bpftune and of its libraries. bpftune needs a newer C library than the guest has."""

_ROOT: Final = "opt/bpftune"
"""Folder of bpftune's files in the guest. It separates them from the guest's own libraries of
the same names.
"""
_WANTED: Final = re.compile(
    r"usr/sbin/bpftune|usr/lib64/ld-linux-x86-64\.so\.2|usr/lib/x86_64-linux-gnu/bpftune/tcp_conn_tuner\.so"
    r"|usr/lib/x86_64-linux-gnu/(ld-linux-x86-64|lib(bpftune|bpf|c|cap|elf(-\d[^/]*)?|zstd|z))\.so[^/]*"
)
_TUNERS: Final = "usr/lib/x86_64-linux-gnu/bpftune"
"""The folder in which bpftune looks for tuners."""
_HINT: Final = "Check that this machine reaches its Debian mirror."


def bpftune_layers(scenario: Scenario) -> list[Path]:
    """Return the layers that the scenario's guest needs for bpftune: none or one.

    Raises:
        ConfigError: bpftune would also choose for a flow of another scheme.
        LabError: a package cannot be fetched.
    """
    return [bpftune_layer()] if asks_bpftune(scenario) else []


def bpftune_layer() -> Path:
    """Return the layer with bpftune, its connection tuner, and the shell function that starts bpftune.

    Raises:
        LabError: a package cannot be fetched.
    """
    folder = _fetched()
    versions = (folder / "versions").read_text()
    start = GUEST / "bpftune"

    def build() -> dict[str, cpio.Entry]:
        say("lab: packing bpftune for the guest")
        tree = cpio.tree(folder / "files")
        entries = {f"{_ROOT}/{name}": entry for name, entry in tree if _WANTED.fullmatch(name)}
        entries[_TUNERS] = cpio.symlink(f"/{_ROOT}/{_TUNERS}")
        return entries | {"lab/bpftune": cpio.regular(start)}

    return layer("bpftune", [versions, start.read_text(), _WANTED.pattern, _ROOT, _TUNERS], build)


def _fetched() -> Path:
    """Return the folder with the packages' `files` and `versions`. If the folder is missing, fetch the
    packages first.
    """
    target = lab_cache() / "packages" / f"bpftune-{SUITE}"
    with locked("package-bpftune"):
        if not target.is_dir():
            say(f"lab: fetching bpftune from Debian's suite {SUITE}")
            with building(target) as scratch, tempfile.TemporaryDirectory(dir=target.parent) as folder:
                files = unpack(SUITE, PACKAGES, Path(folder), _HINT)
                debs = sorted(path.name for path in Path(folder).glob("*.deb"))
                (scratch / "versions").write_text("".join(f"{name}\n" for name in debs))
                files.rename(scratch / "files")
    return target
