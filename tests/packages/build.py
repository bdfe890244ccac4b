# SPDX-License-Identifier: Apache-2.0
"""The packages that a machine gets: of this tree, of an earlier revision, and a newer build of Python."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
CACHE: Final = Path(os.environ.get("LTP_CACHE", ROOT / ".cache")) / "packages"
# The first revision whose API outwaits a restart of the daemon on the slow emulated processor.
FIRST: Final = "f94a1c6"
# Nothing of these reaches a package.
APART: Final = ("tests/", "docs/lab-notes/", "docs/img/", ".ci/", "eval/", "kmod-mutant/tests/", "Makefile")
OLDER: Final = "0.0.9"


@dataclass(frozen=True)
class Release:
    """A release of Debian."""

    number: int
    suite: str
    python: str

    @property
    def name(self) -> str:
        """Name of the release, as people call it."""
        return f"Debian {self.number}"


RELEASES: Final = (Release(12, "bookworm", "3.11"), Release(13, "trixie", "3.13"))


class FailedError(Exception):
    """A command failed. The message has the end of its output."""


def run(*command: str | Path, cwd: Path = ROOT, log: Path | None = None) -> str:
    """Output of a command, which is kept in `log` too. Raises `FailedError`."""
    done = subprocess.run(
        command,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, "LTP_CACHE": str(CACHE.parent)},
    )
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(done.stdout)
    if done.returncode != 0:
        raise FailedError(f"{' '.join(map(str, command))} failed:\n{done.stdout[-3000:]}")
    return done.stdout


def key(*parts: str | bytes) -> str:
    """A short name for inputs: the same inputs have the same name."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:16]


def key_of_files(root: Path, names: Iterable[str]) -> str:
    """The name for the content of files below `root`."""
    parts: list[str | bytes] = []
    for name in sorted(names):
        if (root / name).is_file():
            parts += [name, (root / name).read_bytes()]
    return key(*parts)


def key_of_tree(root: Path = ROOT) -> str:
    """The name for all files of the working tree that reach a package."""
    names = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=root).splitlines()
    return key_of_files(
        root, (name for name in names if not name.startswith(APART) and not name.endswith("/README.md"))
    )


def version() -> str:
    """The version of this tree."""
    (found,) = re.findall(
        r'^__version__ = "(.*)"$', (ROOT / "src/ltp_switcher/__init__.py").read_text(), re.M
    )
    return str(found)


def packages_of_this_tree(release: Release) -> Path:
    """Folder with the packages N. Raises `FailedError`, also if lintian has complaints."""
    place = CACHE / "debs" / f"{release.number}-{key_of_tree()}"
    if not place.exists():
        _build(ROOT, release, version(), place)
    return place


def packages_of(release: Release, revision: str) -> Path:
    """Folder with the packages N-1: an earlier revision, as version `OLDER`. Raises `FailedError`."""
    commit = run("git", "rev-parse", "--verify", f"{revision}^{{commit}}").strip()
    place = CACHE / "debs" / f"{release.number}-{commit[:16]}"
    if not place.exists():
        with tempfile.TemporaryDirectory() as folder:
            tree = Path(folder)
            run("git", "archive", "-o", tree / "tree.tar", commit)
            run("tar", "-xf", "tree.tar", cwd=tree)
            (tree / "tree.tar").unlink()
            (tree / ".venv").symlink_to(ROOT / ".venv")
            # The build asks git for the files and for the time of the last commit.
            run("git", "init", "-q", cwd=tree)
            run("git", "add", "-A", cwd=tree)
            somebody = ("-c", "user.name=test", "-c", "user.email=test@localhost")
            run("git", *somebody, "commit", "-qm", commit, cwd=tree)
            _build(tree, release, OLDER, place)
    return place


def _build(tree: Path, release: Release, numbered: str, place: Path) -> None:
    partial = place.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    run(
        "packaging/deb.sh", "--release", str(release.number), "--version", numbered, "--out", partial,
        cwd=tree, log=place.with_suffix(".log"),
    )  # fmt: skip
    partial.rename(place)


def newer_python(debs: Iterable[Path], out: Path) -> None:
    """Debian's own packages of Python once more, as an update of them: a higher version, the same files."""
    out.mkdir(parents=True, exist_ok=True)
    for deb in debs:
        with tempfile.TemporaryDirectory() as folder:
            run("dpkg-deb", "-R", deb, folder)
            control = Path(folder, "DEBIAN/control")
            control.write_text(raised(control.read_text()))
            run("dpkg-deb", "-b", "-Zgzip", "-z1", folder, out / f"{deb.stem}+update.deb")


def raised(control: str) -> str:
    """The control file of a package with a higher version; it depends on others of the same version."""
    (now,) = re.findall(r"^Version: (.*)$", control, re.M)
    return control.replace(f"Version: {now}", f"Version: {now}+update").replace(
        f"(= {now})", f"(= {now}+update)"
    )


def sizes(folder: Path) -> dict[str, tuple[int, int]]:
    """Sizes of each package in a folder: bytes of the file, and KiB installed."""
    found = {}
    for deb in sorted(folder.glob("*.deb")):
        name, kib = run("dpkg-deb", "--showformat=${Package} ${Installed-Size}", "-W", deb).split()
        found[name] = (deb.stat().st_size, int(kib))
    return found
