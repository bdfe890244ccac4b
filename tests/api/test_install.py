# SPDX-License-Identifier: Apache-2.0
"""`make install` into a directory: the files land, systemd accepts the units, all of it can be removed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from support.module_lab import EACH_KERNEL

import ltp_switcher

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGING = REPOSITORY / "packaging"
MODULE = f"tcp_mutant-{ltp_switcher.__version__}"

pytestmark = pytest.mark.lab


def run(*command: str | Path, umask: int = -1, **variables: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **{name: str(value) for name, value in variables.items()}}
    return subprocess.run(command, env=environment, umask=umask, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with everything installed, as by a root whose umask lets nobody in."""
    root = tmp_path_factory.mktemp("root")
    done = run(PACKAGING / "install.sh", umask=0o077, DESTDIR=root)
    assert done.returncode == 0, done.stderr
    return root


def test_what_lands_where(staged: Path) -> None:
    for path in (
        f"usr/src/{MODULE}/mutant_main.c",
        f"usr/src/{MODULE}/include/uapi/linux/mutant.h",
        "usr/lib/ltp-switcher/current/bin/python3",
        "usr/lib/ltp-switcher/current/choose.bpf.o",
        "usr/lib/systemd/system/ltp-switcher.service",
        "usr/lib/systemd/system/ltp-switcher-api.service",
        "usr/lib/systemd/system/ltp-switcher.socket",
        "usr/lib/systemd/system/ltp-switcher-api.socket",
        "usr/lib/systemd/system/ltp-switcher-network.service",
        "usr/lib/systemd/system/ltp-switcher-use.path",
        "usr/lib/systemd/system/ltp-switcher-use.service",
        "usr/lib/sysusers.d/ltp-switcher.conf",
        "usr/share/ltp-switcher-api/prometheus/alerts.yml",
        "usr/share/ltp-switcher-api/prometheus/rules.yml",
        "usr/share/ltp-switcher-api/grafana/ltp-switcher.json",
        "usr/share/doc/ltp-switcher/operations.md",
        "usr/share/doc/ltp-switcher/config.example.toml",
        "etc/ltp-switcher/config.toml",
    ):
        assert (staged / path).exists(), path
    assert (
        f'PACKAGE_VERSION="{ltp_switcher.__version__}"'
        in (staged / f"usr/src/{MODULE}/dkms.conf").read_text()
    )


def test_the_services_users_may_read_it_all(staged: Path) -> None:
    for path in (path for path in staged.rglob("*") if not path.is_symlink()):
        wanted = 0o555 if path.is_dir() else 0o444
        assert path.stat().st_mode & wanted == wanted, path


def test_nothing_tells_of_the_staging_directory(staged: Path) -> None:
    for path in (staged / "usr/lib/ltp-switcher/current/bin").iterdir():
        assert path.is_symlink() or str(staged) not in path.read_text(errors="replace"), path
    assert str(staged) not in (staged / "usr/lib/ltp-switcher/current/pyvenv.cfg").read_text()


def test_a_server_gets_no_build_tools(staged: Path) -> None:
    (site,) = (staged / "usr/lib/ltp-switcher/current/lib").glob("python3*/site-packages")
    present = {re.split(r"-\d", path.name)[0] for path in site.glob("*.dist-info")}
    assert {"numpy", "fastapi", "uvicorn", "rich", "ltp_switcher"} <= present
    assert (site / "ltp_switcher/encoder/weights/encoder.npz").exists()
    assert not present & {"pip", "setuptools", "hatchling", "pytest", "matplotlib", "torch"}


@pytest.mark.parametrize(
    "command", ["ltp-switcher", "ltp-switcher-fleet", "ltp-switcher-api", "ltp-owl-agent"]
)
def test_commands_run(staged: Path, command: str) -> None:
    done = run(staged / "usr/bin" / command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert command in done.stdout


def test_systemd_takes_the_units(staged: Path, tmp_path: Path) -> None:
    for unit in (staged / "usr/lib/systemd/system").iterdir():
        text = unit.read_text().replace("=/usr/bin/ltp", f"={staged}/usr/bin/ltp")
        (tmp_path / unit.name).write_text(text)
    # The colon at the end adds systemd's own units, which ours name.
    done = run("systemd-analyze", "verify", *tmp_path.iterdir(), SYSTEMD_UNIT_PATH=f"{tmp_path}:")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "unit",
    ["ltp-switcher", "ltp-switcher-api", "ltp-switcher-use", "ltp-switcher-network", "ltp-switcher-fleet"],
)
def test_units_are_confined(unit: str) -> None:
    done = run(
        "systemd-analyze", "security", "--offline=true", "--threshold=20",
        PACKAGING / f"systemd/{unit}.service",
    )  # fmt: skip
    print(done.stdout.splitlines()[-1])
    assert done.returncode == 0, done.stdout


