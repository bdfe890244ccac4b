# SPDX-License-Identifier: Apache-2.0
"""Each part of the work installs the packages that it needs, and no others."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HEADERS = ("linux-headers-6.1.0-9-amd64", "linux-headers-6.12.9-amd64")
PROGRAMS = {
    "sudo": 'exec "$@"',
    "dpkg-query": '[ "${!#}" = git ] && echo "install ok installed"',
    "apt-cache": f"printf '%s\\n' {' '.join(HEADERS)} | grep -E -- \"${{!#}}\" | sed 's/$/ - headers/'",
    "apt-get": '[ "$1" = install ] && printf "%s\\n" "${@:5}" >"$WANTED"; exit 0',
}


def installed(folder: Path, *arguments: str) -> set[str]:
    """Packages that the script installs on a machine that has git alone."""
    for name, text in PROGRAMS.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    wanted = folder / "wanted"
    environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "WANTED": str(wanted)}
    subprocess.run([".ci/install-packages", *arguments], cwd=ROOT, env=environment, check=True, timeout=60)
    return set(wanted.read_text().split())


def test_the_demo_fetches_no_browser_and_one_kernels_headers(tmp_path: Path) -> None:
    found = installed(tmp_path, "lab")
    assert {"python3-venv", "qemu-system-x86", "build-essential", "linux-headers-6.1.0-9-amd64"} <= found
    assert not {"git", "chromium", "dkms", "clang", "linux-headers-6.12.9-amd64"} & found


def test_python_needs_neither_lab_nor_kernel(tmp_path: Path) -> None:
    assert installed(tmp_path, "python") == {"ca-certificates", "make", "python3", "python3-venv"}


@pytest.mark.parametrize("part", [(), ("all",)])
def test_all_is_the_default_and_takes_more(tmp_path: Path, part: tuple[str, ...]) -> None:
    found = installed(tmp_path, *part, "dh-dkms")
    assert {"chromium", "qemu-system-x86", "python3-venv", "dh-dkms", *HEADERS} <= found
