# SPDX-License-Identifier: Apache-2.0
"""The module of the version before, when the daemon starts: replaced where nothing uses it, else left alone.

A machine of `make test-packages` does it with real modules.
"""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from packages import build

UNIT = build.ROOT / "packaging/systemd/ltp-switcher.service"


def command() -> list[str]:
    """The unit's command, without systemd's prefixes and escapes."""
    lines = [
        line for line in UNIT.read_text().splitlines() if line.startswith("ExecStartPre=") and "rmmod" in line
    ]
    (line,) = lines
    return shlex.split(line.removeprefix("ExecStartPre=").lstrip("+-").replace("$$", "$"))


@pytest.mark.parametrize(
    ("loaded", "installed", "in_use", "calls"),
    [
        ("A", "A", False, []),
        ("A", "B", False, ["rmmod tcp_mutant", "modprobe tcp_mutant"]),
        ("A", "B", True, ["rmmod tcp_mutant"]),
        ("", "B", False, []),
        ("A", "", False, []),
    ],
    ids=["the same", "another", "another in use", "none is loaded", "none is installed"],
)
def test_what_is_done_with_the_loaded_module(
    loaded: str, installed: str, in_use: bool, calls: list[str], tmp_path: Path
) -> None:
    said = tmp_path / "calls"
    programs = {
        "cat": f'[ "$*" = /sys/module/tcp_mutant/srcversion ] && [ "{loaded}" ] && echo {loaded}',
        "modinfo": f'[ "$*" = "-F srcversion tcp_mutant" ] && [ "{installed}" ] && echo {installed}',
        "rmmod": f'echo "rmmod $*" >>{said}; exit {int(in_use)}',
        "modprobe": f'echo "modprobe $*" >>{said}',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(command(), env={"PATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert (said.read_text().splitlines() if said.exists() else []) == calls
    assert done.returncode == in_use
