# SPDX-License-Identifier: Apache-2.0
"""Python for the guest: Debian's interpreter, wheels pinned by hash, and the package itself.

Nothing of the host's Python gets in. Byte code is compiled ahead and never checked against its
source, so the guest spends no instructions on either.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ltp_switcher.cache import REPOSITORY
from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab import cpio
from ltp_switcher.eval.lab.layers import layer, package_entries
from ltp_switcher.eval.lab.packages import candidates, run, say

PACKAGES: Final = (
    "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "libexpat1", "libffi8",
    "libbz2-1.0", "liblzma5", "libssl3", "libuuid1", "libcrypt1", "libstdc++6", "libgcc-s1", "libsqlite3-0",
)  # fmt: skip

WHEELS: Final = ("numpy", "rich", "markdown-it-py", "mdurl", "pygments")
SERVICE_WHEELS: Final = (
    "annotated-doc", "annotated-types", "anyio", "certifi", "click", "fastapi", "h11", "httpcore", "httpx",
    "idna", "opentelemetry-api", "prometheus-client", "pydantic", "pydantic-core", "pyroute2", "starlette",
    "typing-extensions", "typing-inspection", "uvicorn",
)  # fmt: skip
"""Packages that the API and its clients import, with all packages on which these depend."""

PROJECT_FOLDERS: Final = ("daemon", "encoder", "mpts", "policies", "api")

_PIP: Final = (
    "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile", "--require-hashes",
    "--only-binary", ":all:", "--python-version", "3.11", "--platform", "manylinux_2_28_x86_64",
    "--platform", "manylinux_2_27_x86_64", "--platform", "manylinux2014_x86_64",
)  # fmt: skip
_SITE: Final = "usr/lib/python3/dist-packages"
_LOCK: Final = REPOSITORY / "requirements.lock"
# No program of the guest imports these; they are a third of the layer.
_UNWANTED: Final = re.compile(
    r"/(tests?|idlelib|lib2to3|ensurepip|pydoc_data|turtledemo|include|__pycache__)/|\.(pyi|pyx|pxd|a|exe)$"
    r"|/(RECORD|INSTALLER|WHEEL|REQUESTED|direct_url\.json)$"
    # Scripts that name the interpreter which fetched the wheels.
    r"|/dist-packages/bin/"
)
_PROJECT_SUFFIXES: Final = (".py", ".json", ".npz", ".npy", ".toml", ".typed", ".html", ".css", ".js", ".svg")


def python_layers(*, service: bool) -> list[Path]:
    """Return the layers that give a guest Python and the package; `service` adds the API's libraries.

    Raises:
        LabError: a package or wheel cannot be fetched, or the lock file lacks it.
    """
    layers = [_interpreter_layer(), _wheel_layer("wheels", WHEELS)]
    if service:
        layers.append(_wheel_layer("service", SERVICE_WHEELS))
    return [*layers, _project_layer()]


def _interpreter_layer() -> Path:
    versions = [f"{package}={version}" for package, version in candidates(PACKAGES).items()]

    def build() -> dict[str, cpio.Entry]:
        say("lab: packing the guest's Python")
        entries = {n: e for n, e in package_entries(PACKAGES).items() if not _UNWANTED.search(f"/{n}")}
        entries["usr/bin/python3"] = cpio.symlink("python3.11")
        return compiled(entries)

    return layer("python", [*versions, _UNWANTED.pattern], build)


def _wheel_layer(name: str, wheels: Iterable[str]) -> Path:
    pins = [_pin(wheel) for wheel in wheels]

    def build() -> dict[str, cpio.Entry]:
        say(f"lab: fetching {len(pins)} wheels for the guest ({name})")
        with tempfile.TemporaryDirectory(prefix="ltp-lab-") as folder:
            requirements = Path(folder) / "requirements.txt"
            requirements.write_text("\n".join(pins) + "\n")
            target = Path(folder) / "site"
            run(
                [
                    sys.executable,
                    "-m",
                    "pip",
                    "install",
                    *_PIP,
                    "--target",
                    str(target),
                    "-r",
                    str(requirements),
                ],
                hint="Check that the machine reaches its package index.",
            )
            entries = {
                path: cpio.Entry(entry.mode, entry.content())
                for path, entry in cpio.tree(target, _SITE)
                if not _UNWANTED.search(f"/{path}")
            }
        return compiled(entries)

    return layer(name, [*pins, _UNWANTED.pattern], build)


def _project_layer() -> Path:
    sources = {"ltp_switcher": REPOSITORY / "src" / "ltp_switcher"}
    sources |= {f"ltp_switcher/{folder}": REPOSITORY / folder for folder in PROJECT_FOLDERS}
    entries: dict[str, cpio.Entry] = {}
    for name, folder in sources.items():
        for path in sorted(folder.rglob("*")):
            if (
                path.suffix in _PROJECT_SUFFIXES
                and path.is_file()
                and not path.is_relative_to(folder / "build")
            ):
                target = f"{_SITE}/{name}/{path.relative_to(folder)}"
                entries[target] = cpio.regular(path.read_bytes())
    state = hashlib.sha256()
    for target, entry in sorted(entries.items()):
        state.update(f"{target}\0{len(entry.data) if isinstance(entry.data, bytes) else 0}\0".encode())
        state.update(entry.content())
    return layer("project", [state.hexdigest()], lambda: compiled(entries))


def _pin(wheel: str) -> str:
    """Return the lock file's requirement for one package, its hashes included."""
    try:
        lock = _LOCK.read_text()
    except OSError as error:
        raise LabError(f"cannot read {_LOCK.name}: {error.strerror}") from error
    found = re.search(rf"^{re.escape(wheel)}==.*?(?=^\S|\Z)", lock, re.MULTILINE | re.DOTALL)
    if not found:
        raise LabError(f"{_LOCK.name} pins no {wheel}, which the guest needs")
    return found[0].rstrip()


