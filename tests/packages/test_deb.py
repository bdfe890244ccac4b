# SPDX-License-Identifier: Apache-2.0
"""`make deb`: the packages can be built, and hold all files. A machine tests how they work."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from packages import build

UNITS = build.ROOT / "packaging/systemd"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def debs() -> dict[str, Path]:
    """The packages for Debian 12 of this tree, by name."""
    build.run(".ci/install-packages", "debhelper", "dh-dkms", "lintian")
    folder = build.packages_of_this_tree(build.RELEASES[0])
    return {deb.name.split("_")[0]: deb for deb in folder.glob("*.deb")}


def files(deb: Path) -> set[str]:
    listed = subprocess.run(["dpkg-deb", "-c", deb], capture_output=True, text=True, check=True).stdout
    return {line.split()[5].removeprefix(".") for line in listed.splitlines()}


def test_every_unit_is_in_one_package(debs: dict[str, Path]) -> None:
    assert set(debs) == {"ltp-switcher", "ltp-switcher-api", "ltp-switcher-dkms", "ltp-owl-agent"}
    found = sorted(
        Path(name).name
        for deb in debs.values()
        for name in files(deb)
        if name.startswith("/usr/lib/systemd/system/") and not name.endswith("/")
    )
    assert found == sorted(path.name for path in UNITS.iterdir() if path.suffix != ".sysusers")


def test_everything_is_below_usr_or_etc(debs: dict[str, Path]) -> None:
    tops = {name.split("/")[1] for deb in debs.values() for name in files(deb)} - {""}
    assert tops <= {"usr", "etc"}, "Debian 13's folder lib is a link"
