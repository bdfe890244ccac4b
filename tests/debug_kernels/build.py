# SPDX-License-Identifier: Apache-2.0
"""Builds the debug kernels, and the module for them; both stay in the cache by the hash of their sources."""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ltp_switcher.cache import REPOSITORY, cache_dir
from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab.kernels import Kernel
from ltp_switcher.eval.lab.kernels import kernel as lab_kernel
from ltp_switcher.eval.lab.layers import mutant_module
from ltp_switcher.eval.lab.packages import building, candidates, locked, run, say, unpacked

CONFIGURATION: Final = Path(__file__).parent / "configuration"
STOCK: Final = "6.12"
FLAVOURS: Final = ("stock", "kasan", "kmemleak", "kcsan")
"""Debian's own kernel, whose allocator can poison what is freed, and those that are built here."""

IMAGES: Final = {"kmemleak": "kasan"}
"""Flavours that boot the kernel of another one, in another way."""

IMAGE: Final = "bzImage"
SOURCE_PACKAGE: Final = "linux-source-6.12"
JOBS: Final = f"-j{(os.cpu_count() or 1) + 1}"
MODULE: Final = REPOSITORY / "kmod-mutant"


def debug_cache() -> Path:
    """Folder of the debug kernels' part of the cache."""
    return cache_dir() / "debug"


@functools.cache
def kernel(flavour: str) -> Kernel:
    """Return the kernel of a flavour; build it first if it is missing (half an hour on two free cores).

    A build that was interrupted goes on where it was.

    Raises:
        LabError: the sources cannot be had, the configuration does not hold, or the build fails.
    """
    if flavour == "stock":
        return lab_kernel(STOCK)
    flavour = IMAGES.get(flavour, flavour)
    folder = _folder(flavour)
    image, release = folder / IMAGE, folder / "release"
    with locked(f"debug-{flavour}"):
        if not (image.exists() and release.exists()):
            _build(folder, "".join(_wanted(flavour)), flavour)
    name = release.read_text()
    # The folder of the image names it for the cache of layers.
    return Kernel(f"6.12-{flavour}", name, image, folder / "root" / "lib" / "modules" / name)


def built(flavour: str) -> bool:
    """Whether the kernel of a flavour is in the cache."""
    image = IMAGES.get(flavour, flavour)
    return flavour == "stock" or all((_folder(image) / name).exists() for name in (IMAGE, "release"))


def _wanted(flavour: str) -> list[str]:
    return [(CONFIGURATION / f"{name}.config").read_text() for name in ("common", flavour)]


def _folder(flavour: str) -> Path:
    version = candidates((SOURCE_PACKAGE,))[SOURCE_PACKAGE]
    compiler = run(["gcc", "--version"]).splitlines()[0]
    return debug_cache() / f"{flavour}-{_hash([version, compiler, *_wanted(flavour)])}"


def _build(folder: Path, wanted: str, flavour: str) -> None:
    tree = sources()
    folder.mkdir(parents=True, exist_ok=True)
    make = ["make", "-s", "-C", str(tree), f"O={folder}"]
    if not (folder / ".config").exists():
        (folder / "wanted.config").write_text(wanted)
        run([*make, f"KCONFIG_ALLCONFIG={folder / 'wanted.config'}", "allnoconfig"])
        missing = lost(wanted, (folder / ".config").read_text())
        if missing:
            (folder / ".config").unlink()
            raise LabError(f"the {flavour} kernel's configuration does not hold: {', '.join(missing)}")
    say(f"building the {flavour} kernel (once; half an hour on two cores)")
    run([*make, JOBS, "bzImage", "modules"])
    # QEMU boots vmlinux itself only if the kernel is one for guests of hypervisors.
    shutil.copy(folder / "arch/x86/boot/bzImage", folder / IMAGE)
    run([*make, f"INSTALL_MOD_PATH={folder / 'root'}", "DEPMOD=true", "modules_install"])
    (folder / "release").write_text(run([*make, "kernelrelease"]).strip())


def lost(wanted: str, got: str) -> list[str]:
    """Return the wanted options that a configuration lacks, because another one that they need is missing."""
    lines = set(got.splitlines())
    return [line for line in wanted.splitlines() if line.startswith("CONFIG_") and not _holds(line, lines)]


def _holds(line: str, lines: set[str]) -> bool:
    name, _, value = line.partition("=")
    return line in lines or (value == "n" and f"{name}=y" not in lines and f"{name}=m" not in lines)


def sources() -> Path:
    """Return the unpacked sources of Debian's 6.12, fetched first if they are missing. Raises `LabError`."""
    version = candidates((SOURCE_PACKAGE,))[SOURCE_PACKAGE]
    target = debug_cache() / f"source-{version.replace(':', '%3a')}"
    with locked("debug-source"):
        if not target.is_dir():
            archive = unpacked(SOURCE_PACKAGE) / "usr" / "src" / f"{SOURCE_PACKAGE}.tar.xz"
            say("unpacking the kernel's sources (1.6 GB)")
            with building(target) as scratch:
                run(["tar", "-xf", str(archive), "-C", str(scratch), "--strip-components=1"])
    return target


def module(chosen: Kernel, sources: Path = MODULE) -> Path:
    """Return tcp_mutant.ko of `sources`, built for a debug kernel from a copy of them.

    Raises:
        LabError: the module does not build.
    """
    if chosen.series == STOCK and sources == MODULE:
        return mutant_module(chosen, REPOSITORY)
    patterns = ("*.[ch]", "include/uapi/linux/*.h", "Kbuild", "Makefile")
    files = sorted(path for pattern in patterns for path in sources.glob(pattern))
    folder = chosen.vmlinux.parent
    headers = Path(f"/lib/modules/{chosen.release}/build") if chosen.series == STOCK else folder
    contents = [f"{path.relative_to(sources)}\0{path.read_text()}" for path in files]
    mark = _hash([folder.name, *contents])
    target = debug_cache() / "modules" / f"{chosen.series}-{mark}"
    with locked(f"debug-module-{chosen.series}"):
        if not target.is_dir():
            with building(target) as scratch:
                for path in files:
                    copy = scratch / path.relative_to(sources)
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy(path, copy)
                run(["make", "-s", JOBS, "-C", str(scratch), "KVER=debug", f"KDIR={headers}"])
                built = scratch / "build/debug/tcp_mutant.ko"
                run(["objcopy", "--strip-debug", str(built), str(scratch / "tcp_mutant.ko")])
                shutil.rmtree(scratch / "build")
    return target / "tcp_mutant.ko"


def _hash(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]
