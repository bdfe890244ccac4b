# SPDX-License-Identifier: Apache-2.0
"""A Debian release as a place to build for its kernel: the tree, the build, and the kernel for the lab."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from support.module_lab import PROBE, REPOSITORY

from ltp_switcher.cache import cache_dir
from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab.kernels import uncompressed
from ltp_switcher.eval.lab.packages import building, locked, run, say

CACHE: Final = cache_dir() / "kernels"
# The kernel with its headers, and what building a module takes.
PACKAGES: Final = (
    "linux-image-amd64", "linux-headers-amd64", "gcc", "make", "base-files", "bash", "dash", "coreutils",
    "diffutils", "findutils", "grep", "sed", "mawk", "perl", "perl-base", "xz-utils", "tar", "util-linux",
    "libc-bin",
)  # fmt: skip
# The archive that this machine reaches may be some weeks old.
OLD_ARCHIVE: Final = 'Acquire::Check-Valid-Until "false"'
CHROOT: Final = """
set -e
mount -t proc proc "$1/proc"
mount --bind "$2" "$1/mnt"
exec chroot "$1" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin make -C "/mnt/$3" "${@:4}"
"""
MODULE: Final = REPOSITORY / "kmod-mutant"
LINK: Final = REPOSITORY / "eval/lab/link"


@dataclass(frozen=True, slots=True)
class Release:
    """A release: the name of its kernel in the lab, and of its suite in the archive."""

    name: str
    suite: str


RELEASES: Final = (Release("debian13", "trixie"), Release("unstable", "sid"))


def tree(release: Release) -> Path:
    """Return the unpacked release, made first if it is missing. Raises `LabError`."""
    place = CACHE / "trees" / release.suite
    with locked(f"kernel-tree-{release.suite}"):
        if not place.is_dir():
            say(f"kernels: unpacking the compiler, the headers and the kernel of {release.suite}")
            with building(place) as scratch:
                run([
                    "mmdebstrap", "--quiet", "--variant=extract", f"--aptopt={OLD_ARCHIVE}",
                    f"--include={','.join(PACKAGES)}", release.suite, str(scratch / "root"),
                ])  # fmt: skip
                # Maintainer scripts, which do not run here, would choose it.
                (scratch / "root/usr/bin/awk").symlink_to("mawk")
                for name in ("proc", "mnt"):
                    (scratch / "root" / name).mkdir(exist_ok=True)
    return place / "root"


def kernel_of(root: Path) -> str:
    """The release (uname -r) of the one kernel in a tree. Raises `LabError`."""
    found = [path.parent.name for path in (root / "usr/lib/modules").glob("*/build")]
    if len(found) != 1:
        raise LabError(f"{root} has {len(found)} kernels with headers")
    return found[0]


def make(root: Path, work: Path, folder: str, *arguments: str) -> str:
    """Run make in the tree, in a folder of `work`; return what it printed. Raises `LabError`."""
    command = ["unshare", "-m", "bash", "-c", CHROOT, "make", str(root), str(work), folder, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    printed = done.stdout + done.stderr
    if done.returncode:
        tail = "\n".join(printed.splitlines()[-15:])
        raise LabError(f"the module does not build for {kernel_of(root)}:\n{tail}")
    return printed


def warnings(printed: str) -> list[str]:
    """The compiler's warnings in what make printed."""
    return re.findall(r".*(?:warning|WARNING):.*", printed)


def prepare(release: Release, folder: Path) -> list[str]:
    """Build for a release's kernel, and put it into `folder` for the lab. Returns the build's warnings.

    Raises:
        LabError: the packages cannot be had, or a module does not build.
    """
    root = tree(release)
    kernel = kernel_of(root)
    place = folder / release.name
    shutil.rmtree(place, ignore_errors=True)
    work, built = place / "work", place / "built"
    built.mkdir(parents=True)
    ignored = shutil.ignore_patterns("build", "tests", "tools")
    shutil.copytree(MODULE, work / "mutant", ignore=ignored)
    shutil.copytree(LINK, work / "link")
    shutil.copytree(PROBE, work / "probe")
    found = warnings(make(root, work, "mutant", f"KVER={kernel}", "W=1"))
    headers = f"/usr/lib/modules/{kernel}/build"
    for name in ("link", "probe"):
        make(root, work, name, "-C", headers, f"M=/mnt/{name}", "modules")
    for module in work.rglob("*.ko"):
        shutil.copy(module, built)
    for module in built.glob("*.ko"):
        run(["objcopy", "--strip-debug", "--remove-section=.note.gnu.build-id", str(module)])
    modules = root / "usr/lib/modules" / kernel
    # The link leads out of the tree unless it is followed inside.
    link = (modules / "build").readlink()
    inside = root / str(link).lstrip("/") if link.is_absolute() else modules / link
    shutil.copy(inside / "Module.symvers", built)
    images = (modules / "vmlinuz", root / f"boot/vmlinuz-{kernel}")
    image = next((path for path in images if path.exists()), None)
    if image is None:
        raise LabError(f"the package of {kernel} has no image")
    (place / "vmlinux").write_bytes(uncompressed(image))
    (place / "modules").mkdir()
    (place / "modules" / kernel).symlink_to(modules)
    (place / "release").write_text(kernel)
    shutil.rmtree(work)
    return found
