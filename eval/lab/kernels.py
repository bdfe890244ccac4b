# SPDX-License-Identifier: Apache-2.0
"""Stock Debian kernels for the lab: which release a series means, its image, and its modules."""

from __future__ import annotations

import lzma
import os
import re
import struct
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ltp_switcher.errors import InvalidValueError, LabError
from ltp_switcher.eval.lab import cpio
from ltp_switcher.eval.lab.packages import building, lab_cache, locked, run, unpacked

META_PACKAGES: Final = {"6.1": "linux-image-amd64", "6.12": "linux-image-6.12-amd64"}
"""The series that the lab boots, and the package whose dependency names the series' current release."""

# Modules that a guest may load, below `kernel/` in the modules' tree; dependencies follow.
MODULE_GLOBS: Final = (
    "net/ipv4/tcp_*.ko*", "net/ipv4/*_diag.ko*", "net/sched/*.ko*", "drivers/net/veth.ko*",
    "drivers/net/dummy.ko*", "drivers/net/ifb.ko*", "drivers/net/tun.ko*",
)  # fmt: skip

_XZ_MAGIC: Final = b"\xfd7zXZ\0"
_ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"


PREPARED: Final = "LTP_KERNELS_DIR"
"""Environment variable with a folder of kernels that were made ready elsewhere, by series."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """One kernel release: `vmlinux` is the uncompressed image, `modules` its /lib/modules folder.

    `built` is the folder of our modules for a kernel that was prepared on another machine. It is None if our
    modules are built here.
    """

    series: str
    release: str
    vmlinux: Path
    modules: Path
    built: Path | None = None


def known() -> tuple[str, ...]:
    """Return the series that the lab can boot: `META_PACKAGES`, then the folders of `$LTP_KERNELS_DIR`."""
    folder = os.environ.get(PREPARED)
    prepared = sorted(path.name for path in Path(folder).iterdir() if path.is_dir()) if folder else []
    return (*META_PACKAGES, *prepared)


def kernel(series: str) -> Kernel:
    """Return the kernel of a series; fetch and unpack it first if it is missing.

    If headers of the series are installed, the release is the newest one with headers, because our modules
    are built against them. Otherwise it is the release on which the series' meta-package depends. A prepared
    series has one release of its own.

    Raises:
        InvalidValueError: the lab has no such series.
        LabError: the kernel's package cannot be fetched or read.
    """
    if series not in META_PACKAGES:
        folder = Path(os.environ.get(PREPARED, "/nonexistent")) / series
        if not (folder / "release").exists():
            raise InvalidValueError("kernel", series, " or ".join(META_PACKAGES))
        release = (folder / "release").read_text().strip()
        return Kernel(series, release, folder / "vmlinux", folder / "modules" / release, folder / "built")
    release = _release(series)
    folder = unpacked(f"linux-image-{release}")
    image = lab_cache() / "vmlinux" / folder.name
    with locked(f"vmlinux-{release}"):
        if not image.is_dir():
            with building(image) as scratch:
                (scratch / "vmlinux").write_bytes(uncompressed(folder / "boot" / f"vmlinuz-{release}"))
    return Kernel(series, release, image / "vmlinux", folder / "lib" / "modules" / release)


def _release(series: str) -> str:
    built = [path.parent.name for path in Path("/lib/modules").glob(f"{series}.*/build") if path.is_dir()]
    if built:
        return max(built, key=lambda release: [int(number) for number in re.findall(r"\d+", release)])
    for line in run(["apt-cache", "depends", META_PACKAGES[series]]).splitlines():
        found = re.fullmatch(rf"\s*Depends: linux-image-({re.escape(series)}\.\S+)", line)
        if found:
            return found[1]
    raise LabError(
        f"apt knows no kernel {series} ({META_PACKAGES[series]}). Run `apt-get update`, then try again."
    )


def uncompressed(bzimage: Path) -> bytes:
    """Return the ELF image inside a bzImage (Documentation/arch/x86/boot.rst, payload_offset and _length).

    A guest that boots this image need not decompress the kernel, which is half of the boot.
    """
    data = bzimage.read_bytes()
    offset, length = struct.unpack_from("<II", data, 0x248)
    start = (data[0x1F1] + 1) * 512 + offset
    # The payload's last 4 bytes are the unpacked size.
    payload = data[start : start + length - 4]
    if payload.startswith(_XZ_MAGIC):
        return lzma.decompress(payload)
    if payload.startswith(_ZSTD_MAGIC):
        try:
            return subprocess.run(["zstd", "-dcq"], input=payload, capture_output=True, check=True).stdout
        except (FileNotFoundError, subprocess.CalledProcessError) as error:
            raise LabError(
                f"cannot unpack {bzimage.name}: {error}. Is the package zstd installed?"
            ) from error
    raise LabError(f"cannot unpack {bzimage.name}: its compression is neither xz nor zstd")


def module_entries(chosen: Kernel) -> dict[str, cpio.Entry]:
    """Return the modules of `MODULE_GLOBS`, all they depend on, and modprobe's index, as archive entries."""
    index: dict[str, Path] = {}
    for path in (chosen.modules / "kernel").rglob("*.ko*"):
        index[_module_name(path)] = path
    wanted = sorted({p for glob in MODULE_GLOBS for p in (chosen.modules / "kernel").glob(glob)})
    depends: dict[str, list[str]] = {}
    images: dict[str, bytes] = {}
    queue = [_module_name(path) for path in wanted]
    while queue:
        name = queue.pop()
        if name in images:
            continue
        images[name] = read_module(index[name])
        depends[name] = [
            d.replace("-", "_") for d in _modinfo(images[name], "depends") for d in d.split(",") if d
        ]
        # A dependency may be built into the kernel, and then it has no file.
        depends[name] = [d for d in depends[name] if d in index]
        queue += depends[name]
    base = f"usr/lib/modules/{chosen.release}"
    entries = {f"{base}/{name}.ko": cpio.regular(image) for name, image in images.items()}
    lines = [f"{name}.ko:{''.join(f' {d}.ko' for d in _closure(name, depends))}" for name in sorted(images)]
    aliases = [
        f"alias {alias} {name}" for name in sorted(images) for alias in _modinfo(images[name], "alias")
    ]
    entries[f"{base}/modules.dep"] = cpio.regular("\n".join([*lines, ""]).encode())
    entries[f"{base}/modules.alias"] = cpio.regular("\n".join([*aliases, ""]).encode())
    return entries


def read_module(path: Path) -> bytes:
    """Return a module's ELF image, unpacked where the distribution compresses its modules."""
    data = path.read_bytes()
    return lzma.decompress(data) if path.suffix == ".xz" else data


def _module_name(path: Path) -> str:
    return path.name.partition(".ko")[0].replace("-", "_")


def _modinfo(image: bytes, key: str) -> Iterable[str]:
    # `.modinfo` holds NUL-terminated "key=value" strings; nothing else in a module looks like these.
    return (value.decode() for value in re.findall(rb"\0%s=([^\0]*)" % key.encode(), b"\0" + image))


def _closure(name: str, depends: dict[str, list[str]]) -> list[str]:
    found: list[str] = []
    queue = list(depends[name])
    while queue:
        dependency = queue.pop(0)
        if dependency not in found:
            found.append(dependency)
            queue += depends[dependency]
    return found
