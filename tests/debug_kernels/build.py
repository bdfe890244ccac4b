# SPDX-License-Identifier: Apache-2.0
"""Builds the module of a copy of its sources, kept in the cache by their hash."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Final

from ltp_switcher.cache import REPOSITORY, cache_dir
from ltp_switcher.eval.lab.kernels import Kernel
from ltp_switcher.eval.lab.kernels import kernel as lab_kernel
from ltp_switcher.eval.lab.layers import mutant_module
from ltp_switcher.eval.lab.packages import building, locked, run

FLAVOURS: Final = ("stock",)
"""Debian's own kernel."""

STOCK: Final = "6.12"
JOBS: Final = f"-j{(os.cpu_count() or 1) + 1}"
MODULE: Final = REPOSITORY / "kmod-mutant"


def debug_cache() -> Path:
    """Folder of this package's part of the cache."""
    return cache_dir() / "debug"


def kernel(flavour: str) -> Kernel:
    """Return the kernel of a flavour.

    Raises:
        LabError: the kernel's package cannot be had or read.
    """
    return lab_kernel({"stock": STOCK}[flavour])


def module(chosen: Kernel, sources: Path = MODULE) -> Path:
    """Return tcp_mutant.ko of `sources`, built for a kernel from a copy of them.

    Raises:
        LabError: the module does not build.
    """
    if sources == MODULE:
        return mutant_module(chosen, REPOSITORY)
    patterns = ("*.[ch]", "include/uapi/linux/*.h", "Kbuild", "Makefile")
    files = sorted(path for pattern in patterns for path in sources.glob(pattern))
    mark = hashlib.sha256(chosen.release.encode())
    for path in files:
        mark.update(f"{path.relative_to(sources)}\0{path.read_text()}\0".encode())
    target = debug_cache() / "modules" / f"{chosen.series}-{mark.hexdigest()[:16]}"
    with locked(f"debug-module-{chosen.series}"):
        if not target.is_dir():
            with building(target) as scratch:
                for path in files:
                    copy = scratch / path.relative_to(sources)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(path, copy)
                run(["make", "-s", JOBS, "-C", str(scratch), f"KVER={chosen.release}"])
                built = scratch / "build" / chosen.release / "tcp_mutant.ko"
                run(["objcopy", "--strip-debug", str(built), str(scratch / "tcp_mutant.ko")])
                shutil.rmtree(scratch / "build")
    return target / "tcp_mutant.ko"