def compiled(entries: dict[str, cpio.Entry]) -> dict[str, cpio.Entry]:
    """Add byte code for every `.py` file, made by the guest's own interpreter.

    Raises:
        LabError: the interpreter does not run on this machine.
    """
    with tempfile.TemporaryDirectory(prefix="ltp-lab-") as name:
        root = Path(name) / "root"
        for path, entry in entries.items():
            if path.endswith(".py"):
                target = root / path
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(entry.content())
        interpreter = _interpreter(Path(name))
        done = subprocess.run(
            [*interpreter, "-m", "compileall", "-q", "-f", "--invalidation-mode", "unchecked-hash",
             "-s", str(root), "-p", "/", str(root)],
            env={"PYTHONHOME": str(Path(name) / "home"), "PYTHONHASHSEED": "0"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode and not list(root.rglob("*.pyc")):
            raise LabError(f"the guest's Python does not run here:\n{done.stderr[-1000:]}")
        code = {
            str(path.relative_to(root)): cpio.regular(path.read_bytes())
            for path in sorted(root.rglob("*.pyc"))
        }
    return entries | code


def _interpreter(folder: Path) -> list[str]:
    """Lay Debian's Python out under `folder`/home and return the command that runs it."""
    home = folder / "home"
    for path, entry in package_entries((*PACKAGES, "libc6", "zlib1g")).items():
        relative = path.removeprefix("usr/")
        target = home / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        if entry.mode & 0o170000 == 0o120000:
            target.symlink_to(entry.content().decode())
        elif entry.mode & 0o170000 == 0o100000:
            target.write_bytes(entry.content())
            target.chmod(entry.mode & 0o777)
    loader = home / "lib" / "x86_64-linux-gnu" / "ld-linux-x86-64.so.2"
    return [str(loader), "--library-path", str(loader.parent), str(home / "bin" / "python3.11")]
