# SPDX-License-Identifier: Apache-2.0
"""The guest's file system in layers: uncompressed cpio archives, kept by the hash of their ingredients.

QEMU gets them one after the other as one initramfs; a later layer's file replaces an earlier one's.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab import cpio
from ltp_switcher.eval.lab.kernels import Kernel, module_entries
from ltp_switcher.eval.lab.packages import building, candidates, lab_cache, locked, run, say, unpacked

GUEST: Final = Path(__file__).resolve().parent / "guest"
LINK: Final = Path(__file__).resolve().parent / "link"

BASE_PACKAGES: Final = (
    "busybox-static", "dash", "iproute2", "ethtool", "libc6", "libbpf1", "libbsd0", "libcap2", "libelf1",
    "libmd0", "libmnl0", "libpcre2-8-0", "libselinux1", "libtirpc3", "libxtables12", "zlib1g",
    "libgssapi-krb5-2", "libkrb5-3", "libk5crypto3", "libkrb5support0", "libcom-err2", "libkeyutils1",
)  # fmt: skip
"""Busybox, iproute2 and ethtool, the libraries with which they are linked, and dash. The shell of busybox is
not used, because it would run busybox's own `ip` even if the path names another one.
"""

MERGED: Final = ("bin", "sbin", "lib", "lib64")
"""Top-level folders that are links into /usr, as on an installed Debian."""

_CFLAGS: Final = ("-std=gnu11", "-O2", "-Wall", "-Wextra", "-Werror", "-static", "-s", "-Wl,--build-id=none")
_UNWANTED: Final = ("usr/share/", "etc/", "usr/include/", "var/", "usr/lib/x86_64-linux-gnu/gconv/")


def layer(name: str, ingredients: Iterable[str], build: Callable[[], Mapping[str, cpio.Entry]]) -> Path:
    """Return the cached archive called `name` made from `ingredients`, built if it is not there.

    `ingredients` are texts that change whenever the archive would. The code of this module, `cpio`, `kernels`
    and `python` counts as further ingredients.
    """
    recipe = hashlib.sha256()
    for source in ("cpio.py", "kernels.py", "layers.py", "python.py"):
        recipe.update((GUEST.parent / source).read_bytes())
    for ingredient in ingredients:
        recipe.update(ingredient.encode() + b"\0")
    path = lab_cache() / "layers" / f"{name}-{recipe.hexdigest()[:20]}.cpio"
    with locked(f"layer-{name}"):
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            scratch = path.with_suffix(".part")
            with scratch.open("wb") as archive:
                cpio.write(archive, build())
            scratch.rename(path)
    return path


def package_entries(packages: Iterable[str]) -> dict[str, cpio.Entry]:
    """Return the files of unpacked Debian packages, moved under /usr, without documentation."""
    entries: dict[str, cpio.Entry] = {}
    for package in packages:
        for name, entry in cpio.tree(unpacked(package)):
            target = f"usr/{name}" if name.split("/")[0] in MERGED else name
            if not target.startswith(_UNWANTED) and target not in MERGED:
                entries[target] = entry
    return entries


def base_layer(kernel: Kernel) -> Path:
    """Return the layer that every guest has: userland, the distribution's modules, and our init."""
    agent = compiled(GUEST / "lab.c")
    versions = [f"{package}={version}" for package, version in candidates(BASE_PACKAGES).items()]
    texts = [(GUEST / name).read_text() for name in ("init", "lab-say")]

    def build() -> dict[str, cpio.Entry]:
        say(f"lab: packing the guest's userland for Linux {kernel.release}")
        entries = package_entries(BASE_PACKAGES)
        busybox = unpacked("busybox-static") / "bin" / "busybox"
        present = {Path(name).name for name in entries if name.startswith(("usr/bin/", "usr/sbin/"))}
        for applet in run([str(busybox), "--list"]).split():
            if applet not in present:
                entries[f"usr/bin/{applet}"] = cpio.symlink("busybox")
        # The kernel asks for modules through this path.
        entries["usr/sbin/modprobe"] = cpio.symlink("../bin/busybox")
        entries.update({name: cpio.symlink(f"usr/{name}") for name in MERGED})
        for name in ("proc", "sys", "dev", "tmp", "run", "root", "etc"):
            entries[name] = cpio.directory()
        entries["dev/console"] = cpio.character_device(5, 1)
        entries["init"] = cpio.regular(GUEST / "init", executable=True)
        entries["usr/bin/lab-say"] = cpio.regular(GUEST / "lab-say", executable=True)
        entries["lab/bin/lab"] = cpio.regular(agent, executable=True)
        return entries | module_entries(kernel)

    image = kernel.vmlinux.parent.name if kernel.built is None else kernel.release
    return layer(f"base-{kernel.series}", [*versions, *texts, image, digest(agent)], build)


