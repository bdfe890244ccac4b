# SPDX-License-Identifier: Apache-2.0
"""Debian packages as the lab's raw material: fetched with apt, unpacked in the cache, never installed."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ltp_switcher.cache import cache_dir
from ltp_switcher.errors import LabError

_SAID: Final[set[str]] = set()
_SAYING: Final = threading.Lock()


def lab_cache() -> Path:
    """Return the folder of the lab's part of the cache."""
    return cache_dir() / "lab"


def say(text: str) -> None:
    """Report progress on the terminal. The same text appears once, even if several runs report it."""
    with _SAYING:
        if text not in _SAID:
            _SAID.add(text)
            print(text, file=sys.stderr, flush=True)


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Lock the part of the cache called `name`, so that one process at a time builds it."""
    folder = lab_cache() / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def building(target: Path) -> Iterator[Path]:
    """Give a scratch folder that becomes `target` when the block ends without an error.

    So a folder in the cache is complete or missing.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        yield scratch
        scratch.chmod(0o755)
        scratch.rename(target)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def run(command: list[str], *, cwd: Path | None = None, hint: str = "") -> str:
    """Run a program and return its standard output.

    Raises:
        LabError: the program is missing or fails; the message has the end of its output and `hint`.
    """
    try:
        done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise LabError(f"{command[0]} is not installed. {hint}".rstrip()) from error
    if done.returncode:
        tail = "\n".join((done.stderr + done.stdout).strip().splitlines()[-12:])
        raise LabError(
            f"`{' '.join(command[:6])}` failed with status {done.returncode}:\n{tail}\n{hint}".rstrip()
        )
    return done.stdout


_candidates: Final[dict[str, str]] = {}


def candidates(packages: tuple[str, ...]) -> Mapping[str, str]:
    """Return, by package, the version that apt would install. A process asks apt once for each package.

    Raises:
        LabError: apt does not know one of the packages.
    """
    found = _candidates
    package = ""
    unknown = [package for package in packages if package not in found]
    for line in run(["apt-cache", "policy", *unknown]).splitlines() if unknown else ():
        if not line.startswith(" "):
            package = line.removesuffix(":")
        key, _, value = line.strip().partition(": ")
        if key == "Candidate" and value != "(none)":
            found[package] = value
    for package in packages:
        if package not in found:
            raise LabError(f"apt knows no package {package}. Run `apt-get update`, then try again.")
    return {package: found[package] for package in packages}


def unpacked(package: str) -> Path:
    """Return the folder of the unpacked candidate version of `package`; fetch it first if it is missing.

    Raises:
        LabError: the package cannot be fetched.
    """
    version = candidates((package,))[package]
    target = lab_cache() / "packages" / f"{package}_{version.replace(':', '%3a')}"
    if target.is_dir():
        return target
    with locked(f"package-{package}"):
        if target.is_dir():
            return target
        say(f"lab: fetching {package} {version}")
        with building(target) as scratch, tempfile.TemporaryDirectory(dir=target.parent) as folder:
            # apt drops root for downloads, and its user must be able to write here.
            Path(folder).chmod(0o777)
            run(
                ["apt-get", "download", "-q", f"{package}={version}"],
                cwd=Path(folder),
                hint="Run `apt-get update`, and check that the machine reaches its Debian mirror.",
            )
            for deb in Path(folder).glob("*.deb"):
                run(["dpkg-deb", "-x", str(deb), str(scratch)])
    return target
