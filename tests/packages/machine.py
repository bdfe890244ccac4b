# SPDX-License-Identifier: Apache-2.0
"""A Debian machine: made by mmdebstrap, booted under QEMU without KVM, and read over its serial ports.

Its network has no way out. Two ports of this machine's loopback lead into it, for a browser.
"""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from packages.build import CACHE, ROOT, FailedError, Release, key, newer_python, run
from packages.matrix import Check

GUEST: Final = Path(__file__).parent / "guest"
INCLUDE: Final = (
    "systemd", "systemd-sysv", "udev", "dbus", "kmod", "initramfs-tools", "dkms", "ccache", "python3", "curl",
    "bpftool", "iproute2", "jq", "procps", "lintian", "passwd", "linux-image-amd64", "linux-headers-amd64",
)  # fmt: skip
HOOK: Final = """\
mkdir -p "$1/python"
chroot "$1" sh -c "cd /python &&
    apt-get download -q python{0} python{0}-minimal libpython{0}-stdlib libpython{0}-minimal"
"""
SERVICE: Final = """\
[Unit]
Description=Checks of the packages
After=systemd-sysctl.service dbus.service
[Service]
Type=oneshot
ExecStartPre=/bin/mount -o ro LABEL=packages /mnt
ExecStart=/bin/bash /mnt/start
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
ExecStopPost=/bin/systemctl poweroff -f
[Install]
WantedBy=multi-user.target
"""
# The emulated processor is ten times slower than a real one, and has to share that.
SLOW: Final = "[Manager]\nDefaultTimeoutStartSec=15min\n"
# Without drivers of absent hardware: depmod reads each module several times for an upgrade; it took the most.
TRIM: Final = """\
set -e
kernel=$(basename "$1"/lib/modules/*)
cd "$1/lib/modules/$kernel/kernel"
rm -rf sound drivers/net/{ethernet,wireless,usb,phy,can}
find drivers -mindepth 1 -maxdepth 1 -type d -regextype egrep ! -regex 'drivers/(net|block|virtio|char)' \\
    -exec rm -r {} +
depmod -b "$1" "$kernel"
"""
COMPILE: Final = """\
set -e
tree=$1 cache=$2 deb=$3
mount -t proc proc "$tree/proc"
mount --rbind /dev "$tree/dev"
mkdir -p "$tree/ccache"
mount --bind "$cache" "$tree/ccache"
kernel=$(readlink "$tree/vmlinuz" | sed 's|.*vmlinuz-||')
version=$(dpkg-deb -f "$deb" Version | sed 's/+deb.*//')
dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$tree" ./usr/src
chroot "$tree" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin CCACHE_DIR=/ccache DEBIAN_KERNEL_USE_CCACHE=1 \\
    dkms build -m tcp_mutant -v "$version" -k "$kernel"
chroot "$tree" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin dkms remove -m tcp_mutant -v "$version" --all
rm -r "$tree/usr/src/tcp_mutant-$version"
"""
CHROOT: Final = """\
set -e
tree=$1 scratch=$2 folder=$3 logs=$4
shift 4
mkdir "$scratch"/{upper,work,merged}
mount -t overlay -o "lowerdir=$tree,upperdir=$scratch/upper,workdir=$scratch/work" overlay "$scratch/merged"
mount -t proc proc "$scratch/merged/proc"
mount --rbind /dev "$scratch/merged/dev"
mount --bind "$folder" "$scratch/merged/mnt"
mount --bind "$logs" "$scratch/merged/srv"
kernel=$(readlink "$tree/vmlinuz" | sed 's|.*vmlinuz-||')
chroot "$scratch/merged" env -i REPORT=/srv/checks.jsonl /bin/bash /mnt/guest/chroot.sh /mnt "$@" "$kernel"
"""
TIMEOUT_S: Final = 3 * 3600
# Without what QEMU emulates in many steps, and glibc would use all the time.
PROCESSOR: Final = "max,-erms,-fsrm,-avx,-avx2,-fma,-f16c,-pku"
KERNEL: Final = (
    "root=/dev/vda rw console=ttyS0 panic=-1 quiet net.ifnames=0 "
    "mitigations=off nowatchdog audit=0 init_on_alloc=0 "
    "systemd.show_status=0 systemd.mask=serial-getty@ttyS0.service systemd.mask=serial-getty@ttyS1.service"
)
# The machine's own disk, here and in a machine's folder.
DISK: Final = "disk.img"
# QEMU's own network has this address for its one machine.
ADDRESS: Final = "10.0.2.15"
# The check after which the machine waits for a browser.
READY: Final = "ready for a browser"
# The check after which the machine boots again. It says the name of the stage that comes then.
REBOOT: Final = "reboot"


