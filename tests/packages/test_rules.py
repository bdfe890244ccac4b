# SPDX-License-Identifier: Apache-2.0
"""`debian/rules` alone, without wheels: how each unit starts, restarts and stops with its package."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from packages import build

PACKAGING = build.ROOT / "packaging"
UNITS = {
    "ltp-switcher": (
        "ltp-switcher.socket", "ltp-switcher.service", "ltp-switcher-use.path",
        "ltp-switcher-use.service", "ltp-switcher-network.service", "ltp-switcher-fleet.service",
    ),
    "ltp-switcher-api": ("ltp-switcher-api.socket", "ltp-switcher-api.service"),
    "ltp-owl-agent": ("ltp-owl-agent.service",),
}  # fmt: skip
UNITS_BEFORE_0_1 = {"ltp-switcher.socket", "ltp-switcher.service", "ltp-switcher-network.service"}
CHANGELOG = """\
ltp-switcher (1) bookworm; urgency=medium

  * None.

 -- A <a@localhost>  Tue, 24 Nov 2026 02:52:29 +0000
"""

pytestmark = pytest.mark.skipif(not shutil.which("dh_installsystemd"), reason="needs apt install debhelper")


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The parts of the maintainer scripts about units, by PACKAGE.SCRIPT."""
    tree = tmp_path_factory.mktemp("tree")
    shutil.copytree(PACKAGING / "debian", tree / "debian")
    (tree / "debian/changelog").write_text(CHANGELOG)
    for package, units in UNITS.items():
        place = tree / f"debian/{package}/lib/systemd/system"
        place.mkdir(parents=True)
        for unit in units:
            shutil.copy(PACKAGING / "systemd" / unit, place)
    done = subprocess.run(
        ["make", "-f", "debian/rules", "override_dh_installsystemd"],
        cwd=tree, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    generated = (tree / "debian/.debhelper/generated").rglob("*.service")
    return {f"{path.parent.name}.{path.stem}": path.read_text() for path in generated}


def test_every_unit_of_the_folder_is_known() -> None:
    known = sorted(unit for units in UNITS.values() for unit in units)
    assert known == sorted(path.name for path in (PACKAGING / "systemd").glob("*.[sp]*[ceth]"))


@pytest.mark.parametrize(("package", "unit"), [(p, unit) for p, units in UNITS.items() for unit in units])
def test_a_unit_stops_with_its_package_and_not_at_an_upgrade(
    scripts: dict[str, str], package: str, unit: str
) -> None:
    assert f"deb-systemd-invoke stop '{unit}'" in scripts[f"{package}.prerm"]
    assert '"$1" = remove' in scripts[f"{package}.prerm"]
    assert unit not in scripts.get(f"{package}.preinst", ""), "an upgrade stops it, and does not start it"


@pytest.mark.parametrize(("package", "unit"), [(p, unit) for p, units in UNITS.items() for unit in units])
def test_an_upgrade_restarts_a_service_and_leaves_a_socket_alone(
    scripts: dict[str, str], package: str, unit: str
) -> None:
    lines = scripts[f"{package}.postinst"].splitlines()
    (line,) = [line for line in lines if "deb-systemd-invoke" in line and f"'{unit}'" in line]
    assert ("$_dh_action" in line) == (not unit.endswith(".socket"))


@pytest.mark.parametrize("package", ["ltp-switcher", "ltp-switcher-api"])
def test_a_removal_takes_the_folder_of_the_socket_away(package: str) -> None:
    """systemd makes it and leaves it. A machine of `make test-packages` shows that it goes."""
    lines = (PACKAGING / f"systemd/{package}.socket").read_text().splitlines()
    (path,) = [line.removeprefix("ListenStream=") for line in lines if line.startswith("ListenStream=")]
    assert f"rmdir {path.rpartition('/')[0]} " in (PACKAGING / f"debian/{package}.postrm").read_text()


@pytest.mark.parametrize(
    ("other", "lacks_them"), [("0.0.9+deb12u1", True), ("0.1.0+deb12u1", False), ("0.2.0+deb13u1", False)]
)
def test_a_rollback_leaves_no_unit_enabled_that_the_older_version_lacks(
    other: str, lacks_them: bool, tmp_path: Path
) -> None:
    forgotten = set(UNITS["ltp-switcher"]) - UNITS_BEFORE_0_1 if lacks_them else set()
    told = tmp_path / "told"
    stub = tmp_path / "deb-systemd-helper"
    stub.write_text(f'#!/bin/sh\necho "$@" >>{told}\n')
    stub.chmod(0o755)
    script = ["sh", str(PACKAGING / "debian/ltp-switcher.postrm"), "upgrade", other]
    subprocess.run(script, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True)
    lines = told.read_text().splitlines() if told.exists() else []
    assert {line.removeprefix("purge ") for line in lines if line.startswith("purge ")} == forgotten
    assert {line.removeprefix("unmask ") for line in lines if line.startswith("unmask ")} == forgotten


@pytest.mark.parametrize(
    ("next_version", "removed"),
    [("0.0.9+deb13u1", True), ("0.1.0+deb13u1", False), ("0.1.0+deb13u2", False), ("0.2.0+deb13u1", False)],
)
def test_a_rollback_removes_the_newer_module_and_an_upgrade_leaves_the_older(
    next_version: str, removed: bool, tmp_path: Path
) -> None:
    script = (PACKAGING / "debian/ltp-switcher-dkms.prerm").read_text().replace("@VERSION@", "0.1.0")
    script = script.replace("#DEBHELPER#", "echo dkms remove")
    done = subprocess.run(
        ["sh", "-c", script, "prerm", "upgrade", next_version],
        env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == (["dkms", "remove"] if removed else [])


@pytest.mark.parametrize(
    "unit", sorted((PACKAGING / "systemd").glob("*.service")), ids=lambda unit: unit.name
)
def test_no_protection_of_systemd_wins_over_what_a_unit_writes(unit: Path) -> None:
    """Of two entries for one path systemd takes the stricter (systemd.exec(5), ProtectKernelTunables)."""
    lines = unit.read_text().splitlines()
    written = {
        path.lstrip("-+")
        for line in lines
        if line.startswith("ReadWritePaths=")
        for path in line.split("=")[1].split()
    }
    if "ProtectKernelTunables=yes" in lines:
        own = {"/sys", "/proc/sys", "/sys/fs/bpf", "/sys/kernel/debug", "/sys/kernel/tracing"}
        assert not written & own
