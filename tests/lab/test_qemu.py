# SPDX-License-Identifier: Apache-2.0
"""The time limit of a virtual machine, with programs in QEMU's place."""

from __future__ import annotations

from pathlib import Path

import pytest

from ltp_switcher.errors import LabError
from ltp_switcher.eval.lab import qemu


def execute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, machine: qemu.Machine) -> None:
    """Run a shell program as QEMU for half a second at most."""
    fake = tmp_path / "qemu-system-x86_64"
    fake.write_text(f"#!/bin/sh\n{program}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    image = tmp_path / "vmlinux"
    image.touch()
    qemu.execute(
        image, [], seed=1, memory_mb=1, parameters="", timeout_s=0.5, on_line=None, machine=machine
    )  # fmt: skip


def test_a_machine_may_wait_for_a_processor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LabError, match="without booting"):
        execute(tmp_path, monkeypatch, "sleep 1.5", qemu.LAB)


def test_a_machine_that_works_in_vain_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LabError, match=r"within 0\.5 s of processor time"):
        execute(tmp_path, monkeypatch, "while :; do :; done", qemu.LAB)


def test_a_halted_machine_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "_STALLED_S", 1.0)
    with pytest.raises(LabError, match="without any work"):
        execute(tmp_path, monkeypatch, "exec sleep 1000", qemu.LAB)


def test_a_machine_in_the_hosts_time_has_its_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(LabError, match=r"within 0\.5 s of wall time"):
        execute(tmp_path, monkeypatch, "exec sleep 1000", qemu.Machine(one_processor=False))
