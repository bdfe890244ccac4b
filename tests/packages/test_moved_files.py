# SPDX-License-Identifier: Apache-2.0
"""A file that moves from one package to another stops no upgrade: `dpkg` alone, in a folder of its own."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from packages import build

CONTROL = build.ROOT / "packaging/debian/control"
FOLDER = "usr/lib/ltp-switcher/python"
DAEMON, API = "ltp-switcher", "ltp-switcher-api"

pytestmark = pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="needs dpkg")


def relations(package: str, version: str) -> str:
    """What our control file says of a package's relation to others, but for what it needs."""
    (found,) = re.findall(rf"^Package: {package}\n(.*?)(?:\n\n|\Z)", CONTROL.read_text(), re.M | re.S)
    lines = [line for line in found.splitlines() if re.match("Breaks|Replaces|Conflicts", line)]
    return "".join(f"{line}\n" for line in lines).replace("${binary:Version}", version)


def deb(folder: Path, package: str, version: str, files: Sequence[str]) -> Path:
    """Build a package with these files, which hold its name and version."""
    tree = folder / f"{package}-{version}"
    for name in files:
        (tree / FOLDER / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / FOLDER / name).write_text(f"{package} {version}")
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(
        f"Package: {package}\nVersion: {version}\nArchitecture: all\nMaintainer: A <a@localhost>\n"
        f"{relations(package, version)}Description: a\n"
    )
    built = folder / f"{package}_{version}.deb"
    subprocess.run(["dpkg-deb", "-b", "-Znone", "--root-owner-group", tree, built], check=True)
    return built


def install(root: Path, debs: Sequence[Path]) -> subprocess.CompletedProcess[str]:
    """Install packages in this order, as apt does."""
    # A folder is no machine: it has no ldconfig, and our maintainer scripts are not there.
    options = [f"--root={root}", "--force-not-root", "--force-script-chrootless", "--force-bad-path"]
    command = ["dpkg", *options, "--auto-deconfigure", "-i", *map(str, debs)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("order", [(DAEMON, API), (API, DAEMON)])
@pytest.mark.parametrize(
    "later",
    [
        {DAEMON: ["numpy/a.py"], API: ["fastapi/a.py", "pyroute2/a.py"]},
        {DAEMON: ["numpy/a.py", "pyroute2/a.py", "fastapi/a.py"], API: []},
    ],
)
def test_an_upgrade_takes_each_file_from_the_package_that_has_it_now(
    tmp_path: Path, order: tuple[str, str], later: Mapping[str, Sequence[str]]
) -> None:
    earlier = {DAEMON: ["numpy/a.py", "pyroute2/a.py"], API: ["fastapi/a.py"]}
    root = tmp_path / "root"
    for name in ("info", "updates", "status", "available"):
        place = root / "var/lib/dpkg" / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch() if name in ("status", "available") else place.mkdir()
    first = install(root, [deb(tmp_path, package, "1", earlier[package]) for package in (DAEMON, API)])
    assert first.returncode == 0, first.stderr
    second = install(root, [deb(tmp_path, package, "2", later[package]) for package in order])
    assert second.returncode == 0, second.stderr
    found = {str(path.relative_to(root / FOLDER)): path.read_text() for path in (root / FOLDER).rglob("*.py")}
    assert found == {name: f"{package} 2" for package, names in later.items() for name in names}