@dataclass(frozen=True)
class Ports:
    """TCP ports of the loopback: `dashboard` leads to the dashboard, `results` takes the browser's checks."""

    dashboard: int
    results: int


def base(release: Release) -> Path:
    """Folder with a machine: `disk.img` (ext4), its `tree`, `vmlinuz`, `initrd.img`; packages in `python/`.

    The machine has the current packages of the day on which it was made. Raises `FailedError`.
    """
    place = CACHE / "machines" / f"{release.number}-{key(*INCLUDE, HOOK, TRIM, SERVICE, SLOW)}"
    if place.exists():
        return place
    partial = place.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    tree = partial / "tree"
    partial.mkdir(parents=True)
    run(
        "mmdebstrap", "--variant=apt", "--dpkgopt=force-unsafe-io", "--format=directory",
        f"--include={','.join(INCLUDE)}", f"--customize-hook={HOOK.format(release.python)}",
        release.suite, tree,
        log=place.with_suffix(".log"),
    )  # fmt: skip
    run("bash", "-c", TRIM, "trim", tree)
    (tree / "etc/systemd/system/checks.service").write_text(SERVICE)
    (tree / "etc/systemd/system.conf.d").mkdir(exist_ok=True)
    (tree / "etc/systemd/system.conf.d/slow.conf").write_text(SLOW)
    wants = tree / "etc/systemd/system/multi-user.target.wants"
    wants.mkdir(exist_ok=True)
    (wants / "checks.service").symlink_to("../checks.service")
    (tree / "etc/hostname").write_text("machine\n")
    newer_python((tree / "python").glob("*.deb"), partial / "python")
    shutil.rmtree(tree / "python")
    for name in ("vmlinuz", "initrd.img"):
        shutil.copy(tree / name, partial / name)
    run("mke2fs", "-q", "-t", "ext4", "-d", tree, partial / DISK, "5G")
    partial.rename(place)
    return place


def compiled(base_of: Path, debs: Path) -> Path:
    """Folder for ccache with the module's objects, compiled in the machine's own tree.

    The emulated compiler would need a quarter of an hour for each DKMS build. ccache gives DKMS the same
    objects. Raises `FailedError`.
    """
    place = CACHE / "compiled" / key(base_of.name, debs.name)
    if not place.exists():
        partial = place.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        (source,) = debs.glob("ltp-switcher-dkms_*.deb")
        log = place.with_suffix(".log")
        run("unshare", "-m", "bash", "-c", COMPILE, "compile", base_of / "tree", partial, source, log=log)
        partial.rename(place)
    return place


def archive(base_of: Path, debs: tuple[Path, Path], folder: Path) -> None:
    """Fill a folder: the packages as an archive for apt, what ccache needs, and the checks."""
    packages = folder / "debs"
    packages.mkdir()
    for place in (*debs, base_of / "python"):
        for deb in place.glob("*.deb"):
            shutil.copy(deb, packages)
    (packages / "Packages").write_text(_index(packages))
    for place in debs:
        shutil.copytree(compiled(base_of, place), folder / "ccache", dirs_exist_ok=True)
    shutil.copy(ROOT / "packaging/lintian-suppressed", folder)
    shutil.copytree(GUEST, folder / "guest", ignore=shutil.ignore_patterns("__pycache__"))


def run_in_chroot(base_of: Path, folder: Path, versions: tuple[str, str], logs: Path) -> list[Check]:
    """Run chroot.sh in a copy of the machine's tree, without a network. `folder` is at /mnt.

    `versions`: older, newer. Returns the checks. Raises `FailedError` if it stops before the last.
    """
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "checks.jsonl").write_bytes(b"")
    with tempfile.TemporaryDirectory() as scratch:
        run(
            "unshare", "-m", "-n", "bash", "-c", CHROOT, "chroot", base_of / "tree", scratch, folder, logs,
            *versions,
            log=logs / "console.txt",
        )  # fmt: skip
    return _whole(logs)


