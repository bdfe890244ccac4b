# SPDX-License-Identifier: Apache-2.0
"""The BPF program that gives new flows `mutant`. bpftool loads it, attaches it, and fills its tables.

The program and its maps are pinned in a folder that is named after the digest of the program's object file. A
folder has this name once its program is attached. Another object file gets another folder, and its program is
filled and attached before the old one is removed. So no flow begins between the two without a rule. The pins
outlive every process, so no process has to run.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from ltp_switcher.daemon.named.rules import Count, Rules, Step, Verdict, decode, steps
from ltp_switcher.errors import DatapathError

NAME: Final = "choose_mutant"
"""The program's name, as `bpftool prog` shows it."""
OBJECT: Final = "choose.bpf.o"

_ATTACH_TYPES: Final = ("sock_ops", "cgroup_sock_ops")
"""The names of the program's attach type in earlier and in later releases of bpftool."""
_NO_BPFTOOL: Final = "bpftool is missing; `apt install bpftool`"


@dataclass(frozen=True, slots=True)
class Places:
    """Paths in the file system that the program needs. Tests use others.

    Attributes:
        bpffs: mount point of the bpf file system.
        mounts: file with this process's mounts (mountinfo of proc(5)).
        btf: file with the kernel's types (BTF).
        module: folder that exists in sysfs while the kernel module is loaded.
        objects: places where the program's object file may be; the first one that exists counts.
    """

    bpffs: Path = Path("/sys/fs/bpf")
    mounts: Path = Path("/proc/self/mountinfo")
    btf: Path = Path("/sys/kernel/btf/vmlinux")
    module: Path = Path("/sys/module/tcp_mutant")
    objects: tuple[Path, ...] = tuple(
        folder / name
        for folder in Path(__file__).absolute().parents
        # Installed beside the package or above it, or built in a checkout.
        for name in (OBJECT, f"kmod-mutant/build/{OBJECT}")
    )

    @property
    def pins(self) -> Path:
        """The folder of the program's pins."""
        return self.bpffs / "ltp-switcher"

    @property
    def object_file(self) -> Path | None:
        """The path of the program's object file; None if it is not installed."""
        return next((path for path in self.objects if path.is_file()), None)

    def mounted(self, kind: str) -> list[Path]:
        """The mount points of file systems of this type. A mount of only a part of a file system does not
        count.
        """
        found = []
        for line in self.mounts.read_text().splitlines():
            before, _, after = line.partition(" - ")
            fields = before.split()
            if after.split()[:1] == [kind] and fields[3] == "/":
                found.append(Path(fields[4].encode().decode("unicode_escape")))
        return found