def test_no_service_has_more_capabilities_than_it_needs() -> None:
    unit = (PACKAGING / "systemd/ltp-switcher.service").read_text()
    assert re.findall(r"^\w*Capabilit\w+=(.*)$", unit, re.MULTILINE) == ["CAP_NET_ADMIN", "CAP_NET_ADMIN"]
    api = (PACKAGING / "systemd/ltp-switcher-api.service").read_text()
    assert re.findall(r"^\w*Capabilit\w+=(.*)$", api, re.MULTILINE) == ["", ""]
    use = (PACKAGING / "systemd/ltp-switcher-use.service").read_text()
    assert re.findall(r"^\w*Capabilit\w+=(.*)$", use, re.MULTILINE) == ["CAP_BPF CAP_PERFMON CAP_NET_ADMIN"]


def environments(root: Path) -> set[str]:
    return {path.name for path in (root / "usr/lib/ltp-switcher").iterdir()} - {"current", "launch"}


def test_a_python_that_is_gone_is_named(staged: Path, tmp_path: Path) -> None:
    lib = tmp_path / "lib/ltp-switcher"
    (lib / "one/bin").mkdir(parents=True)
    (lib / "current").symlink_to("one")
    (lib / "one/bin/python3").symlink_to("/usr/bin/python3.0")
    shutil.copy(staged / "usr/lib/ltp-switcher/launch", lib)
    (tmp_path / "ltp-switcher").symlink_to(lib / "launch")
    done = run(tmp_path / "ltp-switcher", "status")
    assert done.returncode == 1
    assert "ltp-switcher: its Python (/usr/bin/python3.0) is gone" in done.stderr
    assert "make install" in done.stderr


def test_an_environment_names_its_python_by_version(staged: Path) -> None:
    python = staged / "usr/lib/ltp-switcher/current/bin/python3"
    assert re.fullmatch(r"python3\.\d+", python.resolve().name)
    while python.is_symlink():
        python = python.parent / python.readlink()
        assert python != Path("/usr/bin/python3"), "this one changes with the system"


def test_an_installation_that_fails_changes_nothing(staged: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(staged, root, symlinks=True)
    before = {path: path.lstat().st_mtime_ns for path in root.rglob("*") if not path.is_dir()}
    done = run(PACKAGING / "install.sh", DESTDIR=root, PIP_NO_INDEX="1")
    assert done.returncode != 0
    assert {path: path.lstat().st_mtime_ns for path in root.rglob("*") if not path.is_dir()} == before
    assert environments(root) == environments(staged)
    assert run(root / "usr/bin/ltp-switcher", "--version").returncode == 0


def test_install_again_keeps_the_configuration_and_the_environment_in_use(staged: Path) -> None:
    (first,) = environments(staged)
    config = staged / "etc/ltp-switcher/config.toml"
    before = config.read_text()
    config.write_text('[daemon]\nmode = "advise"\n')
    # As a version that is two upgrades old.
    (staged / "usr/lib/ltp-switcher/0.0.1").mkdir()
    done = run(PACKAGING / "install.sh", DESTDIR=staged)
    assert done.returncode == 0, done.stderr
    assert "configuration kept" in done.stdout
    assert config.read_text() == '[daemon]\nmode = "advise"\n'
    current = (staged / "usr/lib/ltp-switcher/current").readlink().name
    assert environments(staged) == {first, current}
    assert first != current
    config.write_text(before)


@pytest.mark.parametrize("series", EACH_KERNEL)
def test_dkms_builds_what_is_installed(staged: Path, tmp_path: Path, series: str) -> None:
    (tmp_path / "tree").mkdir()
    kernel = run(REPOSITORY / ".ci/kernel-release", series).stdout.strip()
    done = run(
        "dkms", "build", "--dkmstree", tmp_path / "tree", "--sourcetree", staged / "usr/src",
        "-m", f"tcp_mutant/{ltp_switcher.__version__}", "-k", kernel,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert list((tmp_path / "tree").glob(f"tcp_mutant/*/{kernel}/*/module/tcp_mutant.ko*"))


def test_uninstall_keeps_configuration_unless_purged(staged: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(staged, root, symlinks=True)
    assert run(PACKAGING / "uninstall.sh", DESTDIR=root).returncode == 0
    left = [path.relative_to(root) for path in root.rglob("*") if not path.is_dir()]
    assert left == [Path("etc/ltp-switcher/config.toml")]
    assert run(PACKAGING / "uninstall.sh", "--purge", DESTDIR=root).returncode == 0
    assert [path for path in root.rglob("*") if not path.is_dir()] == []
    assert run(PACKAGING / "uninstall.sh", DESTDIR=root).returncode == 0, "uninstalling twice is no error"


def test_unknown_option() -> None:
    done = run(PACKAGING / "install.sh", "--fast")
    assert (done.returncode, "unknown option: --fast" in done.stderr) == (1, True)


@pytest.mark.skipif(Path("/proc/modules").exists(), reason="this kernel can load modules")
def test_kernel_without_modules() -> None:
    done = run(PACKAGING / "install.sh")
    assert done.returncode == 1
    assert "cannot load modules" in done.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user to become")
@pytest.mark.parametrize("script", ["install", "uninstall"])
def test_needs_root_without_a_directory(script: str) -> None:
    done = run("setpriv", "--reuid=65534", "--clear-groups", PACKAGING / f"{script}.sh")
    assert done.returncode == 1
    assert f"must run as root (sudo make {script})" in done.stderr
