# SPDX-License-Identifier: Apache-2.0
"""The program without a lab: it loads on this machine's kernel, and each obstacle is told with its remedy."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from support.named_lab import program_object

from ltp_switcher.daemon.named import program as module
from ltp_switcher.daemon.named.program import Places, Program
from ltp_switcher.daemon.named.rules import Rules, flatten
from ltp_switcher.daemon.settings.policies import Policies
from ltp_switcher.daemon.settings.prefixes import prefix_of
from ltp_switcher.errors import DatapathError

LOAD = """
set -e
mount -t bpf bpf /sys/fs/bpf || exit 77
mkdir /sys/fs/bpf/test
bpftool prog load "$0" /sys/fs/bpf/test/program type sockops pinmaps /sys/fs/bpf/test
bpftool prog show pinned /sys/fs/bpf/test/program
"""
NO_RIGHT = 77
MOUNTS = """\
26 21 0:23 / /sys/fs/cgroup/unified rw - cgroup2 none rw
27 21 0:24 / /sys/fs/bpf rw,relatime shared:9 - bpf bpf rw
28 21 0:23 /part /run/with\\040space rw - cgroup2 none rw
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a bpf file system of its own")
def test_the_program_loads_on_this_kernel() -> None:
    command = ["unshare", "--mount", "bash", "-c", LOAD, str(program_object())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == NO_RIGHT:
        pytest.skip(f"no bpf file system here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    assert "choose_mutant" in done.stdout


def test_the_object_tells_nothing_of_where_it_was_built() -> None:
    assert str(Path(__file__).resolve().parents[3]).encode() not in program_object().read_bytes()


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A machine that has all that the program needs."""
    for name in ("vmlinux", "choose.bpf.o"):
        (tmp_path / name).touch()
    (tmp_path / "mounts").write_text(MOUNTS)
    return Places(
        bpffs=Path("/sys/fs/bpf"),
        mounts=tmp_path / "mounts",
        btf=tmp_path / "vmlinux",
        module=tmp_path / "none",
        objects=(tmp_path / "gone.o", tmp_path / "choose.bpf.o"),
    )


@pytest.fixture
def bpftool(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A bpftool that prints the file `told`."""
    tool = tmp_path / "bin/bpftool"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\ncat "{tmp_path}/told"\n')
    tool.chmod(0o755)
    (tmp_path / "told").write_text("\n")
    monkeypatch.setattr(module, "_bpftool", lambda: str(tool))
    return tmp_path / "told"


STAND_IN = """#!/bin/sh
echo "$*" >>"{folder}/calls"
case "$1 $2" in
"prog load") touch "$4" "$8/rules" "$8/covers" "$8/summary" ;;
"-j map") echo "[]" ;;
esac
"""


@pytest.fixture
def kernel(places: Places, bpftool: Path, tmp_path: Path) -> Places:
    """A machine whose bpf file system is a folder, and whose bpftool notes its calls and makes the pins."""
    (tmp_path / "bin/bpftool").write_text(STAND_IN.format(folder=tmp_path))
    (tmp_path / "bpf").mkdir()
    (tmp_path / "mounts").write_text(MOUNTS.replace("/sys/fs/bpf", str(tmp_path / "bpf")))
    assert bpftool.exists()
    return replace(places, bpffs=tmp_path / "bpf")


RULES = flatten([prefix_of("203.0.113.0/24")], Policies(), {}, 1)


def test_a_load_that_was_interrupted_is_cleared_and_done_again(kernel: Places, tmp_path: Path) -> None:
    (kernel.pins / "loading").mkdir(parents=True)
    (kernel.pins / "loading/program").touch()
    Program(kernel).put(RULES)
    (folder,) = kernel.pins.iterdir()
    assert folder.name != "loading"
    assert sorted(pin.name for pin in folder.iterdir()) == ["covers", "program", "rules", "summary"]
    calls = (tmp_path / "calls").read_text().splitlines()
    steps = [" ".join(call.split()[:2]) for call in calls if not call.startswith("-j")]
    assert steps == ["cgroup detach", "prog load", "batch file", "cgroup attach"]
    Program(kernel).put(Rules({}, ()))
    assert not kernel.pins.exists()


def test_without_bpftool_the_pins_stay_as_long_as_the_program(
    kernel: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    Program(kernel).put(RULES)
    monkeypatch.setattr(module, "_bpftool", lambda: None)
    with pytest.raises(DatapathError, match="apt install bpftool"):
        Program(kernel).withdraw()
    assert list(kernel.pins.rglob("program"))


def test_a_user_who_may_not_change_the_kernel_is_told(kernel: Places) -> None:
    kernel.bpffs.rmdir()
    with pytest.raises(DatapathError, match="are you root"):
        Program(kernel).put(RULES)


def test_mounts_are_read_as_the_kernel_writes_them(places: Places) -> None:
    assert places.mounted("cgroup2") == [Path("/sys/fs/cgroup/unified")]
    assert places.mounted("bpf") == [Path("/sys/fs/bpf")]
    assert places.mounted("btrfs") == []


def test_each_obstacle_is_told_with_its_remedy(
    places: Places, bpftool: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert Program(places).obstacle() == ""
    assert not Program(places).module_loaded()
    empty = tmp_path / "empty"
    empty.write_text("")
    for changed, words in (
        (replace(places, btf=tmp_path / "none"), "no BTF"),
        (replace(places, mounts=empty), "no cgroup2 is mounted"),
        (replace(places, bpffs=Path("/bpf")), "mount -t bpf bpf /bpf"),
        (replace(places, objects=()), "choose.bpf.o is not installed"),
    ):
        assert words in Program(changed).obstacle()
    for flags in ("", "override"):
        entry = f'[{{"id":7,"attach_type":"cgroup_sock_ops","attach_flags":"{flags}","name":"theirs"}}]'
        bpftool.write_text(entry)
        assert "sock_ops program 7 (theirs) holds the root control group" in Program(places).obstacle()
    bpftool.write_text('[{"id":7,"attach_type":"sock_ops","attach_flags":"multi","name":"theirs"}]')
    assert Program(places).obstacle() == ""
    assert not Program(places).attached()
    bpftool.write_text('[{"id":7,"attach_type":"sock_ops","attach_flags":"multi","name":"choose_mutant"}]')
    assert Program(places).attached()
    monkeypatch.setattr(module, "_bpftool", lambda: None)
    assert "apt install bpftool" in Program(places).obstacle()


def test_rules_are_refused_where_the_program_cannot_run_and_none_are_none_to_refuse(
    places: Places, bpftool: Path, tmp_path: Path
) -> None:
    assert bpftool.exists()
    program = Program(replace(places, btf=tmp_path / "none", bpffs=tmp_path / "bpf"))
    program.put(Rules({}, ()))
    with pytest.raises(DatapathError, match="no BTF"):
        program.put(RULES)