class Program:
    """The BPF program in this kernel, loaded or not. It gives `mutant` to new flows that the rules in its
    table name. Methods raise `DatapathError` if something fails.
    """

    def __init__(self, places: Places | None = None) -> None:
        self._places = places or Places()

    def obstacle(self) -> str:
        """The reason why the program cannot run here, with the remedy; empty if the program can run."""
        places = self._places
        if not places.btf.exists():
            return "this kernel has no BTF (CONFIG_DEBUG_INFO_BTF); Debian's kernels 6.1 and later have it"
        if not places.mounted("cgroup2"):
            return "no cgroup2 is mounted; systemd mounts one, or `mount -t cgroup2 none /sys/fs/cgroup`"
        if places.bpffs not in places.mounted("bpf"):
            return f"no bpf file system is mounted; `mount -t bpf bpf {places.bpffs}`"
        if _bpftool() is None:
            return _NO_BPFTOOL
        if places.object_file is None:
            return f"{OBJECT} is not installed; reinstall ltp-switcher, or `make kmod` in the source tree"
        return self._exclusive()

    def module_loaded(self) -> bool:
        """Whether the kernel module is loaded. Without it no flow can run `mutant`."""
        return self._places.module.exists()

    def attached(self) -> bool:
        """Whether the program, of this version or another, is attached to new flows. The answer is also no if
        this process cannot see the attached programs.
        """
        return any(entry.get("name") == NAME for entry in self._neighbours())

    def pinned(self) -> bool:
        """Whether the program is loaded. Raises `DatapathError` if this user may not see where it
        is pinned.
        """
        return bool(self._folders())

    def counts(self) -> dict[bytes, tuple[Verdict, Count]]:
        """The verdict and the count of flows for each key of a rule in the kernel's table. The result is
        empty if the program is not loaded.

        Raises:
            DatapathError: this user may not read the table, or bpftool fails.
        """
        folders = self._folders()
        return self._dump(folders[0]) if folders else {}

    def put(self, rules: Rules) -> None:
        """Make the kernel's table hold exactly these rules. The program is loaded if needed; without any
        rules, it is removed.
        """
        if not rules.table:
            self.withdraw()
            return
        obstacle = self.obstacle()
        if obstacle:
            raise DatapathError(f"the program cannot be attached: {obstacle}")
        with self._alone():
            # An earlier load may have been interrupted.
            if self._loading.is_dir():
                self._remove(self._loading)
            file = cast("Path", self._places.object_file)
            folder = self._places.pins / hashlib.sha256(file.read_bytes()).hexdigest()[:16]
            before = [other for other in self._folders() if other != folder]
            if folder.is_dir():
                self._change(folder, rules)
                if not self.attached():
                    # Somebody has detached the pinned program. Or this process may not see the attached
                    # programs, and the kernel refuses to attach a program twice.
                    with contextlib.suppress(DatapathError):
                        self._attach(folder)
            else:
                self._load(file, folder, rules, self._dump(before[0]) if before else {})
            for other in before:
                self._remove(other)

    def withdraw(self) -> None:
        """Remove the program and its pins."""
        if not self.pinned() and not self.attached():
            return
        if _bpftool() is None:
            # If only the pins were removed, the program would stay attached.
            raise DatapathError(_NO_BPFTOOL)
        with self._alone():
            for folder in self._folders():
                self._remove(folder)
            for entry in self._neighbours():
                if entry.get("name") == NAME:
                    _call("cgroup", "detach", str(self._cgroup()), "sock_ops", "id", str(entry["id"]))
            with contextlib.suppress(FileNotFoundError):
                self._places.pins.rmdir()

    @property
    def _loading(self) -> Path:
        """The folder of a load that is not finished. Its name sorts behind every digest, so that `counts`
        reads a finished load if there is one.
        """
        return self._places.pins / "loading"

    def _cgroup(self) -> Path:
        return self._places.mounted("cgroup2")[0]

    def _neighbours(self) -> list[Mapping[str, object]]:
        """The sock_ops programs at the root control group; none if this process cannot or may not ask for
        them.
        """
        if _bpftool() is None or not self._places.mounted("cgroup2"):
            return []
        try:
            told = _call("-j", "cgroup", "show", str(self._cgroup()))
        except DatapathError:
            return []
        entries = cast("list[Mapping[str, object]]", json.loads(told.strip() or "[]"))
        return [entry for entry in entries if entry.get("attach_type") in _ATTACH_TYPES]

    def _exclusive(self) -> str:
        for entry in self._neighbours():
            if entry.get("attach_flags") != "multi":
                return (
                    f"the sock_ops program {entry['id']} ({entry.get('name') or 'without a name'}) holds "
                    "the root control group for itself; its owner must attach it with BPF_F_ALLOW_MULTI"
                )
        return ""

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        try:
            descriptor = os.open(self._places.bpffs, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                yield
            finally:
                os.close(descriptor)
        except OSError as error:
            raise DatapathError(
                f"cannot change {self._places.pins}: {error.strerror}; are you root?"
            ) from error

    def _folders(self) -> list[Path]:
        """The folders of the program's pins, including the folder of an unfinished load."""
        try:
            return sorted(self._places.pins.iterdir())
        except FileNotFoundError:
            return []
        except OSError as error:
            raise DatapathError("only root may read the kernel's table") from error

    def _load(
        self, file: Path, folder: Path, rules: Rules, earlier: Mapping[bytes, tuple[Verdict, Count]]
    ) -> None:
        loading = self._loading
        loading.mkdir(parents=True, mode=0o700)
        try:
            program = str(loading / "program")
            _call("prog", "load", str(file), program, "type", "sockops", "pinmaps", str(loading))
            counts = {key: count for key, (_, count) in earlier.items()}
            self._write(loading, steps(rules, counts=counts))
            self._attach(loading)
        except DatapathError:
            self._remove(loading)
            raise
        loading.rename(folder)

    def _attach(self, folder: Path) -> None:
        pin = str(folder / "program")
        try:
            _call("cgroup", "attach", str(self._cgroup()), "sock_ops", "pinned", pin, "multi")
        except DatapathError as error:
            raise DatapathError(
                f"{error}; another program may hold the root control group for itself, which "
                f"`bpftool cgroup show {self._cgroup()}` tells as root"
            ) from error

    def _change(self, folder: Path, rules: Rules) -> None:
        """Change the entries that differ. The rules that stay keep their counts."""
        self._write(folder, steps(rules, self._dump(folder), self._entries(folder, "covers")))

    def _write(self, folder: Path, changes: Iterable[Step]) -> None:
        lines = []
        for step in changes:
            entry = f"pinned {folder / step.table} key hex {step.key.hex(' ')}"
            if step.value is None:
                lines.append(f"map delete {entry}")
            else:
                lines.append(f"map update {entry} value hex {step.value.hex(' ')}")
        with tempfile.NamedTemporaryFile("w", suffix=".bpftool") as batch:
            batch.write("\n".join(lines) + "\n")
            batch.flush()
            _call("batch", "file", batch.name)

    def _dump(self, folder: Path) -> dict[bytes, tuple[Verdict, Count]]:
        return {key: decode(value) for key, value in self._entries(folder, "rules").items()}

    def _entries(self, folder: Path, table: str) -> dict[bytes, bytes]:
        told = _call("-j", "map", "dump", "pinned", str(folder / table))
        entries = cast("list[Mapping[str, Sequence[str]]]", json.loads(told.strip() or "[]"))
        return {_bytes(entry["key"]): _bytes(entry["value"]) for entry in entries}

    def _remove(self, folder: Path) -> None:
        with contextlib.suppress(DatapathError):
            # An unfinished load is not attached, and somebody may have detached another load.
            _call("cgroup", "detach", str(self._cgroup()), "sock_ops", "pinned", str(folder / "program"))
        for pin in folder.iterdir():
            pin.unlink()
        folder.rmdir()


def _bytes(texts: Sequence[str]) -> bytes:
    return bytes(int(text, 16) for text in texts)


def _bpftool() -> str | None:
    # An ordinary user's path has no /usr/sbin.
    return shutil.which("bpftool", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin")


def _call(*arguments: str) -> str:
    """Run bpftool and return its output. Raises `DatapathError` with bpftool's error message."""
    tool = _bpftool()
    if tool is None:
        raise DatapathError(_NO_BPFTOOL)
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        told = next((line for line in said if line.startswith("Error: ")), said[-1] if said else "no reason")
        raise DatapathError(f"bpftool {' '.join(arguments[:3])}: {told.removeprefix('Error: ')[:500]}")
    return done.stdout
