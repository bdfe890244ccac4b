# SPDX-License-Identifier: Apache-2.0
"""Builds the module for arm64 with a cross compiler. Nothing runs it; each warning of the compiler counts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from debug_kernels.build import sources

from kernels.release import CACHE, MODULE, warnings
from ltp_switcher.eval.lab.packages import building, locked, run, say

NAME: Final = "arm64"
COMPILER_PACKAGE: Final = "gcc-aarch64-linux-gnu"
ARCHITECTURE: Final = ("ARCH=arm64", "CROSS_COMPILE=aarch64-linux-gnu-")


def headers() -> Path:
    """Return a kernel tree of Debian's 6.12 that is ready for modules for arm64, made first if it is missing.

    Raises:
        LabError: the sources or the cross compiler cannot be had.
    """
    tree = sources()
    place = CACHE / f"{NAME}-{tree.name}"
    with locked(f"kernel-{NAME}"):
        if not place.is_dir():
            say(f"kernels: preparing the headers of Linux 6.12 for {NAME}")
            with building(place) as scratch:
                make = ["make", "-s", "-C", str(tree), f"O={scratch}", *ARCHITECTURE]
                run([*make, "defconfig"], hint=f"Install {COMPILER_PACKAGE}.")
                run([*make, "modules_prepare"], hint=f"Install {COMPILER_PACKAGE}.")
    return place


def cross_build(folder: Path) -> tuple[str, list[str]]:
    """Build the module below `folder`. Returns the kernel's release and the compiler's warnings.

    Raises:
        LabError: it does not build.
    """
    place = headers()
    work = folder / NAME
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(MODULE, work, ignore=shutil.ignore_patterns("build", "tests", "tools"))
    # The kernel itself is not built, so nobody knows what it exports.
    options = ("W=1", "KBUILD_MODPOST_WARN=1", "modules")
    make = ["make", "-s", "-C", str(sources()), f"O={place}", f"M={work}", *ARCHITECTURE, *options]
    printed = run(["sh", "-c", 'exec "$@" 2>&1', "sh", *make])
    release = (place / "include/config/kernel.release").read_text().strip()
    shutil.rmtree(work)
    return release, [line for line in warnings(printed) if not _of_exports(line)]


def _of_exports(line: str) -> bool:
    return "modpost" in line or "Module.symvers" in line