def compiled(source: Path) -> Path:
    """Return the static program built from a C file of the guest, or from a folder of them.

    Raises:
        LabError: there is no compiler, or it rejects the sources.
    """
    sources = [source] if source.is_file() else sorted(source.glob("*.c"))
    read = [*sources, *source.glob("*.h"), *LINK.glob("*.h")]
    compiler = run(["gcc", "--version"], hint="Install gcc and libc6-dev.").splitlines()[0]
    recipe = hashlib.sha256("".join([compiler, *map(digest, sorted(read))]).encode()).hexdigest()[:20]
    program = lab_cache() / "guest" / f"{source.stem}-{recipe}"
    with locked(f"guest-{source.stem}"):
        if not program.exists():
            program.parent.mkdir(parents=True, exist_ok=True)
            scratch = program.with_suffix(".part")
            run(["gcc", *_CFLAGS, f"-ffile-prefix-map={GUEST}=.", "-o", str(scratch), *map(str, sources)])
            scratch.rename(program)
    return program


def digest(path: Path | bytes) -> str:
    """Return the SHA-256 of a file's content, or of bytes, in hexadecimal."""
    if isinstance(path, bytes):
        return hashlib.sha256(path).hexdigest()
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise LabError(f"cannot read {path}: {error.strerror}") from error


def link_module(kernel: Kernel, name: str = "lablink") -> Path:
    """Return a module of `link/` for `kernel`, without debug information, built if the sources are new.

    Raises:
        LabError: the kernel's headers are missing, or the module does not build.
    """
    if kernel.built is not None:
        return kernel.built / f"{name}.ko"
    recipe = hashlib.sha256("".join(digest(path) for path in sorted(LINK.iterdir())).encode()).hexdigest()[
        :20
    ]
    target = lab_cache() / "lablink" / f"{kernel.release}-{recipe}"
    with locked(f"lablink-{kernel.release}"):
        if not target.is_dir():
            say(f"lab: building the link module for Linux {kernel.release}")
            with building(target) as scratch:
                for path in LINK.iterdir():
                    (scratch / path.name).write_bytes(path.read_bytes())
                run(
                    ["make", "-s", "-C", f"/lib/modules/{kernel.release}/build", f"M={scratch}", "modules"],
                    hint=f"Install linux-headers-{kernel.release}.",
                )
                for module in scratch.glob("*.ko"):
                    _strip(module)
    return target / f"{name}.ko"


def _strip(module: Path) -> None:
    # The rest of the file does not depend on the folder it was built in.
    run(["objcopy", "--strip-debug", "--remove-section=.note.gnu.build-id", str(module)])


def mutant_module(kernel: Kernel, repository: Path) -> Path:
    """Return tcp_mutant.ko for `kernel`, without debug information, built now if its sources are newer.

    Debug information would put the checkout's path into the file. Then runs would differ from checkout to
    checkout.

    Raises:
        LabError: the module cannot be built.
    """
    if kernel.built is not None:
        return kernel.built / "tcp_mutant.ko"
    module = repository / "kmod-mutant" / "build" / kernel.release / "tcp_mutant.ko"
    with locked(f"kmod-{kernel.release}"):
        run(
            ["make", "-s", "-C", str(repository / "kmod-mutant"), f"KVER={kernel.release}"],
            hint=f"Install linux-headers-{kernel.release}.",
        )
        target = lab_cache() / "tcp_mutant" / f"{kernel.release}-{digest(module)[:20]}"
        if not target.is_dir():
            with building(target) as scratch:
                shutil.copy(module, scratch)
                _strip(scratch / "tcp_mutant.ko")
    return target / "tcp_mutant.ko"