def _index(archive: Path) -> str:
    done = subprocess.run(
        ["dpkg-scanpackages", "--multiversion", "."], cwd=archive, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise FailedError(f"dpkg-scanpackages failed:\n{done.stderr[-3000:]}")
    return done.stdout


def second_disk(folder: Path, arguments: tuple[str, ...], disk: Path) -> None:
    """A disk with a folder's content. The machine runs run.sh from it, with these arguments."""
    disk.parent.mkdir(parents=True, exist_ok=True)
    disk.unlink(missing_ok=True)
    (folder / "start").write_text(f"/bin/bash /mnt/guest/run.sh /mnt {' '.join(arguments)}\n")
    run("mke2fs", "-q", "-t", "ext4", "-L", "packages", "-d", folder, disk, "1G")


@contextmanager
def booted(base_of: Path, disk: Path, logs: Path, ports: Ports) -> Iterator[subprocess.Popen[bytes]]:
    """A machine that runs on `disk.img` of `logs` until it would boot again, or panics.

    It adds to `console.txt` and `checks.jsonl` there.
    """
    forwards = (
        f"hostfwd=tcp:127.0.0.1:{here}-{ADDRESS}:{there}"
        for here, there in ((ports.dashboard, 80), (ports.results, 81))
    )
    process = subprocess.Popen(
        [
            "qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", PROCESSOR, "-smp", "2", "-m", "2048",
            "-nodefaults", "-vga", "none", "-display", "none", "-no-reboot",
            "-nic", ",".join(("user,model=virtio-net-pci,restrict=on", *forwards)),
            *_serial(logs / "console.txt"), *_serial(logs / "checks.jsonl"),
            "-kernel", str(base_of / "vmlinuz"), "-initrd", str(base_of / "initrd.img"),
            "-drive", f"file={logs / DISK},format=raw,if=virtio,cache=unsafe",
            "-drive", f"file={disk},format=raw,if=virtio,readonly=on",
            "-append", KERNEL,
        ],
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def _serial(file: Path) -> tuple[str, ...]:
    return ("-chardev", f"file,id={file.stem},path={file},append=on", "-serial", f"chardev:{file.stem}")


def _copy(disk: Path, to: Path) -> None:
    # Most of a disk is empty.
    run("cp", "--sparse=always", disk, to)


def _begin(base_of: Path, logs: Path, stage: str | None) -> None:
    """Make the machine's disk and its checks so far: new ones, or those kept at a stage of an earlier run."""
    if stage is None:
        for kept in logs.glob("stage-*"):
            kept.unlink()
        (logs / "checks.jsonl").write_bytes(b"")
        _copy(base_of / DISK, logs / DISK)
    elif (logs / f"stage-{stage}.img").exists():
        shutil.copy(logs / f"stage-{stage}.jsonl", logs / "checks.jsonl")
        _copy(logs / f"stage-{stage}.img", logs / DISK)
    else:
        there = ", ".join(sorted(file.stem.removeprefix("stage-") for file in logs.glob("stage-*.img")))
        raise FailedError(f"no machine is kept at the stage {stage}; those kept: {there or 'none'}")
    (logs / "console.txt").write_bytes(b"")


def _keep(logs: Path, stage: str) -> None:
    _copy(logs / DISK, logs / f"stage-{stage}.img")
    shutil.copy(logs / "checks.jsonl", logs / f"stage-{stage}.jsonl")


def free_ports() -> Ports:
    """Two ports that nobody uses now."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        return Ports(one.getsockname()[1], other.getsockname()[1])


def checks(logs: Path) -> list[Check]:
    """The checks that the machine has reported so far."""
    lines = (logs / "checks.jsonl").read_text(errors="replace").splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n") and line.startswith("{")]


def run_checks(
    base_of: Path, disk: Path, logs: Path, seen: Callable[[Check, Ports], None], stage: str | None = None
) -> list[Check]:
    """Boot, and give each check to `seen` as it comes, with the machine's ports. Returns all.

    Each boot but the first begins a stage, and the machine is kept as it was then. With `stage` a machine
    goes on from there. Raises `FailedError` if the machine stops before its last check, or hangs.
    """
    logs.mkdir(parents=True, exist_ok=True)
    _begin(base_of, logs, stage)
    told = len(checks(logs))
    give_up_s = time.monotonic() + TIMEOUT_S
    boots_again = True
    while boots_again:
        ports = free_ports()
        with booted(base_of, disk, logs, ports) as process:
            runs = True
            while runs:
                runs = process.poll() is None and time.monotonic() < give_up_s
                now = checks(logs)
                for check in now[told:]:
                    seen(check, ports)
                told = len(now)
                if runs:
                    time.sleep(1)
        boots_again = bool(now) and now[-1]["check"] == REBOOT and time.monotonic() < give_up_s
        if boots_again:
            _keep(logs, str(now[-1]["said"]))
    (logs / DISK).unlink()
    return _whole(logs)


def _whole(logs: Path) -> list[Check]:
    done = checks(logs)
    if not done or done[-1]["step"] != "end":
        console = (logs / "console.txt").read_text(errors="replace")
        raise FailedError(f"it stopped before its last check:\n{console[-3000:]}")
    return done
