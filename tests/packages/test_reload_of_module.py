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


def command(module: Path) -> list[str]:
    """The unit's command, without systemd's prefixes and escapes; the loaded module is shown in `module`."""
    lines = [
        line for line in UNIT.read_text().splitlines() if line.startswith("ExecStartPre=") and "rmmod" in line
    ]
    (line,) = lines
    assert line.count("/sys/module/tcp_mutant") == 2
    return shlex.split(
        line.removeprefix("ExecStartPre=")
        .lstrip("+-")
        .replace("$$", "$")
        .replace("/sys/module/tcp_mutant", str(module))
    )


@pytest.mark.parametrize(
    ("loaded", "installed", "in_use", "calls"),
    [
        ("A", "A", False, []),
        ("A", "B", False, ["rmmod tcp_mutant", "modprobe tcp_mutant"]),
        ("A", "B", True, ["rmmod tcp_mutant"]),
        ("", "B", False, ["rmmod tcp_mutant", "modprobe tcp_mutant"]),
        (None, "B", False, []),
        ("A", None, False, []),
    ],
    ids=["the same", "another", "in use", "an early version", "none is loaded", "none is installed"],
)
def test_what_is_done_with_the_loaded_module(
    loaded: str | None, installed: str | None, in_use: bool, calls: list[str], tmp_path: Path
) -> None:
    said, module = tmp_path / "calls", tmp_path / "module"
    if loaded is not None:
        module.mkdir()
    if loaded:
        (module / "srcversion").write_text(f"{loaded}\n")
    programs = {
        "modinfo": f'[ "$*" = "-F srcversion tcp_mutant" ] && echo {installed}' if installed else "exit 1",
        "rmmod": f'echo "rmmod $*" >>{said}; exit {int(in_use)}',
        "modprobe": f'echo "modprobe $*" >>{said}',
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    done = subprocess.run(command(module), env=environment, capture_output=True, text=True, check=False)
    assert (said.read_text().splitlines() if said.exists() else []) == calls
    assert done.returncode == in_use
