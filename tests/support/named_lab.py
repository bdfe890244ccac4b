# SPDX-License-Identifier: Apache-2.0
"""The guest of `ltp-switcher use`: bpftool, the BPF program, another one, and modules that layouts need."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

from ltp_switcher.eval.lab import BootResult, boot, kernels
from ltp_switcher.eval.lab.layers import layer, package_entries
from ltp_switcher.eval.lab.packages import candidates
from support import chance
from support.module_lab import PREPARE, REPOSITORY, bpf_object, guest_files

GUEST = REPOSITORY / "tests/support/named_guest"
PACKAGES = ("bpftool",)
PREFIXES = "/etc/ltp-switcher/prefixes"
REPORT, WINNERS, COSTS = "/tmp/report.json", "/tmp/winners.json", "/tmp/costs.json"  # noqa: S108


def program_object() -> Path:
    """Build the program, and return its object."""
    subprocess.run(["make", "-s", "-C", str(REPOSITORY / "kmod-mutant"), "bpf"], check=True)
    return REPOSITORY / "kmod-mutant/build/choose.bpf.o"


def overlay(series: str, folder: Path) -> dict[str, Path | bytes]:
    """The guest's files; `folder` is for what is built."""
    files: dict[str, Path | bytes] = {
        "usr/lib/python3/dist-packages/choose.bpf.o": program_object().read_bytes(),
        "opt/bpf/other.bpf.o": bpf_object(
            REPOSITORY / "tests/kmod/sock_ops/other.bpf.c", folder
        ).read_bytes(),
        # Another object of the same program, as another version would bring it.
        "opt/bpf/next.bpf.o": bpf_object(REPOSITORY / "kmod-mutant/bpf/choose.bpf.c", folder).read_bytes(),
    }
    files |= {f"opt/tests/named_guest/{path.name}": path for path in GUEST.glob("*.py")}
    modules = kernels.kernel(series).modules
    files |= {
        f"opt/modules/{path.name.partition('.ko')[0]}.ko": kernels.read_module(path)
        for path in modules.rglob("vrf.ko*")
    }
    return files | guest_files()


def run(series: str, group: str, folder: Path, kept: Mapping[str, Path | bytes] | None = None) -> BootResult:
    """Boot the kernel and run a group of checks. `kept` are files of an earlier boot."""
    script = f"mkdir -p /etc/ltp-switcher\npython3 -m named_guest.main {group}"
    return boot(
        kernel=series,
        script=PREPARE + chance.SCRIPT + script,
        overlay=overlay(series, folder) | dict(kept or {}),
        collect=[REPORT, WINNERS, COSTS, PREFIXES],
        python=True,
        layers=[layer("bpftool", [str(candidates(PACKAGES))], lambda: package_entries(PACKAGES))],
        modules=("veth",),
        timeout_s=1200,
    )
