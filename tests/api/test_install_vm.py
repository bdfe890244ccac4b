# SPDX-License-Identifier: Apache-2.0
"""A whole installation in a Debian machine with systemd: install, run, break, remove.

The machine is made by mmdebstrap (kept in the cache), the installation is done in its file system, and
then it boots under QEMU and runs guest/installed.sh. Needs root, `apt install mmdebstrap`, and 10 minutes.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("LTP_CACHE", REPOSITORY / ".cache")) / "install-vm"
PACKAGES = (
    "systemd", "systemd-sysv", "udev", "dbus", "kmod", "initramfs-tools", "dkms", "make", "python3",
    "python3-venv", "curl", "iproute2", "jq", "procps", "iperf3", "clang", "libbpf-dev", "bpftool",
)  # fmt: skip
SERVICE = """\
[Unit]
After=systemd-sysctl.service dbus.service
[Service]
Type=oneshot
ExecStart=/bin/bash /checkout/tests/api/guest/installed.sh
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
ExecStopPost=/bin/systemctl poweroff -f
"""
INSTALL = """\
set -e
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
exec chroot "$1" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root KERNEL="$2" PIP_NO_INDEX=1 \\
    PIP_FIND_LINKS=/wheels /checkout/packaging/install.sh
"""
TIMEOUT_S = 1800

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        os.getuid() != 0 or not shutil.which("mmdebstrap"), reason="needs root and mmdebstrap"
    ),
]


def run(*command: str | Path, cwd: Path = REPOSITORY) -> str:
    done = subprocess.run(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]
    return done.stdout


def base(kernel: str) -> Path:
    """The archive of a Debian machine with that kernel."""
    packages = hashlib.sha256(" ".join(PACKAGES).encode()).hexdigest()[:8]
    archive = CACHE / f"{kernel}-{packages}.tar"
    if not archive.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        include = ",".join((*PACKAGES, f"linux-image-{kernel}", f"linux-headers-{kernel}"))
        partial = archive.with_suffix(".partial.tar")
        run("mmdebstrap", "--variant=minbase", f"--include={include}", "bookworm", partial)
        partial.rename(archive)
    return archive


def boot(machine: Path, kernel: str, image: Path) -> str:
    """What the machine prints until it turns itself off."""
    console = image.with_suffix(".console")
    run("mke2fs", "-q", "-t", "ext4", "-d", machine, image, "4G")
    run(
        "timeout", str(TIMEOUT_S), "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "2048",
        "-display", "none", "-serial", f"file:{console}", "-no-reboot", "-nic", "none",
        "-kernel", machine / f"boot/vmlinuz-{kernel}", "-initrd", machine / f"boot/initrd.img-{kernel}",
        "-drive", f"file={image},format=raw,if=virtio,cache=unsafe",
        "-append", "root=/dev/vda rw console=ttyS0 panic=-1 quiet systemd.show_status=0 "
        "systemd.mask=serial-getty@ttyS0.service",
    )  # fmt: skip
    return console.read_text(errors="replace")


def copy_of_the_repository(target: Path) -> None:
    for name in run("git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines():
        if (REPOSITORY / name).exists():
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, target / name, follow_symlinks=False)


def failed(lines: Sequence[str]) -> list[str]:
    return [line for line in lines if not line.startswith("CHECK ok ")]


def test_install_run_remove(tmp_path: Path) -> None:
    kernel = run(".ci/kernel-release", "6.1").strip()
    machine = tmp_path / "machine"
    machine.mkdir()
    run("tar", "-xf", base(kernel), "-C", machine)
    copy_of_the_repository(machine / "checkout")
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--require-hashes")
    run(*pip, "-r", "requirements-runtime.lock", "-d", machine / "wheels")
    run("unshare", "-m", "bash", "-c", INSTALL, "install", machine, kernel)
    units = machine / "etc/systemd/system"
    (units / "checks.service").write_text(SERVICE)
    (units / "multi-user.target.wants").mkdir(exist_ok=True)
    (units / "multi-user.target.wants/checks.service").symlink_to("../checks.service")

    printed = boot(machine, kernel, tmp_path / "disk.img")
    checks = [line.strip() for line in printed.splitlines() if line.startswith("CHECK ")]
    assert checks, printed[-3000:]
    assert failed(checks) == ["CHECK end"], printed[-6000:]
